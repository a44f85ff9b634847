#include "storage/redis/url.h"

#include <algorithm>
#include <charconv>

namespace falaj::storage::redis {
namespace {

constexpr std::int64_t kDatabaseMax = 65'535;

// The whole of `text` as a number from `least` to `most`.
bool read_number(std::string_view text, std::int64_t least, std::int64_t most, std::int64_t& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() &&
         out >= least && out <= most;
}

bool is_clean(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// "[::1]:6380", "cache:6380", "10.0.0.7".
bool read_authority(std::string_view text, Url& url) {
  std::string_view host = text.substr(0, text.find(':'));
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    text.remove_prefix(host.size());
  }
  url.host = host;
  if (host.empty() || host.find_first_of("?#%[]") != std::string_view::npos) return false;
  if (text.empty()) return true;
  std::int64_t port = 0;
  if (!text.starts_with(':') || !read_number(text.substr(1), 1, 65'535, port)) return false;
  url.port = static_cast<std::uint16_t>(port);
  return true;
}

}  // namespace

std::string Url::shown() const {
  const bool brackets = host.find(':') != std::string::npos;
  std::string out = scheme == Scheme::kTls ? "rediss://" : "redis://";
  out.append(brackets ? "[" : "").append(host).append(brackets ? "]" : "");
  return out + ":" + std::to_string(port) + "/" + std::to_string(database);
}

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kExample = "write it like rediss://cache.bank.example:6379/0";
  const std::size_t begin = text.find("://");
  const std::size_t user_at = begin == std::string_view::npos ? 0 : begin + 3;
  const std::size_t user_end = text.rfind('@');
  if (user_end != std::string_view::npos && user_end > user_at &&
      text.substr(user_at, user_end - user_at).find(':') != std::string_view::npos) {
    return Error(Code::kInvalidArgument,
                 "storage.redis.url holds a password, which would be seen in logs: put it into a "
                 "file and name that by storage.redis.password_file");
  }
  const Error wrong(Code::kInvalidArgument,
                    "'" + std::string(text.substr(0, 200)) +
                        "' is no address of a Redis server: " + std::string(kExample));
  if (begin == std::string_view::npos || !is_clean(text)) return wrong;
  Url url;
  const std::string_view scheme = text.substr(0, begin);
  if (scheme != "redis" && scheme != "rediss") return wrong;
  url.scheme = scheme == "rediss" ? Url::Scheme::kTls : Url::Scheme::kPlain;
  std::string_view rest = text.substr(begin + 3);
  if (const std::size_t user = rest.rfind('@'); user != std::string_view::npos) {
    url.user = rest.substr(0, user);
    rest.remove_prefix(user + 1);
    if (url.user.empty() || url.user.find_first_of("/@%") != std::string::npos) return wrong;
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view database = rest.substr(slash);
  if (database.size() > 1 && !read_number(database.substr(1), 0, kDatabaseMax, url.database)) {
    return wrong;
  }
  if (!read_authority(rest.substr(0, slash), url)) return wrong;
  return url;
}

}  // namespace falaj::storage::redis
