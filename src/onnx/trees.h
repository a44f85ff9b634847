// onnx/trees.h — a tree ensemble as ONNX states it: float32 thresholds in flat arrays.
//
// The graph is one node of ai.onnx.ml 1–3: TreeEnsembleClassifier (input float [N, F] → label int64
// [N], probabilities float [N, classes]) or TreeEnsembleRegressor (→ values float [N, targets]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace falaj::onnx {

enum class Ensemble : std::uint8_t { kClassifier, kRegressor };
// A row takes the true branch when its value is ≤, <, ≥, >, ==, != the node's.
enum class Mode : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kLeaf };
enum class Transform : std::uint8_t { kNone, kLogistic, kSoftmax, kSoftmaxZero, kProbit };
enum class Aggregate : std::uint8_t { kSum, kAverage, kMin, kMax };

// The attributes of the node, by their ONNX names without the prefix.
struct Trees {
  Ensemble ensemble = Ensemble::kClassifier;
  Transform transform = Transform::kLogistic;
  Aggregate aggregate = Aggregate::kSum;         // Of a regressor.
  std::int64_t targets = 1;                      // Of a regressor.
  std::vector<std::int64_t> class_labels{0, 1};  // Of a classifier.
  std::vector<float> base_values;
  std::size_t features = 0;
  // One entry a node. As we write them: splits first, root at 0, then the leaves.
  std::vector<std::int64_t> treeids;
  std::vector<std::int64_t> nodeids;
  std::vector<std::int64_t> featureids;
  std::vector<Mode> modes;
  std::vector<float> values;
  std::vector<std::int64_t> truenodeids;
  std::vector<std::int64_t> falsenodeids;
  std::vector<std::int64_t> missing_value_tracks_true;  // May be empty: then nothing does.
  // How many rows of training came by each node, or their weight; changes no answer. May be empty.
  std::vector<float> hitrates;
  // One entry a leaf and output column.
  std::vector<std::int64_t> weight_treeids;
  std::vector<std::int64_t> weight_nodeids;
  std::vector<std::int64_t> weight_ids;
  std::vector<float> weights;
  // Filled by read_trees: the graph's names. `label` stays empty for a regressor.
  std::string input;
  std::string label;
  std::string scores;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;
// The bytes of a model.onnx (IR 8, opset 17, ai.onnx.ml 3) with the names "input" and "label",
// "probabilities" or "variable". Equal input gives equal bytes.
std::string write_trees(const Trees& trees, const Metadata& metadata);

// Back from the bytes. Takes what converters write too: results that pass through Identity, or
// through a Cast of the label to int64. FJ-5002 for damaged bytes and for every other graph, which
// includes one with an attribute that is not known here: it may change the answer.
// The arrays have even lengths; whether they form trees is for the user of them to check.
// Cost: one pass; memory in proportion to the bytes.
Result<Trees> read_trees(std::string_view bytes);

}  // namespace falaj::onnx
