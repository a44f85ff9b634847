// serving/trees/probe_rows.h — rows on which two readings of one ensemble would part.
#pragma once

#include <vector>

#include "onnx/trees.h"

namespace falaj::serving {

// Row-major, `rows` rows of trees.features values. Cells are the thresholds of their feature, the
// float just above and below, and NaN, ±0, ±inf and numbers too small or large to be ordinary.
// Equal input gives equal rows.
std::vector<float> probe_rows(const onnx::Trees& trees, std::size_t rows, std::uint64_t seed);

}  // namespace falaj::serving
