// net/address.h — what an address says about who is at its other end.
#pragma once

#include <string_view>

namespace falaj::net {

// True for a literal address of 127.0.0.0/8 and for ::1, written in full as an address: neither a
// name, nor a port, nor brackets. No look-up, no allocation.
bool is_loopback_address(std::string_view text);

}  // namespace falaj::net
