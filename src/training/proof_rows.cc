#include "training/proof_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace falaj::training {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr std::int64_t kVariants = 4;
constexpr std::int64_t kAimedMax = 2'000'000;

// The largest float ≤ t. Written apart from the exporter's rule, which is what is on trial.
float float_at(double t) {
  if (t >= kLargest) return kLargest;
  if (t < -kLargest) return -kInfinity;
  float f = static_cast<float>(t);
  while (static_cast<double>(f) > t) f = std::nextafter(f, -kInfinity);
  return f;
}

// What the splits above allow for one feature: low < x ≤ high.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

float value_inside(const Interval& interval, float wish) {
  const auto inside = [&](float x) { return x > interval.low && x <= interval.high; };
  if (inside(wish)) return wish;  // Never true for NaN.
  if (std::isfinite(interval.high)) return float_at(interval.high);
  return std::nextafter(float_at(interval.low), kInfinity);
}

}  // namespace

ProofRows::ProofRows(const ProofRowsOptions& options)
    : model_(options.model), real_rows_(options.real_rows), random_(options.seed) {
  FALAJ_CHECK(model_.features > 0 && real_rows_.size() >= model_.features);
  collect();
  const auto splits = static_cast<std::int64_t>(aims_.size());
  aimed_ = std::min(splits * kVariants, kAimedMax);
  // However many splits there are, real data and mixtures keep a fair part.
  const std::int64_t rest = std::max(options.rows_min - aimed_, options.rows_min / 2);
  mixed_ = rest / 3;
  real_ = rest - mixed_;
}

void ProofRows::collect() {
  thresholds_.resize(model_.features);
  for (std::size_t t = 0; t < model_.trees.size(); ++t) {
    const Tree& tree = model_.trees[t];
    std::vector<std::int32_t>& parents = parents_.emplace_back(tree.nodes.size(), -1);
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      const TreeNode& node = tree.nodes[n];
      for (const std::int32_t child : {node.left, node.right}) {
        if (child >= 0) parents[static_cast<std::size_t>(child)] = static_cast<std::int32_t>(n);
      }
      aims_.push_back({static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(n)});
      thresholds_[static_cast<std::size_t>(node.feature)].push_back(float_at(node.threshold));
    }
  }
}

std::span<const float> ProofRows::base_row(std::uint64_t index) const {
  const std::size_t rows = real_rows_.size() / model_.features;
  return real_rows_.subspan((index % rows) * model_.features, model_.features);
}

bool ProofRows::next(std::size_t rows, std::vector<float>& out) {
  const auto count = static_cast<std::size_t>(
      std::min<std::int64_t>(static_cast<std::int64_t>(rows), total() - done_));
  out.resize(count * model_.features);
  for (std::size_t i = 0; i < count; ++i, ++done_) {
    const std::span<float> row = std::span(out).subspan(i * model_.features, model_.features);
    if (done_ < aimed_) {
      fill_aimed(done_, row);
    } else if (done_ < aimed_ + mixed_) {
      fill_mixed(row);
    } else {
      const auto nth = static_cast<std::uint64_t>(done_ - aimed_ - mixed_);
      std::ranges::copy(base_row(nth), row.begin());
    }
  }
  return count > 0;
}

void ProofRows::fill_aimed(std::int64_t index, std::span<float> row) {
  // More splits than room: evenly chosen ones, each with all its variants.
  const std::int64_t wanted = aimed_ / kVariants;
  const auto step = static_cast<std::size_t>(index / kVariants);
  const std::size_t chosen = step * aims_.size() / static_cast<std::size_t>(wanted);
  const Aim aim = aims_[std::min(chosen, aims_.size() - 1)];
  const Tree& tree = model_.trees[aim.tree];
  std::ranges::copy(base_row(random_()), row.begin());

  std::vector<std::pair<std::size_t, Interval>> limits;
  std::int32_t child = static_cast<std::int32_t>(aim.node);
  for (std::int32_t at = parents_[aim.tree][aim.node]; at >= 0;
       child = at, at = parents_[aim.tree][static_cast<std::size_t>(at)]) {
    const TreeNode& node = tree.nodes[static_cast<std::size_t>(at)];
    const auto feature = static_cast<std::size_t>(node.feature);
    auto found = std::ranges::find(limits, feature, &std::pair<std::size_t, Interval>::first);
    if (found == limits.end()) found = limits.insert(limits.end(), {feature, Interval{}});
    Interval& interval = found->second;
    if (node.left == child) {
      interval.high = std::min(interval.high, node.threshold);
    } else {
      interval.low = std::max(interval.low, node.threshold);
    }
  }
  for (const auto& [feature, interval] : limits) {
    row[feature] = value_inside(interval, row[feature]);
  }
  const TreeNode& target = tree.nodes[aim.node];
  const float at_threshold = float_at(target.threshold);
  const std::array<float, kVariants> variants{at_threshold, std::nextafter(at_threshold, kInfinity),
                                              std::nextafter(at_threshold, -kInfinity), kNan};
  row[static_cast<std::size_t>(target.feature)] =
      variants[static_cast<std::size_t>(index % kVariants)];
}

float ProofRows::special(std::size_t feature) {
  static constexpr std::array<float, 14> kSpecial{
      kNan,   0.0f,    -0.0f,  kInfinity, -kInfinity, kLargest, -kLargest,
      1e-35f, -1e-35f, 1e-34f, -1e-34f,   1e-40f,     -1e-40f,  1.0f};
  const std::vector<float>& thresholds = thresholds_[feature];
  const std::uint64_t dice = random_();
  if (thresholds.empty() || dice % 3 == 0) return kSpecial[(dice >> 8) % kSpecial.size()];
  const float threshold = thresholds[(dice >> 8) % thresholds.size()];
  if (dice % 3 == 1) return threshold;
  return std::nextafter(threshold, (dice >> 4) % 2 == 0 ? kInfinity : -kInfinity);
}

void ProofRows::fill_mixed(std::span<float> row) {
  const std::span<const float> base = base_row(random_());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = random_() % 2 == 0 ? base[i] : special(i);
  }
}

}  // namespace falaj::training
