#include "net/internal/host_check.h"

#include <algorithm>

#include "net/address.h"
#include "net/text.h"

namespace falaj::net {
namespace {

bool is_port(std::string_view text) {
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

std::string_view host_without_port(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = authority.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
    return authority.substr(1, end - 1);
  }
  const std::size_t colon = authority.find(':');
  if (colon == std::string_view::npos) return authority;
  return is_port(authority.substr(colon + 1)) ? authority.substr(0, colon) : std::string_view{};
}

bool is_loopback_host(std::string_view host) {
  return equal_ignoring_case(host, "localhost") || is_loopback_address(host);
}

HostPolicy::HostPolicy(std::string listening_host, std::vector<std::string> allowed,
                       std::string scheme)
    : listening_host_(std::move(listening_host)),
      allowed_(std::move(allowed)),
      scheme_(std::move(scheme)) {}

bool HostPolicy::allows_host(std::string_view authority) const {
  const std::string_view host = host_without_port(authority);
  if (host.empty()) return false;
  if (equal_ignoring_case(host, listening_host_) || is_loopback_host(host)) return true;
  return std::any_of(allowed_.begin(), allowed_.end(),
                     [&](const std::string& name) { return equal_ignoring_case(host, name); });
}

bool HostPolicy::allows_origin(std::string_view origin, std::string_view authority) const {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos &&
         equal_ignoring_case(origin.substr(0, scheme), scheme_) &&
         equal_ignoring_case(origin.substr(scheme + 3), authority);
}

}  // namespace falaj::net
