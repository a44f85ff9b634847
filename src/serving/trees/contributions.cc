// Shapley values of a tree's answer, exact and stable.
//
// Of one leaf: let each feature j that is asked for on the way to it have the share z_j of training
// rows that its splits let through, and o_j = 1 when they let this row through, else 0. With the
// features S known the leaf weighs w · Π(S) o_j · Π(not S) z_j, and the Shapley value of feature i
// in that game is the integral over t from 0 to 1 of
//     w · (o_i − z_i) · Π(j ≠ i) (t · o_j + (1 − t) · z_j),
// because a coalition of s out of n features weighs ∫ t^s (1 − t)^(n−s). The product is a
// polynomial of t, so a sum over few points gives the integral without error, and no term of it is
// a difference of large numbers. All leaves below an edge share the factor of that edge: its
// feature is credited once for all of them, on the way back up.
#include <algorithm>
#include <cmath>

#include "serving/trees/compiled_trees.h"

namespace falaj::serving {
namespace {

// Converters that do not know the covers write ones everywhere; sums of float32 differ by less.
constexpr double kCoverTolerance = 1e-3;
constexpr std::size_t kStepsBetweenLooks = 1 << 15;

// What is known of a feature on the way down: nothing yet is {1, 1}.
struct Seen {
  double one = 1;   // Whether its splits let the row through.
  double zero = 1;  // The share of training rows that they let through.
  double factor(double t) const { return t * one + (1 - t) * zero; }
};

}  // namespace

class CompiledTrees::Contributions {
 public:
  Contributions(const CompiledTrees& trees, std::span<const float> cells, std::span<double> out)
      : trees_(trees), cells_(cells), out_(out), seen_(trees.columns_) {}

  // False: it became late.
  bool add(const Tree& tree, const std::function<bool()>& late) {
    const std::size_t most = std::min<std::size_t>(tree.depth, trees_.columns_);
    rule_ = &trees_.rules_[(most + 1) / 2];
    points_ = rule_->at.size();
    products_.resize((tree.depth + 1) * points_);
    sums_.resize((tree.depth + 1) * points_);
    std::fill_n(products_.begin(), points_, 1.0);
    late_ = &late;
    walk(tree.root, 0);
    return !stopped_;
  }

 private:
  // Fills the level's sums with what the leaves below weigh at each point.
  void walk(std::uint32_t at, std::size_t level) {
    const Node node = trees_.nodes_[at];
    double* const sums = &sums_[level * points_];
    if (node.step == 0) {
      const double weight = trees_.weight_of(at);
      const double* const products = &products_[level * points_];
      for (std::size_t q = 0; q < points_; ++q) sums[q] = weight * rule_->weights[q] * products[q];
      return;
    }
    std::fill_n(sums, points_, 0.0);
    const std::uint32_t yes = at + node.step;
    const std::uint32_t hot = yes + (cells_[node.slot] <= node.value ? 0U : 1U);
    const double both = static_cast<double>(trees_.covers_[yes]) + trees_.covers_[yes + 1];
    for (std::uint32_t child = yes; child <= yes + 1 && !stopped_; ++child) {
      const Seen before = seen_[node.slot / 2];
      const Seen after{child == hot ? before.one : 0, before.zero * trees_.covers_[child] / both};
      // Nobody comes here, whatever is known.
      if (after.one == 0 && after.zero == 0) continue;
      descend(child, level, node.slot / 2, after);
    }
  }

  // Along one edge and back, where its feature is credited for all leaves below. An edge above of
  // the same feature will count them with its own shares: that is taken off here.
  void descend(std::uint32_t child, std::size_t level, std::size_t feature, Seen after) {
    const Seen before = seen_[feature];
    const double* const products = &products_[level * points_];
    double* const below = &products_[(level + 1) * points_];
    for (std::size_t q = 0; q < points_; ++q) {
      const double t = rule_->at[q];
      below[q] = products[q] * (after.factor(t) / before.factor(t));
    }
    seen_[feature] = after;
    walk(child, level + 1);
    seen_[feature] = before;
    look();
    double* const sums = &sums_[level * points_];
    const double* const sums_below = &sums_[(level + 1) * points_];
    double credit = 0;
    for (std::size_t q = 0; q < points_; ++q) {
      const double t = rule_->at[q];
      credit += sums_below[q] * ((after.one - after.zero) / after.factor(t) -
                                 (before.one - before.zero) / before.factor(t));
      sums[q] += sums_below[q];
    }
    out_[feature] += credit;
  }

  void look() {
    steps_ += points_;
    if (steps_ < kStepsBetweenLooks) return;
    steps_ = 0;
    stopped_ = stopped_ || (*late_)();
  }

  const CompiledTrees& trees_;
  std::span<const float> cells_;
  std::span<double> out_;
  std::vector<Seen> seen_;        // By feature: on the way from the root to here.
  std::vector<double> products_;  // By level and point: the factors of the way from the root.
  std::vector<double> sums_;      // By level and point: of the leaves below.
  const Quadrature* rule_ = nullptr;
  std::size_t points_ = 0;
  const std::function<bool()>* late_ = nullptr;
  std::size_t steps_ = 0;
  bool stopped_ = false;
};

Status CompiledTrees::explain(std::span<const float> row, std::span<double> contributions,
                              const std::function<bool()>& late) const {
  std::fill(contributions.begin(), contributions.end(), 0.0);
  Contributions adder(*this, cells_of(row), contributions);
  for (const Tree& tree : trees_) {
    if (adder.add(tree, late)) continue;
    return Error(ErrorId::kDeadlineExceeded, "the explanation took longer than its budget");
  }
  for (double& each : contributions) each /= divisor_;
  return {};
}

bool CompiledTrees::covers_add_up() const {
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    const double own = covers_[at];
    if (!std::isfinite(own) || own < 0) return false;
    if (nodes_[at].step == 0) continue;
    const double both =
        static_cast<double>(covers_[at + nodes_[at].step]) + covers_[at + nodes_[at].step + 1];
    if (!(both > 0) || !(std::abs(both - own) <= kCoverTolerance * own)) return false;
  }
  return true;
}

double CompiledTrees::expected_below(std::uint32_t node) const {
  if (nodes_[node].step == 0) return weight_of(node);
  const std::uint32_t yes = node + nodes_[node].step;
  const double shares[] = {covers_[yes], covers_[yes + 1]};
  return (shares[0] * expected_below(yes) + shares[1] * expected_below(yes + 1)) /
         (shares[0] + shares[1]);
}

void CompiledTrees::prepare_explaining() {
  std::size_t deepest = 0;
  for (const Tree& tree : trees_) deepest = std::max<std::size_t>(deepest, tree.depth);
  if (covers_.empty() || deepest > kExplainedDepthMax || !covers_add_up()) {
    covers_ = {};
    trees_ = {};
    return;
  }
  rules_.resize((std::min(deepest, columns_) + 1) / 2 + 1);
  for (const Tree& tree : trees_) {
    const std::size_t points = (std::min<std::size_t>(tree.depth, columns_) + 1) / 2;
    if (rules_[points].at.empty()) rules_[points] = gauss_legendre(points);
    expected_ += expected_below(tree.root);
  }
  expected_ = expected_ / divisor_ + base_;
}

}  // namespace falaj::serving
