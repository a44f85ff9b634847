// serving/datatypes.h — the tensor element types of the Open Inference Protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::serving {

enum class Datatype : std::uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBf16,
  kBytes,
};

std::string_view datatype_name(Datatype type);  // "FP32"
// FJ-5004 naming the text when it is no datatype of the protocol.
Result<Datatype> parse_datatype(std::string_view name);
// Bytes per element; 0 for BYTES, whose elements differ.
std::size_t element_bytes(Datatype type);

// The number of elements of a shape: FJ-5004 for a negative dimension or a product beyond 2^31.
Result<std::size_t> element_count(std::span<const std::int64_t> shape);
// "[-1,5]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace falaj::serving
