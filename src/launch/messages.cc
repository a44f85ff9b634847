#include "launch/messages.h"

#include <algorithm>

#include "base/json.h"
#include "crypto/base64.h"
#include "launch/lines.h"

namespace falaj::launch {
namespace {

constexpr std::int64_t kSlotsMax = 65'536;
constexpr std::size_t kNameBytesMax = 256;

int small(const Value& value, std::string_view key) {
  return static_cast<int>(std::clamp<std::int64_t>(value.integer(key), 0, 1'000'000'000));
}

Value port_list(const std::vector<std::uint16_t>& ports) {
  Value list = Value::array();
  for (const std::uint16_t port : ports) list.push(int{port});
  return list;
}

}  // namespace

Value message(std::string_view type) {
  Value value = Value::object();
  value["type"] = type;
  return value;
}

Value to_message(const Hello& hello) {
  Value value = message("hello");
  value["name"] = hello.name;
  value["host"] = hello.host;
  value["interface"] = hello.interface;
  value["slots"] = hello.slots;
  value["ports"] = port_list(hello.ports);
  return value;
}

Result<Hello> decode_hello(const Value& value) {
  Hello hello{value.text("name"), value.text("host"), value.text("interface"),
              small(value, "slots"), decode_ports(value["ports"])};
  if (value.text("type") != "hello" || hello.name.empty() || hello.host.empty() ||
      hello.name.size() > kNameBytesMax || hello.host.size() > kNameBytesMax) {
    return Error(Code::kInvalidArgument, "a node must begin with its name and host");
  }
  if (hello.slots < 1 || hello.slots > kSlotsMax) {
    return Error(Code::kInvalidArgument, "a node has 1 to 65536 slots");
  }
  return hello;
}

Value to_message(const Printed& printed) {
  Value value = message("printed");
  value["attempt"] = printed.attempt;
  value["process"] = printed.process;
  value["name"] = printed.name;
  value["line"] = crypto::base64(printed.line);  // Workers may print bytes that are no text.
  return value;
}

Result<Printed> decode_printed(const Value& value) {
  std::string line = FALAJ_TRY(crypto::from_base64(value.text("line")));
  return Printed{small(value, "attempt"), small(value, "process"), value.text("name"),
                 std::move(line)};
}

Value to_message(const ProcessEnd& end, const std::vector<std::uint16_t>& ports) {
  Value value = message("ended");
  value["attempt"] = end.attempt;
  value["process"] = end.process;
  value["name"] = end.name;
  value["code"] = end.status.code;
  value["signal"] = end.status.signal;
  value["error"] = end.error;
  value["cpu_ns"] = end.cpu_time.nanos;
  value["memory"] = end.memory_peak_bytes;
  value["last_lines"] = Value::array();
  for (const std::string& line : end.last_lines) value["last_lines"].push(line);
  value["ports"] = port_list(ports);
  return value;
}

ProcessEnd decode_end(const Value& value) {
  ProcessEnd end;
  end.attempt = small(value, "attempt");
  end.process = small(value, "process");
  end.name = value.text("name");
  end.status = {small(value, "code"), small(value, "signal")};
  end.error = value.text("error");
  end.cpu_time = {value.integer("cpu_ns")};
  end.memory_peak_bytes = value.integer("memory");
  Tail tail;
  if (value["last_lines"].is_array()) {
    for (const Value& line : value["last_lines"].as_array()) {
      if (line.is_string()) tail.add(line.as_string());
    }
  }
  end.last_lines = tail.lines();
  return end;
}

std::vector<std::uint16_t> decode_ports(const Value& list) {
  std::vector<std::uint16_t> ports;
  if (!list.is_array()) return ports;
  for (const Value& port : list.as_array()) {
    if (port.is_int() && port.as_int() > 0 && port.as_int() <= 65'535) {
      ports.push_back(static_cast<std::uint16_t>(port.as_int()));
    }
  }
  return ports;
}

}  // namespace falaj::launch
