// onnx/optimize/static_int8.h — eight bits for the values between nodes too, whose ranges are known
// beforehand. Pure: a caller runs the watched model and says what it saw.
//
// Faster than dynamic int8 (int8.h), for no call looks for ranges, and a row's answer does not
// depend on the rows beside it; but a value outside what calibration saw is cut off.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/optimize/int8.h"

namespace falaj::onnx {

struct Range {
  float least = 0;
  float most = 0;
  // Takes in what is finite.
  void see(std::span<const float> values);
};
using Ranges = std::map<std::string, Range, std::less<>>;  // By the value's name.

// The model with more outputs: every value whose range static_int8 wants to know.
struct Watched {
  std::string bytes;
  std::vector<std::string> values;  // Their names, in the order of the outputs added at the end.
};
Result<Watched> watch_ranges(std::string_view model, const Int8Options& options = {});

// MatMul, Gemm and Conv with constant weights between QuantizeLinear and DequantizeLinear, as
// runtimes expect it (QDQ): values of unsigned bytes, weights as int8.h says. A Gemm becomes a
// MatMul and an Add, whose sums stay floats; what a Conv gives is quantised too, and its bias takes
// 32 bits. Nodes without a known range are left alone, with the reasons of int8.h; operators before
// version 13 too. FJ-5002 for damaged bytes.
Result<Optimized> static_int8(std::string_view model, const Ranges& ranges,
                              const Int8Options& options = {});

}  // namespace falaj::onnx
