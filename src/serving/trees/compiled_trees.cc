#include "serving/trees/compiled_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace falaj::serving {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kSlotsMax = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kNodesMax = std::numeric_limits<std::uint32_t>::max() / 4;

Error refused(const std::string& why) {
  return Error(ErrorId::kModelCorrupt, "trees are not compiled: " + why);
}

// As the runtime computes it, so that no bit differs.
float logistic(float x) {
  const float v = 1 / (1 + std::exp(-std::abs(x)));
  return x < 0 ? 1 - v : v;
}

// A split in the one form that is walked: `yes` when x ≤ value, NaN by `nan_is_yes`.
struct Split {
  float value = 0;
  bool nan_is_yes = false;
  bool swapped = false;  // The true branch is `no`.
};

// x < t is x ≤ the float before t; x ≥ t and x > t are those two, not taken. False when there is
// no such form.
bool normalise(onnx::Mode mode, float value, bool missing_is_true, Split& split) {
  if (std::isnan(value)) return false;
  const bool strict = mode == onnx::Mode::kLt || mode == onnx::Mode::kGte;
  if (strict && value == -kInfinity) return false;
  split.value = strict ? std::nextafter(value, -kInfinity) : value;
  split.swapped = mode == onnx::Mode::kGte || mode == onnx::Mode::kGt;
  split.nan_is_yes = missing_is_true != split.swapped;
  return mode != onnx::Mode::kEq && mode != onnx::Mode::kNeq;
}

}  // namespace

class CompiledTrees::Builder {
 public:
  Builder(const onnx::Trees& from, CompiledTrees& to) : from_(from), to_(to) {}

  Status build() {
    FALAJ_TRY(take_form());
    FALAJ_TRY(find_trees());
    FALAJ_TRY(take_weights());
    to_.nodes_.push_back(leaf_node(0));  // Spare lanes walk this.
    to_.second_.assign(to_.two_columns_ ? 1 : 0, 0);
    if (!from_.hitrates.empty()) to_.covers_.push_back(0);
    for (std::size_t tree = 0; tree + 1 < starts_.size(); ++tree) FALAJ_TRY(add_tree(tree));
    group();
    to_.trees_ = std::move(made_);
    to_.prepare_explaining();
    return {};
  }

 private:
  struct Pending {
    std::size_t from = 0;  // In the arrays.
    std::uint32_t at = 0;  // In nodes_.
    std::uint32_t depth = 0;
  };

  Status take_form() {
    const bool classifier = from_.ensemble == onnx::Ensemble::kClassifier;
    to_.columns_ = from_.features;
    to_.classifier_ = classifier;
    to_.logistic_ = from_.transform == onnx::Transform::kLogistic;
    if (2 * to_.columns_ >= kSlotsMax) return refused("too many features");
    if (from_.treeids.size() > kNodesMax) return refused("too many nodes");
    if (from_.transform != onnx::Transform::kNone && !(classifier && to_.logistic_)) {
      return refused("its post_transform");
    }
    if (from_.base_values.size() > 1) return refused("several base values");
    if (!from_.base_values.empty()) to_.base_ = from_.base_values[0];
    if (classifier) {
      if (from_.class_labels.size() != 2) return refused("not two classes");
      to_.labels_ = {from_.class_labels[0], from_.class_labels[1]};
    } else {
      if (from_.targets != 1) return refused("several targets");
      if (from_.aggregate != onnx::Aggregate::kSum &&
          from_.aggregate != onnx::Aggregate::kAverage) {
        return refused("its aggregate function");
      }
    }
    return {};
  }

  // Each tree is one run of nodes with the same id, ids ascend, the first node is the root.
  Status find_trees() {
    for (std::size_t i = 0; i < from_.treeids.size(); ++i) {
      if (i > 0 && from_.treeids[i] < from_.treeids[i - 1]) return refused("trees out of order");
      if (i == 0 || from_.treeids[i] != from_.treeids[i - 1]) {
        by_tree_[from_.treeids[i]] = starts_.size();
        starts_.push_back(i);
      }
    }
    const std::size_t trees = starts_.size();
    starts_.push_back(from_.treeids.size());
    if (from_.aggregate == onnx::Aggregate::kAverage) to_.divisor_ = static_cast<float>(trees);
    by_node_.resize(trees);
    for (std::size_t tree = 0; tree < trees; ++tree) {
      for (std::size_t i = starts_[tree]; i < starts_[tree + 1]; ++i) {
        if (!by_node_[tree].emplace(from_.nodeids[i], i).second) return refused("a node twice");
      }
    }
    return {};
  }

  Result<std::size_t> find(std::size_t tree, std::int64_t node) const {
    const auto found = by_node_[tree].find(node);
    if (found == by_node_[tree].end()) return refused("a node that is not there");
    return found->second;
  }

