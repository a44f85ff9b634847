#include <array>
#include <charconv>

#include "base/log.h"
#include "net/internal/replies.h"
#include "net/text.h"

namespace falaj::net {
namespace {

// On every reply: no guessing of types, no reading from another site's page.
constexpr std::string_view kSecurityHeaders =
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";
// On what a browser may show as a page.
constexpr std::string_view kPageHeaders =
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "X-Frame-Options: DENY\r\n";

// Data that no browser shows as a page. With nosniff it never becomes one.
bool is_data(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type == "application/json" || type == "application/problem+json" ||
         type == "application/octet-stream";
}

// What the server alone decides.
constexpr std::array<std::string_view, 8> kOwnHeaders{
    "Content-Length", "Transfer-Encoding", "Connection",  "Date",
    "Content-Type",   "X-Request-Id",      "traceparent", "X-Content-Type-Options"};

struct Phrase {
  int status;
  std::string_view text;
};
constexpr std::array<Phrase, 36> kPhrases{{
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
}};

bool may_pass(std::string_view name, std::string_view value) {
  constexpr std::string_view kSplitting("\r\n\0", 3);
  if (name.empty() || name.find_first_of(kSplitting) != std::string_view::npos ||
      name.find_first_of(": ") != std::string_view::npos ||
      value.find_first_of(kSplitting) != std::string_view::npos) {
    log::error("reply header dropped: it would split the reply", {{"name_bytes", name.size()}});
    return false;
  }
  for (const std::string_view own : kOwnHeaders) {
    if (equal_ignoring_case(name, own)) return false;
  }
  return true;
}

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void append_status_line(std::string& out, int status) {
  if (status == 200) {
    out += "HTTP/1.1 200 OK\r\n";
    return;
  }
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(status));
  out.append(" ").append(reason_phrase(status)).append("\r\n");
}

}  // namespace

std::string_view reason_phrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "";
}

std::string http_date(std::time_t seconds) {
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  // Not strftime: its names follow the locale.
  const int size = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                 kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                                 kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900,
                                 utc.tm_hour, utc.tm_min, utc.tm_sec);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

void append_reply_head(std::string& out, const ReplyHead& head) {
  const Response& response = head.response;
  append_status_line(out, response.status);
  append_line(out, "Date", head.date);
  if (head.framing != Framing::kNone && !response.content_type.empty() &&
      response.content_type.find_first_of("\r\n") == std::string::npos) {
    append_line(out, "Content-Type", response.content_type);
  }
  if (head.framing == Framing::kLength) {
    out += "Content-Length: ";
    append_number(out, head.body_bytes);
    out += "\r\n";
  } else if (head.framing == Framing::kChunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  append_line(out, "X-Request-Id", head.request.request_id);
  // Who traces sent one; for the others the request id is enough.
  if (!find_header(head.request.headers, "traceparent").empty()) {
    append_line(out, "traceparent", head.request.traceparent);
  }
  out += kSecurityHeaders;
  if (!is_data(response.content_type)) out += kPageHeaders;
  for (const auto& [name, value] : response.headers) {
    if (may_pass(name, value)) append_line(out, name, value);
  }
  out += head.after == AfterReply::kClose ? "Connection: close\r\n\r\n" : "\r\n";
}

}  // namespace falaj::net
