#include "launch/ports.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace falaj::launch {

Result<std::vector<std::uint16_t>> free_ports(const std::string& host, int count) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return Error(Code::kInvalidArgument, "'" + host + "' is no IPv4 address");
  }
  std::vector<Descriptor> held;  // Until all are known, so that they differ.
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < count; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address.sin_port = 0;
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (!socket.valid() || ::bind(socket.get(), any, size) != 0 ||
        ::getsockname(socket.get(), any, &size) != 0) {
      const bool theirs = errno == EADDRNOTAVAIL;
      return Error(theirs ? Code::kInvalidArgument : Code::kUnavailable,
                   "find a free port at " + host + ": " + std::strerror(errno));
    }
    ports.push_back(ntohs(address.sin_port));
    held.push_back(std::move(socket));
  }
  return ports;
}

std::string interface_of(const std::string& host) {
  in_addr wanted{};
  if (::inet_pton(AF_INET, host.c_str(), &wanted) != 1) return "";
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    if (address->sin_addr.s_addr == wanted.s_addr) name = each->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

}  // namespace falaj::launch
