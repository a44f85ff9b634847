// cli/import/pbtxt.h — protobuf's text form, in which Triton's config.pbtxt is written.
//
// Read without a schema: a message becomes an object whose every field is a list of its values, in
// their order, since only a schema tells a repeated field from another. Texts and names (TYPE_FP32)
// become texts, whole numbers integers, other numbers doubles, true and false truth values, nested
// messages objects. Comments, both brackets of messages, lists and texts in several pieces are
// read; names of extensions are refused. Fuzzed by pbtxt_fuzz.cc.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "base/value.h"

namespace falaj::cli {

inline constexpr std::size_t kPbtxtBytesMax = 1u << 20;
inline constexpr int kPbtxtDepthMax = 32;

// FJ-1002 with the line of what is wrong; FJ-1008 (depth), FJ-1009 (bytes).
Result<Value> parse_pbtxt(std::string_view text);

}  // namespace falaj::cli
