// training/export.h — from the trees an engine trained to the arrays that ONNX states.
#pragma once

#include "onnx/trees.h"
#include "training/trees.h"

namespace falaj::training {

// The float that splits all floats as `x <= threshold` does in the engine, which holds the
// threshold as a double and may read |x| ≤ 1e-35 as 0. For ordinary thresholds: the largest float ≤
// threshold. Rounding to nearest instead is what makes other converters differ on ties.
float exact_threshold(double threshold, Tiny tiny = Tiny::kReadsAsZero);

// In each tree: splits first, root at 0, then the leaves in the engine's order.
onnx::Trees to_onnx_trees(const TreeModel& model);

}  // namespace falaj::training
