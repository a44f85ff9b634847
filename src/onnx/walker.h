// onnx/walker.h — walks the arrays of an exported ensemble in float32, one row at a time.
//
// For proofs: it shows the leaf a row ends in, which no runtime does. Not for speed.
#pragma once

#include "onnx/trees.h"

namespace falaj::onnx {

class Walker {
 public:
  // For what write_trees writes for one target or two classes: nodes in order, children after their
  // parent, splits by ≤. FJ-5002 when the arrays do not form such trees.
  static Result<Walker> build(const Trees& trees);
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
  Status add_splits(const Trees& trees, std::span<const std::size_t> roots);
  Status add_weights(const Trees& trees, std::span<const std::size_t> roots);
  const Node& end_of(std::size_t tree, std::span<const float> row) const;
  Ensemble ensemble_ = Ensemble::kClassifier;
  std::vector<std::size_t> roots_;
  std::vector<Node> nodes_;
};

}  // namespace falaj::onnx
