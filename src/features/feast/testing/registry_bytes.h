// features/feast/testing/registry_bytes.h — registries of Feast, written by hand for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/wire.h"

namespace falaj::features::feast {

// A message from its fields: texts, messages (as bytes) and numbers.
class Message {
 public:
  Message& text(std::uint32_t field, std::string_view value) {
    writer_.bytes(field, value);
    return *this;
  }
  Message& number(std::uint32_t field, std::int64_t value) {
    writer_.integer(field, value);
    return *this;
  }
  Message& in(std::uint32_t field, const Message& value) { return text(field, value.str()); }
  Message& pair(std::uint32_t field, std::string_view key, std::string_view value) {
    return in(field, Message().text(1, key).text(2, value));
  }
  const std::string& str() const { return writer_.str(); }

 private:
  onnx::WireWriter writer_;
};

inline Message spec(const Message& inside) { return Message().in(1, inside); }

inline Message entity(std::string_view name, std::string_view key) {
  return spec(Message().text(1, name).text(4, key).text(9, "rides"));
}

inline Message field(std::string_view name, std::int64_t type) {
  return Message().text(1, name).number(2, type);
}

inline Message file_source(std::string_view name, std::string_view path) {
  Message out;
  out.number(1, 1).text(3, "event_timestamp").text(20, name);
  return out.in(11, Message().text(2, path));
}

struct ViewWords {
  std::string name;
  std::vector<std::string> entities;
  std::vector<std::pair<std::string, std::int64_t>> keys;
  std::vector<std::pair<std::string, std::int64_t>> features;
  Message source = file_source("drivers", "drivers.parquet");
};
// The inside of a view; tests add to it, then put it into spec().
inline Message view(const ViewWords& words) {
  Message out;
  out.text(1, words.name).text(2, "rides").number(8, 1);
  for (const std::string& each : words.entities) out.text(3, each);
  for (const auto& [name, type] : words.features) out.in(4, field(name, type));
  for (const auto& [name, type] : words.keys) out.in(12, field(name, type));
  return out.in(7, words.source);
}

}  // namespace falaj::features::feast
