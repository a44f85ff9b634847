// onnx/wire.h — protobuf's wire format, as little of it as an ONNX file needs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::onnx {

// Builds one message. A message inside another is built first and added as bytes.
class WireWriter {
 public:
  void integer(std::uint32_t field, std::int64_t value);
  void number(std::uint32_t field, float value);
  void bytes(std::uint32_t field, std::string_view value);
  // Packed lists.
  void integers(std::uint32_t field, std::span<const std::int64_t> values);
  void numbers(std::uint32_t field, std::span<const float> values);
  const std::string& str() const { return out_; }

 private:
  void key(std::uint32_t field, std::uint32_t type);
  std::string out_;
};

// One field as it stands on the wire.
struct WireField {
  std::uint32_t number = 0;
  std::uint32_t type = 0;     // 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32.
  std::uint64_t integer = 0;  // For 0, 1 and 5.
  std::string_view bytes;     // For 2; into the reader's text.
};

// Walks the fields of one message. Every length is checked: FJ-5002 for a damaged message.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}
  // nullopt at the end.
  Result<std::optional<WireField>> next();

 private:
  Result<std::uint64_t> varint();
  Result<std::uint64_t> fixed(std::size_t width);
  std::string_view rest_;
};

// The lists of a field that came packed (bytes) or one by one.
Status append_integers(const WireField& field, std::vector<std::int64_t>& out);
Status append_numbers(const WireField& field, std::vector<float>& out);

}  // namespace falaj::onnx
