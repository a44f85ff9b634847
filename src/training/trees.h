// training/trees.h — a tree ensemble exactly as its engine trained it: what an exporter starts
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace falaj::training {

enum class Objective : std::uint8_t { kBinary, kRegression };

// What a split does with NaN: kNone reads it as 0, kNan follows the default side.
// The third kind that engines know (zero as missing) cannot be exported and is refused.
enum class Missing : std::uint8_t { kNone, kNan };
enum class Side : std::uint8_t { kLeft, kRight };

// What |x| ≤ 1e-35 means: LightGBM drops such cells, which then read as 0; XGBoost does not.
enum class Tiny : std::uint8_t { kReadsAsZero, kIsItself };

// A row goes left when its value ≤ threshold. Children ≥ 0 are nodes, < 0 are leaves: ~child.
struct TreeNode {
  std::int32_t feature = 0;
  double threshold = 0;
  Missing missing = Missing::kNone;
  Side default_side = Side::kLeft;
  std::int32_t left = 0;
  std::int32_t right = 0;
};

// Node 0 is the root; a tree without nodes is its only leaf.
struct Tree {
  std::vector<TreeNode> nodes;
  std::vector<double> leaves;
  // How many rows of training came by each node and leaf (XGBoost: their weight), by which
  // explanations average. Both empty when the engine does not say.
  std::vector<double> node_covers = {};
  std::vector<double> leaf_covers = {};
};

// Binary: probability = 1 / (1 + exp(-sum of leaves)). Regression: the sum.
struct TreeModel {
  Objective objective = Objective::kBinary;
  Tiny tiny = Tiny::kReadsAsZero;
  std::size_t features = 0;
  std::vector<Tree> trees;
};

}  // namespace falaj::training
