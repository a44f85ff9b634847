// launch/ports.h — ports and interfaces of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace falaj::launch {

// So many different ports that nobody listens on at `host`. They are not kept: between this and
// their use somebody else may take one, and the attempt then fails and is repeated with others.
// kUnavailable when the machine has none, kInvalidArgument when `host` is no IPv4 address of it.
Result<std::vector<std::uint16_t>> free_ports(const std::string& host, int count);

// "lo", "eth0": the interface that has the address; "" when none has.
std::string interface_of(const std::string& host);

}  // namespace falaj::launch
