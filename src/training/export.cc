#include "training/export.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace falaj::training {
namespace {

// LightGBM's predictors drop cells with |x| ≤ this float, which then read as 0.
constexpr float kReadsAsZero = 1e-35f;

void add_split(const TreeNode& node, Tiny tiny, std::int64_t tree, std::int64_t id,
               std::int64_t splits, onnx::Trees& out) {
  const auto child = [&](std::int32_t c) { return c >= 0 ? c : splits + ~c; };
  const bool left_when_missing = node.missing == Missing::kNan
                                     ? node.default_side == Side::kLeft
                                     : 0.0 <= node.threshold;  // NaN is read as 0.
  out.treeids.push_back(tree);
  out.nodeids.push_back(id);
  out.featureids.push_back(node.feature);
  out.modes.push_back(onnx::Mode::kLeq);
  out.values.push_back(exact_threshold(node.threshold, tiny));
  out.truenodeids.push_back(child(node.left));
  out.falsenodeids.push_back(child(node.right));
  out.missing_value_tracks_true.push_back(left_when_missing ? 1 : 0);
}

void add_leaf(std::int64_t tree, std::int64_t id, onnx::Trees& out) {
  out.treeids.push_back(tree);
  out.nodeids.push_back(id);
  out.featureids.push_back(0);
  out.modes.push_back(onnx::Mode::kLeaf);
  out.values.push_back(0);
  out.truenodeids.push_back(0);
  out.falsenodeids.push_back(0);
  out.missing_value_tracks_true.push_back(0);
}

void add_weight(std::int64_t tree, std::int64_t id, std::int64_t column, float weight,
                onnx::Trees& out) {
  out.weight_treeids.push_back(tree);
  out.weight_nodeids.push_back(id);
  out.weight_ids.push_back(column);
  out.weights.push_back(weight);
}

// Of every node, in the order of the arrays; nothing unless the engine told it of every tree that
// splits.
std::vector<float> hitrates_of(const TreeModel& model) {
  std::vector<float> out;
  for (const Tree& tree : model.trees) {
    if (tree.nodes.empty()) {
      out.push_back(1);
      continue;
    }
    if (tree.node_covers.size() != tree.nodes.size() ||
        tree.leaf_covers.size() != tree.leaves.size()) {
      return {};
    }
    for (const double cover : tree.node_covers) out.push_back(static_cast<float>(cover));
    for (const double cover : tree.leaf_covers) out.push_back(static_cast<float>(cover));
  }
  return out;
}

// ONNX Runtime takes a one-column classifier whose weights are all ≥ 0 for one that sums up
// probabilities: it labels by sum > 0.5 instead of sum > 0 (seen with 1.31: label 0 beside a
// probability of 0.57). Such a model gets both columns spelled out.
bool needs_both_columns(const TreeModel& model) {
  if (model.objective != Objective::kBinary) return false;
  return std::all_of(model.trees.begin(), model.trees.end(), [](const Tree& tree) {
    return std::all_of(tree.leaves.begin(), tree.leaves.end(),
                       [](double leaf) { return static_cast<float>(leaf) >= 0; });
  });
}

}  // namespace

float exact_threshold(double threshold, Tiny tiny) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (tiny == Tiny::kReadsAsZero && std::abs(threshold) <= kReadsAsZero) {
    return threshold >= 0 ? kReadsAsZero : std::nextafter(-kReadsAsZero, -kInfinity);
  }
  if (threshold > kLargest) return kLargest;
  if (threshold < -kLargest) return -kInfinity;
  const auto nearest = static_cast<float>(threshold);
  return static_cast<double>(nearest) > threshold ? std::nextafter(nearest, -kInfinity) : nearest;
}

onnx::Trees to_onnx_trees(const TreeModel& model) {
  onnx::Trees out;
  const bool binary = model.objective == Objective::kBinary;
  out.ensemble = binary ? onnx::Ensemble::kClassifier : onnx::Ensemble::kRegressor;
  out.transform = binary ? onnx::Transform::kLogistic : onnx::Transform::kNone;
  out.features = model.features;
  out.hitrates = hitrates_of(model);
  const bool both = needs_both_columns(model);
  for (std::size_t t = 0; t < model.trees.size(); ++t) {
    const Tree& tree = model.trees[t];
    const auto tree_id = static_cast<std::int64_t>(t);
    const auto splits = static_cast<std::int64_t>(tree.nodes.size());
    for (std::int64_t i = 0; i < splits; ++i) {
      add_split(tree.nodes[static_cast<std::size_t>(i)], model.tiny, tree_id, i, splits, out);
    }
    for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
      const std::int64_t id = splits + static_cast<std::int64_t>(i);
      const auto weight = static_cast<float>(tree.leaves[i]);
      add_leaf(tree_id, id, out);
      add_weight(tree_id, id, 0, both ? -weight : weight, out);
      if (both) add_weight(tree_id, id, 1, weight, out);
    }
  }
  return out;
}

}  // namespace falaj::training
