// onnx/optimize/fp16.h — weights kept as half-precision floats. Pure.
//
// The file takes half the space; what runs does not change: a Cast widens each weight again, which
// runtimes do once when they load the model. So it is smaller, not faster.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "onnx/optimize/optimized.h"

namespace falaj::onnx {

// To the nearest half-precision float, ties to even; past the greatest, infinity.
std::uint16_t half_of(float value);
float float_of(std::uint16_t half);

struct HalfOptions {
  // A constant with fewer values than this stays: a Cast of its own would take more.
  std::size_t values_min = 64;
};

// Every constant of floats, but those that nothing reads, whose values a half cannot hold (over
// 65504, or not finite), that a caller may replace or that are an output: these are named. FJ-5002
// for damaged bytes.
Result<Optimized> half_weights(std::string_view model, const HalfOptions& options = {});

}  // namespace falaj::onnx
