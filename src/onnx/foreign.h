// onnx/foreign.h — is this model from elsewhere fit to be opened at all?
//
// Looked at before any runtime sees the bytes, without running anything: only fields that ONNX
// defines, only standard operators, no data outside the file, no code, every size the product of
// its dimensions and inside the file, every value computed before it is used (so no cycle), nesting
// and counts bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace falaj::onnx {

struct ForeignModel {
  std::size_t nodes = 0;    // Of all graphs, the nested ones too.
  std::size_t tensors = 0;  // Constants.
  std::uint64_t tensor_bytes = 0;
  std::int64_t ir_version = 0;
};

// FJ-7060 when the bytes are no ONNX model or hold something that is refused, naming what and
// where. Cost: one pass; memory in proportion to the number of names.
Result<ForeignModel> check_foreign(std::string_view bytes);

}  // namespace falaj::onnx
