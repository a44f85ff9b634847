// training/xgboost/model_json.h — reads XGBoost's JSON form of a model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "training/trees.h"

namespace falaj::training::xgboost {

struct JsonModel {
  TreeModel trees;  // The base score is part of the first tree's leaves.
  // [tree][XGBoost's number of a node] → its leaf in `trees`, -1 for a split: how XGBoost's own
  // answer about leaves is read.
  std::vector<std::vector<std::int32_t>> leaf_of_node;
};

// Thresholds come back bit for bit: XGBoost's `x < t` over floats is `x ≤ the float below t`.
// Refused by name: boosters other than gbtree, several classes or targets, categorical splits,
// trees of vectors, objectives other than binary:logistic and reg:squarederror. FJ-5002 for damaged
// JSON: every index is checked, so the result is safe to walk.
Result<JsonModel> read_model_json(std::string_view text);

}  // namespace falaj::training::xgboost
