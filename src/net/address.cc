#include "net/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
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

// Blocks of RFC 6890 and its kin that lead to no stranger.
bool is_public_v4(std::uint32_t address) {
  struct Block {
    std::uint32_t base;
    int bits;
  };
  static constexpr Block kSpecial[] = {
      {0x00000000, 8},  {0x0A000000, 8},  {0x64400000, 10}, {0x7F000000, 8},  {0xA9FE0000, 16},
      {0xAC100000, 12}, {0xC0000000, 24}, {0xC0000200, 24}, {0xC0586300, 24}, {0xC0A80000, 16},
      {0xC6120000, 15}, {0xC6336400, 24}, {0xCB007100, 24}, {0xE0000000, 3}};
  for (const Block& block : kSpecial) {
    if ((address >> (32 - block.bits)) == (block.base >> (32 - block.bits))) return false;
  }
  return true;
}

std::uint32_t v4_at(const in6_addr& address, std::size_t at) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{address.s6_addr[at + i]}; };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

bool is_public_v6(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return is_public_v4(v4_at(address, 12));
  const std::uint32_t first = v4_at(address, 0);
  if (first >> 29 != 1) return false;       // Only 2000::/3 is routed by everybody.
  if (first >> 16 == 0x2002) return false;  // 6to4 carries an IPv4 address.
  if (first == 0x20010000) return false;    // Teredo does too.
  if (first == 0x20010DB8) return false;    // Documentation.
  return true;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  // The name first means IPv6 on some machines; what people type is 127.0.0.1.
  if (host == "localhost") hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  const int looked = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (looked == 0) return Addresses(found);
  return Error(Code::kInvalidArgument, "cannot listen on '" + host + "': " + gai_strerror(looked) +
                                           "; give an address of this machine");
}

bool listens_on(int socket, const std::string& host, std::uint16_t port) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) return false;
  sockaddr_storage bound{};
  size = sizeof bound;
  if (listens == 0 || ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return false;
  }
  const Result<Addresses> wanted = resolve(host, port);
  if (!wanted.ok() || (*wanted)->ai_family != bound.ss_family) return false;
  sockaddr_storage address{};
  std::memcpy(&address, (*wanted)->ai_addr, (*wanted)->ai_addrlen);
  return address_text(address) == address_text(bound) && (port == 0 || port == address_port(bound));
}

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

bool is_public_address(std::string_view text) {
  char copy[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) return false;
  text.copy(copy, text.size());
  in_addr v4{};
  if (inet_pton(AF_INET, copy, &v4) == 1) return is_public_v4(ntohl(v4.s_addr));
  in6_addr v6{};
  return inet_pton(AF_INET6, copy, &v6) == 1 && is_public_v6(v6);
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
  const Addresses found = FALAJ_TRY(resolve(host, port));
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

Result<int> take_over_or_listen(int left, const std::string& host, std::uint16_t port) {
  if (left < 0) return listen_on(host, port);
  if (listens_on(left, host, port) && ::fcntl(left, F_SETFD, FD_CLOEXEC) == 0 &&
      ::fcntl(left, F_SETFL, O_NONBLOCK) == 0) {
    return left;
  }
  ::close(left);
  return listen_on(host, port);
}

Result<int> duplicate_listener(int socket) {
  const int copy = ::fcntl(socket, F_DUPFD_CLOEXEC, 3);
  if (copy >= 0) return copy;
  return Error(Code::kResourceExhausted,
               std::string("cannot keep a listening socket: ") + std::strerror(errno));
}

}  // namespace falaj::net
