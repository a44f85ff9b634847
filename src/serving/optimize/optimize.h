// serving/optimize/optimize.h — one model in, a variant and the verdict on it out.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/optimize/gate.h"
#include "onnx/optimize/optimized.h"
#include "serving/optimize/trial.h"

namespace falaj::serving {

enum class OptimizeMethod : std::uint8_t {
  kInt8,
  kStaticInt8,
  kHalf,
  kPruneUnits,
  kPruneWeights,
  kTrim
};

// How good scores are against labels; a port, for `training` owns the metrics.
struct KnownLabels {
  onnx::Quality::Metric metric = onnx::Quality::Metric::kAuc;
  std::vector<float> labels;  // One a row; empty: none is known.
  std::function<double(std::span<const float> scores, std::span<const float> labels)> measure;
};

struct OptimizeRequest {
  std::string_view model;
  OptimizeMethod method = OptimizeMethod::kInt8;
  double share = 0;               // To prune.
  std::span<const float> matrix;  // Rows for the gate and the measurement; row_width() a row.
  KnownLabels known;
  onnx::Allowed allowed;
  onnx::Goal goal = onnx::Goal::kFaster;
  TrialOptions trial;
};

struct OptimizeOutcome {
  onnx::Optimized made;
  onnx::Evidence evidence;
  onnx::Verdict verdict;
  std::size_t rows_judged = 0;
};

// A method that looks at rows to find its variant (kTrim, kStaticInt8) sees every other one, and is
// judged by those it did not see. Errors: those of the rewriters and the runtime; FJ-5004 when rows
// do not fit the model. That a variant is refused is no error. Cost: the trial, half a second or
// more.
Result<OptimizeOutcome> optimize(Runtime& runtime, const OptimizeRequest& request);

}  // namespace falaj::serving