  // One weight a leaf in column 0, or one in each of two columns of a classifier.
  Status take_weights() {
    const std::size_t nodes = from_.treeids.size();
    first_.assign(nodes, kInfinity);  // No leaf may weigh that; it marks "none yet".
    second_.assign(nodes, kInfinity);
    bool negative = false;
    for (std::size_t i = 0; i < from_.weights.size(); ++i) {
      const auto tree = by_tree_.find(from_.weight_treeids[i]);
      if (tree == by_tree_.end()) return refused("a weight of no tree");
      const std::size_t at = FALAJ_TRY(find(tree->second, from_.weight_nodeids[i]));
      const std::int64_t column = from_.weight_ids[i];
      if (column < 0 || column > (to_.classifier_ ? 1 : 0)) return refused("a weight's column");
      if (from_.modes[at] != onnx::Mode::kLeaf) return refused("a weight of a split");
      float& place = column == 0 ? first_[at] : second_[at];
      if (place != kInfinity || !std::isfinite(from_.weights[i])) {
        return refused("two weights, or one that is not finite");
      }
      place = from_.weights[i];
      to_.two_columns_ = to_.two_columns_ || column == 1;
      negative = negative || from_.weights[i] < 0;
    }
    return check_columns(negative);
  }

  Status check_columns(bool negative) const {
    // With weights that are all ≥ 0 in one column the runtime takes them for probabilities.
    if (to_.classifier_ && !to_.two_columns_ && !negative) return refused("no negative weight");
    // With two columns it labels 0 and 1, whatever the labels are, and spreads a base value oddly.
    const bool plain =
        to_.labels_ == std::array<std::int64_t, 2>{0, 1} && from_.base_values.empty();
    if (to_.two_columns_ && !plain) return refused("two columns with labels or a base value");
    return {};
  }

  Node leaf_node(float weight) const {
    return {weight, static_cast<std::uint16_t>(2 * to_.columns_), 0};
  }

  // Breadth first, children side by side. Every node is placed once, so no cycle is walked.
  Status add_tree(std::size_t tree) {
    Tree made;
    made.root = place_node();
    std::vector<bool> placed(starts_[tree + 1] - starts_[tree]);
    std::vector<Pending> queue{{starts_[tree], made.root, 0}};
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const Pending now = queue[next];
      if (placed[now.from - starts_[tree]]) return refused("a node with two parents");
      placed[now.from - starts_[tree]] = true;
      made.depth = std::max(made.depth, now.depth);
      if (!to_.covers_.empty()) to_.covers_[now.at] = from_.hitrates[now.from];
      if (from_.modes[now.from] == onnx::Mode::kLeaf) {
        FALAJ_TRY(set_leaf(now));
      } else {
        FALAJ_TRY(set_split(tree, now, queue));
      }
    }
    made_.push_back(made);
    return {};
  }

  std::uint32_t place_node() {
    to_.nodes_.emplace_back();
    if (to_.two_columns_) to_.second_.push_back(0);
    if (!to_.covers_.empty()) to_.covers_.push_back(0);
    return static_cast<std::uint32_t>(to_.nodes_.size() - 1);
  }

  Status set_leaf(const Pending& now) {
    if (first_[now.from] == kInfinity || (to_.two_columns_ && second_[now.from] == kInfinity)) {
      return refused("a leaf without a weight");
    }
    to_.nodes_[now.at] = leaf_node(first_[now.from]);
    if (to_.two_columns_) to_.second_[now.at] = second_[now.from];
    return {};
  }

  Status set_split(std::size_t tree, const Pending& now, std::vector<Pending>& queue) {
    const std::int64_t feature = from_.featureids[now.from];
    if (feature < 0 || feature >= static_cast<std::int64_t>(to_.columns_)) {
      return refused("a feature that is not there");
    }
    const std::vector<std::int64_t>& tracks = from_.missing_value_tracks_true;
    const std::int64_t missing = tracks.empty() ? 0 : tracks[now.from];
    Split split;
    if ((missing != 0 && missing != 1) ||
        !normalise(from_.modes[now.from], from_.values[now.from], missing == 1, split)) {
      return refused("a split of another kind");
    }
    std::size_t yes = FALAJ_TRY(find(tree, from_.truenodeids[now.from]));
    std::size_t no = FALAJ_TRY(find(tree, from_.falsenodeids[now.from]));
    if (split.swapped) std::swap(yes, no);
    const std::uint32_t children = place_node();
    place_node();
    if (children - now.at > std::numeric_limits<std::uint16_t>::max()) {
      return refused("a tree that is too wide");
    }
    to_.nodes_[now.at] = {split.value,
                          static_cast<std::uint16_t>(2 * feature + (split.nan_is_yes ? 1 : 0)),
                          static_cast<std::uint16_t>(children - now.at)};
    queue.push_back({yes, children, now.depth + 1});
    queue.push_back({no, children + 1, now.depth + 1});
    return {};
  }

  // In each block of trees, those of about one depth walk together; their sum keeps the order.
  void group() {
    for (std::size_t first = 0; first < made_.size(); first += kBlock) {
      const std::size_t count = std::min(kBlock, made_.size() - first);
      std::vector<std::uint16_t> order(count);
      for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint16_t>(i);
      std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
        return made_[first + a].depth < made_[first + b].depth;
      });
      Block block{to_.groups_.size(), 0, count};
      for (std::size_t at = 0; at < count; at += kLanes, ++block.groups) {
        Group& group = to_.groups_.emplace_back();
        group.places.fill(kBlock);
        for (std::size_t lane = 0; lane < std::min(kLanes, count - at); ++lane) {
          const Tree& made = made_[first + order[at + lane]];
          group.roots[lane] = made.root;
          group.places[lane] = order[at + lane];
          group.depth = std::max(group.depth, made.depth);
        }
      }
      to_.blocks_.push_back(block);
    }
  }

  const onnx::Trees& from_;
  CompiledTrees& to_;
  std::vector<std::size_t> starts_;              // Of each tree in the arrays; and the end.
  std::map<std::int64_t, std::size_t> by_tree_;  // Id → number.
  std::vector<std::map<std::int64_t, std::size_t>> by_node_;  // Of each tree: id → place.
  std::vector<float> first_;
  std::vector<float> second_;
  std::vector<Tree> made_;
};

