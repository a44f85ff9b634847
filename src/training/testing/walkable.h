// training/testing/walkable.h — that an ensemble which a reader let through is safe to walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "training/trees.h"

namespace falaj::training::testing {

// From the root every node and leaf is reached at most once, and nothing outside the arrays is.
inline void check_walkable(const Tree& tree, std::size_t features) {
  FALAJ_CHECK(!tree.leaves.empty());
  FALAJ_CHECK(tree.node_covers.empty() || tree.node_covers.size() == tree.nodes.size());
  FALAJ_CHECK(tree.leaf_covers.empty() || tree.leaf_covers.size() == tree.leaves.size());
  if (tree.nodes.empty()) return;
  std::vector<std::int32_t> open = {0};
  std::size_t steps = 0;
  while (!open.empty()) {
    const std::int32_t at = open.back();
    open.pop_back();
    FALAJ_CHECK(++steps <= tree.nodes.size() + tree.leaves.size());
    if (at < 0) {
      FALAJ_CHECK(static_cast<std::size_t>(~at) < tree.leaves.size());
      continue;
    }
    FALAJ_CHECK(static_cast<std::size_t>(at) < tree.nodes.size());
    const TreeNode& node = tree.nodes[static_cast<std::size_t>(at)];
    FALAJ_CHECK(node.feature >= 0 && static_cast<std::size_t>(node.feature) < features);
    open.push_back(node.left);
    open.push_back(node.right);
  }
}

inline void check_walkable(const TreeModel& model) {
  FALAJ_CHECK(!model.trees.empty() && model.features > 0);
  for (const Tree& tree : model.trees) check_walkable(tree, model.features);
}

}  // namespace falaj::training::testing
