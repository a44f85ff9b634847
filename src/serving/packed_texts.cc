#include "serving/packed_texts.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace falaj::serving {

static_assert(std::endian::native == std::endian::little);

Status append_packed(std::string& packed, std::string_view element) {
  if (element.size() > std::numeric_limits<std::uint32_t>::max()) {
    return Error(ErrorId::kInvalidArgument, "an element of a BYTES tensor is over 4 GiB");
  }
  const auto length = static_cast<std::uint32_t>(element.size());
  packed.append(reinterpret_cast<const char*>(&length), sizeof(length));
  packed.append(element);
  return {};
}

Result<std::vector<std::string_view>> unpack_texts(std::string_view packed, std::size_t count) {
  std::uint32_t length = 0;
  // Each element needs its length at least: what claims more costs no memory.
  if (packed.size() / sizeof(length) < count) {
    return Error(ErrorId::kTensorMismatch, "BYTES data of " + std::to_string(packed.size()) +
                                               " bytes cannot hold " + std::to_string(count) +
                                               " elements");
  }
  std::vector<std::string_view> elements;
  elements.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (packed.size() < sizeof(length)) {
      return Error(ErrorId::kTensorMismatch,
                   "BYTES data ends before the length of element " + std::to_string(i));
    }
    std::memcpy(&length, packed.data(), sizeof(length));
    packed.remove_prefix(sizeof(length));
    if (packed.size() < length) {
      return Error(ErrorId::kTensorMismatch, "element " + std::to_string(i) +
                                                 " of BYTES data claims " + std::to_string(length) +
                                                 " bytes, " + std::to_string(packed.size()) +
                                                 " are left");
    }
    elements.push_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  if (!packed.empty()) {
    return Error(ErrorId::kTensorMismatch, std::to_string(packed.size()) +
                                               " bytes are left over after the last of " +
                                               std::to_string(count) + " elements of BYTES data");
  }
  return elements;
}

}  // namespace falaj::serving
