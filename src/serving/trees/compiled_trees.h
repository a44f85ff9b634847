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
#include <functional>
#include <span>
#include <vector>

#include "onnx/trees.h"
#include "serving/trees/quadrature.h"

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

  // Why a row has its sum. A feature that is not known sends a row down both branches of a split,
  // in the shares in which rows of training came by; the contributions are the Shapley values of
  // that game, exactly (contributions.cc): base() + their sum = the sum of the trees.
  //
  // Whether that is possible: the file says how many rows came by each node (hitrates), those of
  // children add up to their parent's, and no tree is deeper than kExplainedDepthMax.
  bool explains() const { return !covers_.empty(); }
  // Whether scores are the logistic of the sum that is explained.
  bool is_logistic() const { return logistic_; }
  // What the trees add up to when nothing is known of a row.
  double base() const { return expected_; }
  // Of the sum before the logistic; of two columns the second. `contributions` has columns()
  // places and is overwritten. FJ-0013 once `late()`, which is asked every now and then, is true.
  // Cost: nodes × half their tree's depth.
  Status explain(std::span<const float> row, std::span<double> contributions,
                 const std::function<bool()>& late) const;
  static constexpr std::size_t kExplainedDepthMax = 256;

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
  struct Tree {
    std::uint32_t root = 0;
    std::uint32_t depth = 0;
  };
  class Builder;
  class Contributions;  // Of one row; see contributions.cc.

  // After covers_ and trees_ are known: forgets them when they are of no use.
  void prepare_explaining();
  bool covers_add_up() const;
  double expected_below(std::uint32_t node) const;
  double weight_of(std::uint32_t leaf) const {
    return two_columns_ ? second_[leaf] : nodes_[leaf].value;
  }

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
  // For explain(); empty when it is not possible.
  std::vector<float> covers_;  // By node.
  std::vector<Tree> trees_;
  std::vector<Quadrature> rules_;  // By their number of points, as far as a tree needs it.
  double expected_ = 0;
};

}  // namespace falaj::serving
