#include "telemetry/trace.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/check.h"

namespace falaj::telemetry {
namespace {

bool all_zero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

void fill_random(std::span<std::uint8_t> bytes) {
  ssize_t got = -1;
  do {
    got = ::getrandom(bytes.data(), bytes.size(), 0);
    FALAJ_CHECK(got == static_cast<ssize_t>(bytes.size()) || errno == EINTR);
    // An id of zeros means "none", so it is drawn again.
  } while (got < 0 || all_zero(bytes));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool read_hex(std::string_view text, std::span<std::uint8_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

void append_hex(std::string& out, std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  TraceContext context;
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  if (!read_hex(text, {&version, 1}) || !read_hex(text.substr(3), context.trace_id) ||
      !read_hex(text.substr(36), context.span_id) || !read_hex(text.substr(53), {&flags, 1})) {
    return std::nullopt;
  }
  if (version == 0xff || all_zero(context.trace_id) || all_zero(context.span_id)) {
    return std::nullopt;
  }
  // Version 00 ends here; a later one may go on after a dash.
  if (text.size() > kLength && (version == 0 || text[kLength] != '-')) return std::nullopt;
  context.sampled = (flags & 1) != 0;
  return context;
}

std::string to_traceparent(const TraceContext& context) {
  std::string out = "00-";
  append_hex(out, context.trace_id);
  out += '-';
  append_hex(out, context.span_id);
  return out + (context.sampled ? "-01" : "-00");
}

TraceContext new_trace() {
  TraceContext context;
  fill_random(context.trace_id);
  fill_random(context.span_id);
  return context;
}

TraceContext child_of(const TraceContext& parent) {
  TraceContext context = parent;
  fill_random(context.span_id);
  return context;
}

std::string new_request_id() {
  std::array<std::uint8_t, 16> bytes{};
  fill_random(bytes);
  std::string out;
  append_hex(out, bytes);
  return out;
}

RequestIdCheck check_request_id(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  const bool good =
      !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), allowed);
  return good ? RequestIdCheck::kTakenOver : RequestIdCheck::kRefused;
}

}  // namespace falaj::telemetry
