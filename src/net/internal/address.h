// net/internal/address.h — socket addresses as text.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace falaj::net {

// "127.0.0.1" or "::1"; an IPv4 client of an IPv6 socket shows as IPv4. "" for anything else.
std::string address_text(const sockaddr_storage& address);
std::uint16_t address_port(const sockaddr_storage& address);
// The address that the peer of this socket reached.
std::string local_address(int socket);

// A listening, non-blocking socket. FJ-8007 when the port is taken.
Result<int> listen_on(const std::string& host, std::uint16_t port);

}  // namespace falaj::net
