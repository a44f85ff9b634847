#include "onnx/wire.h"

#include <bit>
#include <cstring>

namespace falaj::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kFixed64 = 1;
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kFixed32 = 5;

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

Error damaged(const char* what) {
  return Error(ErrorId::kModelCorrupt, std::string("ONNX file: ") + what);
}

}  // namespace

void WireWriter::key(std::uint32_t field, std::uint32_t type) {
  append_varint(out_, (std::uint64_t{field} << 3) | type);
}

void WireWriter::integer(std::uint32_t field, std::int64_t value) {
  key(field, kVarint);
  append_varint(out_, static_cast<std::uint64_t>(value));
}

void WireWriter::number(std::uint32_t field, float value) {
  key(field, kFixed32);
  out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void WireWriter::bytes(std::uint32_t field, std::string_view value) {
  key(field, kBytes);
  append_varint(out_, value.size());
  out_.append(value);
}

void WireWriter::integers(std::uint32_t field, std::span<const std::int64_t> values) {
  std::string packed;
  for (const std::int64_t value : values) append_varint(packed, static_cast<std::uint64_t>(value));
  bytes(field, packed);
}

void WireWriter::numbers(std::uint32_t field, std::span<const float> values) {
  bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

Result<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return damaged("a number is cut off");
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return damaged("a number has over 64 bits");
}

Result<std::uint64_t> WireReader::fixed(std::size_t width) {
  if (rest_.size() < width) return damaged("a number is cut off");
  std::uint64_t value = 0;
  std::memcpy(&value, rest_.data(), width);
  rest_.remove_prefix(width);
  return value;
}

Result<std::optional<WireField>> WireReader::next() {
  if (rest_.empty()) return std::optional<WireField>{};
  const std::uint64_t key = FALAJ_TRY(varint());
  if (key >> 3 == 0 || key >> 32 != 0) return damaged("a field number is out of range");
  WireField field;
  field.number = static_cast<std::uint32_t>(key >> 3);
  field.type = static_cast<std::uint32_t>(key & 7);
  switch (field.type) {
    case kVarint:
      field.integer = FALAJ_TRY(varint());
      break;
    case kFixed64:
      field.integer = FALAJ_TRY(fixed(8));
      break;
    case kFixed32:
      field.integer = FALAJ_TRY(fixed(4));
      break;
    case kBytes: {
      const std::uint64_t length = FALAJ_TRY(varint());
      if (length > rest_.size()) return damaged("a field is cut off");
      field.bytes = rest_.substr(0, static_cast<std::size_t>(length));
      rest_.remove_prefix(static_cast<std::size_t>(length));
      break;
    }
    default:
      return damaged("a field has an unknown type");
  }
  return std::optional(field);
}

Status append_integers(const WireField& field, std::vector<std::int64_t>& out) {
  if (field.type == kVarint) {
    out.push_back(static_cast<std::int64_t>(field.integer));
    return {};
  }
  if (field.type != kBytes) return damaged("a list of integers has another type");
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : field.bytes) {
    if (shift > 63) return damaged("a number has over 64 bits");
    const auto byte = static_cast<std::uint8_t>(c);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    out.push_back(static_cast<std::int64_t>(value));
    value = 0;
    shift = 0;
  }
  return shift == 0 ? Status{} : Status(damaged("a number is cut off"));
}

Status append_numbers(const WireField& field, std::vector<float>& out) {
  if (field.type == kFixed32) {
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(field.integer)));
    return {};
  }
  if (field.type != kBytes || field.bytes.size() % sizeof(float) != 0) {
    return damaged("a list of numbers has another type");
  }
  if (field.bytes.empty()) return {};
  const std::size_t before = out.size();
  out.resize(before + field.bytes.size() / sizeof(float));
  std::memcpy(out.data() + before, field.bytes.data(), field.bytes.size());
  return {};
}

}  // namespace falaj::onnx
