// net/address.h — what an address says about who is at its other end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::net {

// True for a literal address of 127.0.0.0/8 and for ::1, written in full as an address: neither a
// name, nor a port, nor brackets. No look-up, no allocation.
bool is_loopback_address(std::string_view text);

// True for any literal IPv4 or IPv6 address, written as above.
bool is_address(std::string_view text);
// True for a literal address that the whole internet routes to: not loopback, private, link-local
// (metadata services), shared, reserved, multicast, nor one of those inside an IPv6 address. What
// is not known to be public is not. For calls to addresses that somebody else named.
bool is_public_address(std::string_view text);
// True for 0.0.0.0 and ::, which listen on every address of the machine.
bool is_wildcard_address(std::string_view text);
// The addresses of this machine's interfaces that are up, loopback included, at most 64. Reads the
// kernel's list.
std::vector<std::string> local_addresses();

// "falaj.bank.example" of "https://falaj.bank.example:7070/base", without brackets.
// kInvalidArgument naming the text when it is no http(s) address.
Result<std::string> host_of_url(std::string_view url);

}  // namespace falaj::net
