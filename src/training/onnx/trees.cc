#include "training/onnx/trees.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace falaj::training::onnx {
namespace {

// LightGBM's predictors drop cells with |x| ≤ this float, which then read as 0.
constexpr float kReadsAsZero = 1e-35f;

void add_split(const TreeNode& node, std::int64_t tree, std::int64_t id, std::int64_t splits,
               OnnxTrees& out) {
  const auto child = [&](std::int32_t c) { return c >= 0 ? c : splits + ~c; };
  const bool left_when_missing = node.missing == Missing::kNan
                                     ? node.default_side == Side::kLeft
                                     : 0.0 <= node.threshold;  // NaN is read as 0.
  out.treeids.push_back(tree);
  out.nodeids.push_back(id);
  out.featureids.push_back(node.feature);
  out.modes.push_back(Mode::kBranchLeq);
  out.values.push_back(exact_threshold(node.threshold));
  out.truenodeids.push_back(child(node.left));
  out.falsenodeids.push_back(child(node.right));
  out.missing_value_tracks_true.push_back(left_when_missing ? 1 : 0);
}

void add_leaf(std::int64_t tree, std::int64_t id, OnnxTrees& out) {
  out.treeids.push_back(tree);
  out.nodeids.push_back(id);
  out.featureids.push_back(0);
  out.modes.push_back(Mode::kLeaf);
  out.values.push_back(0);
  out.truenodeids.push_back(0);
  out.falsenodeids.push_back(0);
  out.missing_value_tracks_true.push_back(0);
}

void add_weight(std::int64_t tree, std::int64_t id, std::int64_t column, float weight,
                OnnxTrees& out) {
  out.weight_treeids.push_back(tree);
  out.weight_nodeids.push_back(id);
  out.weight_ids.push_back(column);
  out.weights.push_back(weight);
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

float exact_threshold(double threshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (threshold >= 0 && threshold <= kReadsAsZero) return kReadsAsZero;
  if (threshold < 0 && threshold >= -kReadsAsZero) return std::nextafter(-kReadsAsZero, -kInfinity);
  if (threshold > kLargest) return kLargest;
  if (threshold < -kLargest) return -kInfinity;
  const auto nearest = static_cast<float>(threshold);
  return static_cast<double>(nearest) > threshold ? std::nextafter(nearest, -kInfinity) : nearest;
}

OnnxTrees to_onnx_trees(const TreeModel& model) {
  OnnxTrees out;
  out.objective = model.objective;
  out.features = model.features;
  const bool both = needs_both_columns(model);
  for (std::size_t t = 0; t < model.trees.size(); ++t) {
    const Tree& tree = model.trees[t];
    const auto tree_id = static_cast<std::int64_t>(t);
    const auto splits = static_cast<std::int64_t>(tree.nodes.size());
    for (std::int64_t i = 0; i < splits; ++i) {
      add_split(tree.nodes[static_cast<std::size_t>(i)], tree_id, i, splits, out);
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

namespace {

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX trees: " + what);
}

Status check_lengths(const OnnxTrees& trees) {
  const std::size_t nodes = trees.treeids.size();
  const std::size_t weights = trees.weights.size();
  const bool even = nodes > 0 && nodes <= std::numeric_limits<std::uint32_t>::max() &&
                    trees.nodeids.size() == nodes && trees.featureids.size() == nodes &&
                    trees.modes.size() == nodes && trees.values.size() == nodes &&
                    trees.truenodeids.size() == nodes && trees.falsenodeids.size() == nodes &&
                    trees.missing_value_tracks_true.size() == nodes &&
                    trees.weight_treeids.size() == weights &&
                    trees.weight_nodeids.size() == weights && trees.weight_ids.size() == weights;
  return even ? Status{} : Status(damaged("arrays of different lengths"));
}

// Where each tree begins, and one past the last node; ids must count 0, 1, 2 … in both.
Result<std::vector<std::size_t>> find_roots(const OnnxTrees& trees) {
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < trees.treeids.size(); ++i) {
    if (trees.nodeids[i] == 0) roots.push_back(i);
    if (roots.empty() || trees.treeids[i] != static_cast<std::int64_t>(roots.size() - 1) ||
        trees.nodeids[i] != static_cast<std::int64_t>(i - roots.back())) {
      return damaged("node " + std::to_string(i) + " is out of order");
    }
  }
  roots.push_back(trees.treeids.size());
  return roots;
}

}  // namespace

Result<OnnxWalker> OnnxWalker::build(const OnnxTrees& trees) {
  FALAJ_TRY(check_lengths(trees));
  const std::vector<std::size_t> roots = FALAJ_TRY(find_roots(trees));
  OnnxWalker walker;
  walker.objective_ = trees.objective;
  walker.nodes_.resize(trees.treeids.size());
  for (std::size_t t = 0; t + 1 < roots.size(); ++t) {
    walker.roots_.push_back(roots[t]);
    std::int32_t leaves = 0;
    for (std::size_t i = roots[t]; i < roots[t + 1]; ++i) {
      Node& node = walker.nodes_[i];
      if (trees.modes[i] == Mode::kLeaf) {
        node.leaf = leaves++;
        continue;
      }
      const auto size = static_cast<std::int64_t>(roots[t + 1] - roots[t]);
      const std::int64_t self = trees.nodeids[i];
      const std::int64_t yes = trees.truenodeids[i];
      const std::int64_t no = trees.falsenodeids[i];
      // Children after their parent: a walk always ends.
      if (yes <= self || no <= self || yes >= size || no >= size || trees.featureids[i] < 0 ||
          trees.featureids[i] >= static_cast<std::int64_t>(trees.features)) {
        return damaged("split " + std::to_string(self) + " of tree " + std::to_string(t));
      }
      node.value = trees.values[i];
      node.feature = static_cast<std::int32_t>(trees.featureids[i]);
      node.yes = static_cast<std::uint32_t>(roots[t] + static_cast<std::size_t>(yes));
      node.no = static_cast<std::uint32_t>(roots[t] + static_cast<std::size_t>(no));
      node.missing_is_yes = trees.missing_value_tracks_true[i] != 0;
    }
  }
  const bool both =
      std::find(trees.weight_ids.begin(), trees.weight_ids.end(), 1) != trees.weight_ids.end();
  for (std::size_t i = 0; i < trees.weights.size(); ++i) {
    if (both && trees.weight_ids[i] != 1) continue;
    const std::int64_t t = trees.weight_treeids[i];
    const std::int64_t n = trees.weight_nodeids[i];
    if (t < 0 || t >= static_cast<std::int64_t>(walker.roots_.size()) || n < 0) {
      return damaged("a weight of no tree");
    }
    const std::size_t at = roots[static_cast<std::size_t>(t)] + static_cast<std::size_t>(n);
    if (at >= roots[static_cast<std::size_t>(t) + 1] || trees.modes[at] != Mode::kLeaf) {
      return damaged("a weight of no leaf");
    }
    walker.nodes_[at].value = trees.weights[i];
  }
  return walker;
}

const OnnxWalker::Node& OnnxWalker::end_of(std::size_t tree, std::span<const float> row) const {
  const Node* node = &nodes_[roots_[tree]];
  while (node->feature >= 0) {
    const float x = row[static_cast<std::size_t>(node->feature)];
    const bool yes = x <= node->value || (node->missing_is_yes && std::isnan(x));
    node = &nodes_[yes ? node->yes : node->no];
  }
  return *node;
}

std::int32_t OnnxWalker::leaf(std::size_t tree, std::span<const float> row) const {
  return end_of(tree, row).leaf;
}

float OnnxWalker::score(std::span<const float> row) const {
  float sum = 0;
  for (std::size_t t = 0; t < roots_.size(); ++t) sum += end_of(t, row).value;
  return objective_ == Objective::kBinary ? 1.0f / (1.0f + std::exp(-sum)) : sum;
}

}  // namespace falaj::training::onnx
