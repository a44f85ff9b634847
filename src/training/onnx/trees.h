// training/onnx/trees.h — a tree ensemble as ONNX states it: float32 thresholds in flat arrays.
//
// The graph is one node of ai.onnx.ml 3: TreeEnsembleClassifier ("input" float [N, F] → "label"
// int64 [N], "probabilities" float [N, 2]) or TreeEnsembleRegressor (→ "variable" float [N, 1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "training/trees.h"

namespace falaj::training::onnx {

enum class Mode : std::uint8_t { kBranchLeq, kLeaf };

// The attributes of the node, by their ONNX names without the prefix.
struct OnnxTrees {
  Objective objective = Objective::kBinary;
  std::size_t features = 0;
  // One entry a node. In each tree: splits first, root at 0, then the leaves in the engine's order.
  std::vector<std::int64_t> treeids;
  std::vector<std::int64_t> nodeids;
  std::vector<std::int64_t> featureids;
  std::vector<Mode> modes;
  std::vector<float> values;
  std::vector<std::int64_t> truenodeids;
  std::vector<std::int64_t> falsenodeids;
  std::vector<std::int64_t> missing_value_tracks_true;
  // One entry a leaf and output column.
  std::vector<std::int64_t> weight_treeids;
  std::vector<std::int64_t> weight_nodeids;
  std::vector<std::int64_t> weight_ids;
  std::vector<float> weights;
};

// The float that splits all floats as `x <= threshold` does in LightGBM, which holds the threshold
// as a double and reads |x| ≤ 1e-35 as 0. For ordinary thresholds: the largest float ≤ threshold.
// Rounding to nearest instead is what makes other converters differ on ties.
float exact_threshold(double threshold);

OnnxTrees to_onnx_trees(const TreeModel& model);

using Metadata = std::vector<std::pair<std::string, std::string>>;
// The bytes of a model.onnx (IR 8, opset 17, ai.onnx.ml 3). Equal input gives equal bytes.
std::string write_onnx(const OnnxTrees& trees, const Metadata& metadata);
// Back from the bytes, so that what is checked is what was written. FJ-5002 for anything else than
// a graph of write_onnx's shape.
Result<OnnxTrees> read_onnx(std::string_view bytes);

// Walks the arrays in float32, as a runtime does.
class OnnxWalker {
 public:
  // FJ-5002 when the arrays do not form trees.
  static Result<OnnxWalker> build(const OnnxTrees& trees);
  std::size_t trees() const { return roots_.size(); }
  // The leaf the row ends in: 0, 1, … in the order of the tree's leaves.
  std::int32_t leaf(std::size_t tree, std::span<const float> row) const;
  // Probability or value, leaves summed in float32.
  float score(std::span<const float> row) const;

 private:
  struct Node {
    float value = 0;            // Threshold, or the leaf's weight.
    std::int32_t feature = -1;  // -1: a leaf.
    std::uint32_t yes = 0;
    std::uint32_t no = 0;
    std::int32_t leaf = 0;
    bool missing_is_yes = false;
  };
  const Node& end_of(std::size_t tree, std::span<const float> row) const;
  Objective objective_ = Objective::kBinary;
  std::vector<std::size_t> roots_;
  std::vector<Node> nodes_;
};

}  // namespace falaj::training::onnx
