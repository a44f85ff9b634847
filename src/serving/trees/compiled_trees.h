// serving/trees/compiled_trees.h — a tree ensemble laid out for answering one row at a time.
//
// Bit for bit the answer of ONNX Runtime with one thread: the same routing (NaN, ties, ±0, ±inf),
// the same float32 sums in the same order, the same logistic. What cannot be had so is refused.
//
// A node takes eight bytes and its children lie side by side, so a step is one compare and one add.
// Eight trees are walked at once without a branch: the processor overlaps their cache misses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "onnx/trees.h"

namespace falaj::serving {

// Immutable. Thread-safe.
class CompiledTrees {
 public:
  // FJ-5002 with the reason when the ensemble has a form this does not reproduce: more than two
  // classes or one target, MIN, MAX, SOFTMAX, PROBIT, splits by equality, a leaf without a weight.
  static Result<CompiledTrees> compile(const onnx::Trees& trees);

  std::size_t columns() const { return columns_; }
  // Of the float output: 1 for a regressor, 2 for a classifier.
  std::size_t width() const { return classifier_ ? 2 : 1; }

  // The last column of the float output. `row` has columns() values. Allocates at a thread's first
  // call only.
  float score(std::span<const float> row) const;
  struct Answer {
    std::array<float, 2> scores{};  // The first width() of them.
    std::int64_t label = 0;         // Of a classifier.
  };
  Answer answer(std::span<const float> row) const;

 private:
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kBlock = 256;  // Trees whose leaves wait to be summed in order.

  // A split: the row goes on at `self + step`, or one further when not (cell[slot] ≤ value).
  // A leaf: step 0, and a slot that always holds -inf: it stays where it is, value is its weight.
  struct Node {
    float value = 0;
    std::uint16_t slot = 0;
    std::uint16_t step = 0;
  };
  // Trees of about one depth, walked together. A spare lane walks `nodes_[0]`, which is a leaf.
  struct Group {
    std::array<std::uint32_t, kLanes> roots{};
    std::array<std::uint16_t, kLanes> places{};  // In the block; kBlock for a spare lane.
    std::uint32_t depth = 0;
  };
  struct Block {
    std::size_t first_group = 0;
    std::size_t groups = 0;
    std::size_t trees = 0;
  };
  struct Sums {
    float first = 0;
    float second = 0;  // Only with two columns of weights.
  };
  class Builder;

  std::span<const float> cells_of(std::span<const float> row) const;
  template <bool kTwoColumns>
  Sums sum(std::span<const float> row) const;
  float finish(float sum) const;

  std::size_t columns_ = 0;
  bool classifier_ = false;
  bool logistic_ = false;
  bool two_columns_ = false;
  float divisor_ = 1;  // AVERAGE: the number of trees.
  float base_ = 0;
  std::array<std::int64_t, 2> labels_{};
  std::vector<Node> nodes_;
  std::vector<float> second_;  // By node: the second column's weight of a leaf.
  std::vector<Group> groups_;
  std::vector<Block> blocks_;
};

}  // namespace falaj::serving
