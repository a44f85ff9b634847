// launch/messages.h — what nodes and their coordinator say to each other, as JSON values.
//
// Each has a "type". From a node: hello, printed, ended, notice, put, get, erase. To a node: start,
// start_one, stop, kill, reply, bye.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "launch/node.h"

namespace falaj::launch {

Value message(std::string_view type);

struct Hello {
  std::string name;
  std::string host;
  std::string interface;
  int slots = 1;
  std::vector<std::uint16_t> ports;
};
Value to_message(const Hello& hello);
Result<Hello> decode_hello(const Value& value);

Value to_message(const Printed& printed);
Result<Printed> decode_printed(const Value& value);

// With ports that are free now, for the next attempt.
Value to_message(const ProcessEnd& end, const std::vector<std::uint16_t>& ports);
ProcessEnd decode_end(const Value& value);
// The valid ports of a list; what is none is left out.
std::vector<std::uint16_t> decode_ports(const Value& list);

}  // namespace falaj::launch
