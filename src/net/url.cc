#include "net/internal/url.h"

#include <algorithm>
#include <charconv>

#include "net/internal/host_check.h"
#include "net/text.h"

namespace falaj::net {
namespace {

bool is_clean(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const Error wrong(Code::kInvalidArgument, "'" + std::string(text.substr(0, 200)) +
                                                "' is no server address: write it like " +
                                                "http://127.0.0.1:7070");
  Url url;
  const std::size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || !is_clean(text)) return wrong;
  if (equal_ignoring_case(text.substr(0, scheme), "https")) {
    url.scheme = Url::Scheme::kHttps;
  } else if (!equal_ignoring_case(text.substr(0, scheme), "http")) {
    return wrong;
  }
  text.remove_prefix(scheme + 3);
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view authority = text.substr(0, slash);
  std::string_view prefix = text.substr(slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.find_first_of("?#") != std::string_view::npos) return wrong;
  url.prefix = prefix;
  url.authority = authority;
  url.host = host_without_port(authority);
  if (url.host.empty() || authority.find('@') != std::string_view::npos) return wrong;
  url.port = url.scheme == Url::Scheme::kHttps ? 443 : 80;
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || url.port == 0) {
      return wrong;
    }
  }
  return url;
}

}  // namespace falaj::net
