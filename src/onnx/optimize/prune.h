// onnx/optimize/prune.h — what weighs least is left out. Pure.
#pragma once

#include <string_view>

#include "base/result.h"
#include "onnx/optimize/optimized.h"

namespace falaj::onnx {

// The smallest `share` (0 to 1) of the weights of each MatMul, Gemm and Conv become zero; equal
// ones go in the order of the file. The graph stays as it is, so that only a runtime that skips
// zeros gains: the measurement tells. FJ-5002 for damaged bytes, FJ-1006 for a share outside.
Result<Optimized> prune_weights(std::string_view model, double share);

// The `share` (0 to 1) of hidden units that weigh least, taken out of both matrices: the model
// becomes narrower, which every runtime gains from. A unit weighs the length of its column in the
// first matrix times that of its row in the second.
//
// Two matrices belong together when the second (MatMul or Gemm) reads only what the first gave,
// through an Add of a constant and operators that look at each number by itself, and nothing else
// reads any of it. At least one unit stays. Others are left alone and named. Errors as above.
Result<Optimized> prune_units(std::string_view model, double share);

}  // namespace falaj::onnx
