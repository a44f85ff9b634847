// serving/packed_texts.h — the elements of a BYTES tensor, as the inference protocol packs them:
// each is its length (four bytes, little-endian) and then its bytes, in row-major order.
//
// A Tensor of datatype BYTES holds exactly this in `bytes`. Pure functions over outside bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::serving {

// An element has at most 2^32 - 1 bytes: kInvalidArgument for a longer one.
Status append_packed(std::string& packed, std::string_view element);

// Views into `packed`, exactly `count` of them. FJ-5004 when an element ends behind the end, or
// bytes are missing or left over. Cost: proportional to `count`, which is bounded by the bytes.
Result<std::vector<std::string_view>> unpack_texts(std::string_view packed, std::size_t count);

}  // namespace falaj::serving
