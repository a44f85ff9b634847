// training/lightgbm/params.h — the parameters people may set, with bounds; and their LightGBM text.
#pragma once

#include <cstdint>
#include <string>

#include "base/value.h"
#include "training/trees.h"

namespace falaj::training::lightgbm {

// kAuto: binary for a bool label or an integer one of only 0 and 1, otherwise regression.
enum class WantedObjective : std::uint8_t { kAuto, kBinary, kRegression };

struct Params {
  WantedObjective objective = WantedObjective::kAuto;
  std::int64_t rounds = 100;
  std::int64_t early_stopping = 0;  // Rounds without a better valid loss; 0 = never.
  std::int64_t num_leaves = 31;
  std::int64_t max_depth = -1;  // -1 = no limit.
  std::int64_t max_bin = 255;
  std::int64_t min_data_in_leaf = 20;
  double learning_rate = 0.1;
  double lambda_l1 = 0;
  double lambda_l2 = 0;
  double min_gain_to_split = 0;
  double feature_fraction = 1;
  double bagging_fraction = 1;
  std::int64_t bagging_freq = 0;
  double scale_pos_weight = 1;
  std::int64_t seed = 0;
};

// Strict: FJ-1003 names the nearest parameter, FJ-1005 a wrong type, FJ-1006 the bounds.
// Parameters that ONNX cannot follow (zero_as_missing, linear_tree, …) are refused with that
// reason.
Result<Params> params_from_value(const Value& value);

// "objective=binary num_leaves=31 …" with what determinism needs: the same text and data give the
// same model, byte for byte, for the same number of threads.
std::string to_text(const Params& params, Objective objective, std::int64_t threads);

}  // namespace falaj::training::lightgbm
