// training/lightgbm/model_text.h — reads LightGBM's text form of a model.
#pragma once

#include <string_view>

#include "base/result.h"
#include "training/trees.h"

namespace falaj::training::lightgbm {

// Thresholds and leaves come back bit for bit (the text has 17 digits). Anything that cannot be
// exported truthfully is refused by name: categorical splits, linear trees, zero as missing,
// several classes, another objective than binary (sigmoid 1) or regression. FJ-5002 for a damaged
// text: every index is checked, so the result is safe to walk.
Result<TreeModel> read_model_text(std::string_view text);

}  // namespace falaj::training::lightgbm
