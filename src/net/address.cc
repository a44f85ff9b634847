#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "net/internal/address.h"
#include "net/internal/url.h"

namespace falaj::net {
namespace {

Error listen_error(const std::string& host, std::uint16_t port, int code) {
  const std::string where = host + " port " + std::to_string(port);
  if (code == EADDRINUSE) {
    return Error(ErrorId::kPortInUse, where + " is taken by another process: stop it, or choose " +
                                          "another port with --port");
  }
  if (code == EACCES) {
    return Error(Code::kPermissionDenied,
                 "this user may not listen on " + where + ": choose a port above 1023");
  }
  return Error(Code::kInvalidArgument, "cannot listen on " + where + ": " + std::strerror(code));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

}  // namespace

bool is_loopback_address(std::string_view text) {
  char copy[INET6_ADDRSTRLEN] = {};
  // inet_pton reads up to a NUL: what stands behind one would go unread.
  if (text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) return false;
  text.copy(copy, text.size());
  in_addr v4{};
  if (inet_pton(AF_INET, copy, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, copy, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_address(std::string_view text) {
  char copy[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) return false;
  text.copy(copy, text.size());
  in6_addr any{};
  return inet_pton(AF_INET, copy, &any) == 1 || inet_pton(AF_INET6, copy, &any) == 1;
}

bool is_wildcard_address(std::string_view text) { return text == "0.0.0.0" || text == "::"; }

std::vector<std::string> local_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  std::vector<std::string> found;
  for (const ifaddrs* each = list; each != nullptr && found.size() < 64; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, each->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back(address_text(address));
  }
  ::freeifaddrs(list);
  return found;
}

Result<std::string> host_of_url(std::string_view url) { return FALAJ_TRY(parse_url(url)).host; }

std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    }
  }
  return text;
}

std::uint16_t address_port(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return ntohs(v4.sin_port);
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  return ntohs(v6.sin6_port);
}

std::string local_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address_text(address);
}

Result<int> listen_on(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  // The name first means IPv6 on some machines; what people type is 127.0.0.1.
  if (host == "localhost") hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  const int looked = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (looked != 0) {
    return Error(Code::kInvalidArgument, "cannot listen on '" + host +
                                             "': " + gai_strerror(looked) +
                                             "; give an address of this machine");
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owned(found);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return listen_error(host, port, errno);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, 4096) != 0) {
    const int code = errno;
    ::close(socket);
    return listen_error(host, port, code);
  }
  return socket;
}

}  // namespace falaj::net
