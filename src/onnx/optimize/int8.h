// onnx/optimize/int8.h — weights as whole numbers of eight bits. Pure.
//
// Weights are symmetric around zero with one scale for each output channel. They take ±63, not
// ±127: processors before VNNI add two products of an unsigned and a signed byte in sixteen bits,
// which full range would cut off silently. So every processor gives the same answer.
#pragma once

#include <string_view>

#include "base/result.h"
#include "onnx/optimize/optimized.h"

namespace falaj::onnx {

struct Int8Options {
  // A matrix with fewer weights than this costs more to prepare than it saves.
  std::size_t weights_min = 256;
};

// Every MatMul and Gemm of two matrices whose second one is constant: DynamicQuantizeLinear →
// MatMulInteger → Cast → Mul (→ Add). The range of the other matrix is found anew in each call, so
// that nothing need be known about the rows. A value that feeds several is quantised once.
//
// What is not of that form is left alone and named: weights that a caller may replace or that lie
// outside the file, that are not finite, a transposed first matrix, operators before version 11.
// FJ-5002 for damaged bytes. Cost: one pass over the weights; memory as the model.
Result<Optimized> dynamic_int8(std::string_view model, const Int8Options& options = {});

}  // namespace falaj::onnx
