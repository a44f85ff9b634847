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
// `left` if it is a socket that listens on that host and port (0: any), made non-blocking and
// close-on-exec. Anything else is closed, and the above is done.
Result<int> take_over_or_listen(int left, const std::string& host, std::uint16_t port);
// A duplicate: the socket listens while either is open.
Result<int> duplicate_listener(int socket);

}  // namespace falaj::net
