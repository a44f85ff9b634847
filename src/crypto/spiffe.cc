#include <algorithm>

#include "crypto/x509.h"

namespace falaj::crypto {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr std::size_t kIdBytesMax = 2048;
constexpr std::size_t kTrustDomainMax = 255;

bool is_domain_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool is_segment_char(char c) { return is_domain_char(c) || (c >= 'A' && c <= 'Z'); }

bool is_segment(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), is_segment_char);
}

// Of "/a/b": every segment plain, none empty.
bool is_path(std::string_view path) {
  while (!path.empty()) {
    if (path.front() != '/') return false;
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (!is_segment(path.substr(0, end))) return false;
    path.remove_prefix(end);
  }
  return true;
}

// What a stranger sent goes into a message only as far as it is harmless there.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 100));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

Error refused(std::string_view text, std::string_view why) {
  return Error(ErrorId::kPeerRefused, "'" + shown(text) + "' is no SPIFFE id: " + std::string(why));
}

}  // namespace

bool is_trust_domain(std::string_view text) {
  return !text.empty() && text.size() <= kTrustDomainMax &&
         std::all_of(text.begin(), text.end(), is_domain_char);
}

std::string SpiffeId::text() const { return std::string(kScheme) + trust_domain + path; }

Result<SpiffeId> parse_spiffe_id(std::string_view text) {
  if (text.size() > kIdBytesMax) return refused(text, "it is longer than 2048 bytes");
  if (!text.starts_with(kScheme)) return refused(text, "it does not begin with spiffe://");
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view domain = rest.substr(0, slash);
  if (!is_trust_domain(domain)) {
    return refused(text, "the trust domain is not 1 to 255 of a-z 0-9 . - _");
  }
  if (slash == std::string_view::npos) return refused(text, "it names no process");
  const std::string_view path = rest.substr(slash);
  if (!is_path(path)) {
    return refused(text, "a path's segments are letters, digits, . - _ and never empty or dots");
  }
  return SpiffeId{std::string(domain), std::string(path)};
}

}  // namespace falaj::crypto
