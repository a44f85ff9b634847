// net/internal/host_check.h — who a browser thinks it is talking to (DNS rebinding, cross-origin).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::net {

// "host:port", "[::1]:8080" or "host" without the port and brackets. "" when malformed.
std::string_view host_without_port(std::string_view authority);

// 127.0.0.0/8, ::1 or localhost.
bool is_loopback_host(std::string_view host);

// Immutable, so thread-safe.
class HostPolicy {
 public:
  HostPolicy(std::string listening_host, std::vector<std::string> allowed, std::string scheme);

  // True for loopback names, the listening host and the allowed hosts, with any port.
  bool allows_host(std::string_view authority) const;
  // True when `origin` is exactly the scheme and authority that the request was sent to.
  bool allows_origin(std::string_view origin, std::string_view authority) const;

 private:
  std::string listening_host_;
  std::vector<std::string> allowed_;
  std::string scheme_;
};

}  // namespace falaj::net
