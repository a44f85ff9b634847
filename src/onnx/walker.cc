#include "onnx/walker.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace falaj::onnx {
namespace {

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX trees: " + what);
}

Status check_lengths(const Trees& trees) {
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
Result<std::vector<std::size_t>> find_roots(const Trees& trees) {
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

Result<Walker> Walker::build(const Trees& trees) {
  FALAJ_TRY(check_lengths(trees));
  const std::vector<std::size_t> roots = FALAJ_TRY(find_roots(trees));
  Walker walker;
  walker.ensemble_ = trees.ensemble;
  walker.nodes_.resize(trees.treeids.size());
  walker.roots_.assign(roots.begin(), roots.end() - 1);
  FALAJ_TRY(walker.add_splits(trees, roots));
  FALAJ_TRY(walker.add_weights(trees, roots));
  return walker;
}

Status Walker::add_splits(const Trees& trees, std::span<const std::size_t> roots) {
  for (std::size_t t = 0; t + 1 < roots.size(); ++t) {
    std::int32_t leaves = 0;
    for (std::size_t i = roots[t]; i < roots[t + 1]; ++i) {
      Node& node = nodes_[i];
      if (trees.modes[i] == Mode::kLeaf) {
        node.leaf = leaves++;
        continue;
      }
      const auto size = static_cast<std::int64_t>(roots[t + 1] - roots[t]);
      const std::int64_t self = trees.nodeids[i];
      const std::int64_t yes = trees.truenodeids[i];
      const std::int64_t no = trees.falsenodeids[i];
      // Children after their parent: a walk always ends.
      if (trees.modes[i] != Mode::kLeq || yes <= self || no <= self || yes >= size || no >= size ||
          trees.featureids[i] < 0 ||
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
  return {};
}

Status Walker::add_weights(const Trees& trees, std::span<const std::size_t> roots) {
  const bool both =
      std::find(trees.weight_ids.begin(), trees.weight_ids.end(), 1) != trees.weight_ids.end();
  for (std::size_t i = 0; i < trees.weights.size(); ++i) {
    if (both && trees.weight_ids[i] != 1) continue;
    const std::int64_t t = trees.weight_treeids[i];
    const std::int64_t n = trees.weight_nodeids[i];
    if (t < 0 || t >= static_cast<std::int64_t>(roots_.size()) || n < 0) {
      return damaged("a weight of no tree");
    }
    const std::size_t at = roots[static_cast<std::size_t>(t)] + static_cast<std::size_t>(n);
    if (at >= roots[static_cast<std::size_t>(t) + 1] || trees.modes[at] != Mode::kLeaf) {
      return damaged("a weight of no leaf");
    }
    nodes_[at].value = trees.weights[i];
  }
  return {};
}

const Walker::Node& Walker::end_of(std::size_t tree, std::span<const float> row) const {
  const Node* node = &nodes_[roots_[tree]];
  while (node->feature >= 0) {
    const float x = row[static_cast<std::size_t>(node->feature)];
    const bool yes = x <= node->value || (node->missing_is_yes && std::isnan(x));
    node = &nodes_[yes ? node->yes : node->no];
  }
  return *node;
}

std::int32_t Walker::leaf(std::size_t tree, std::span<const float> row) const {
  return end_of(tree, row).leaf;
}

float Walker::score(std::span<const float> row) const {
  float sum = 0;
  for (std::size_t t = 0; t < roots_.size(); ++t) sum += end_of(t, row).value;
  return ensemble_ == Ensemble::kClassifier ? 1.0f / (1.0f + std::exp(-sum)) : sum;
}

}  // namespace falaj::onnx