Result<CompiledTrees> CompiledTrees::compile(const onnx::Trees& trees) {
  CompiledTrees compiled;
  FALAJ_TRY(Builder(trees, compiled).build());
  return compiled;
}

// Each value twice: as it is, so that NaN is never ≤; and with NaN as -inf, which always is. Then
// the slot of leaves.
std::span<const float> CompiledTrees::cells_of(std::span<const float> row) const {
  thread_local std::vector<float> cells;
  cells.resize(2 * columns_ + 1);
  for (std::size_t i = 0; i < columns_; ++i) {
    cells[2 * i] = row[i];
    cells[2 * i + 1] = std::isnan(row[i]) ? -kInfinity : row[i];
  }
  cells[2 * columns_] = -kInfinity;
  return cells;
}

template <bool kTwoColumns>
CompiledTrees::Sums CompiledTrees::sum(std::span<const float> row) const {
  const float* const cells = cells_of(row).data();
  const Node* const nodes = nodes_.data();
  Sums sums;
  for (const Block& block : blocks_) {
    std::array<float, kBlock + 1> first;
    std::array<float, kTwoColumns ? kBlock + 1 : 1> second;
    for (std::size_t g = block.first_group; g < block.first_group + block.groups; ++g) {
      const Group& group = groups_[g];
      std::array<std::uint32_t, kLanes> at = group.roots;
      for (std::uint32_t depth = 0; depth < group.depth; ++depth) {
#pragma GCC unroll 8
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const Node node = nodes[at[lane]];
          at[lane] += node.step + (cells[node.slot] <= node.value ? 0U : 1U);
        }
      }
#pragma GCC unroll 8
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        first[group.places[lane]] = nodes[at[lane]].value;
        if constexpr (kTwoColumns) second[group.places[lane]] = second_[at[lane]];
      }
    }
    for (std::size_t tree = 0; tree < block.trees; ++tree) {
      sums.first += first[tree];
      if constexpr (kTwoColumns) sums.second += second[tree];
    }
  }
  return sums;
}

float CompiledTrees::finish(float sum) const { return logistic_ ? logistic(sum) : sum; }

float CompiledTrees::score(std::span<const float> row) const {
  if (two_columns_) return finish(sum<true>(row).second);
  const float total = sum<false>(row).first;
  return finish((divisor_ == 1 ? total : total / divisor_) + base_);
}

CompiledTrees::Answer CompiledTrees::answer(std::span<const float> row) const {
  Answer answer;
  if (two_columns_) {
    const Sums sums = sum<true>(row);
    answer.scores = {finish(sums.first), finish(sums.second)};
    answer.label = labels_[sums.second > 0 ? 1 : 0];
    return answer;
  }
  const float total = sum<false>(row).first;
  const float score = (divisor_ == 1 ? total : total / divisor_) + base_;
  if (!classifier_) {
    answer.scores[0] = score;
    return answer;
  }
  answer.scores = {finish(-score), finish(score)};
  answer.label = labels_[score > 0 ? 1 : 0];
  return answer;
}

}  // namespace falaj::serving
