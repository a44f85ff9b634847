#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "serving/testing/random_trees.h"
#include "serving/trees/compiled_trees.h"
#include "serving/trees/probe_rows.h"

namespace falaj::serving {
namespace {

using onnx::Mode;
using onnx::Trees;
using testing::random_trees;
using Shape = testing::TreesShape;

const std::function<bool()> kNeverLate = [] { return false; };

// The same question answered from its definition, over all coalitions: slow, and simple enough to
// be read as correct.
class Oracle {
 public:
  Oracle(const Trees& trees, std::span<const float> row) : trees_(trees), row_(row) {
    const bool second = trees.weight_ids.size() > 1 && trees.weight_ids[1] == 1;
    for (std::size_t i = 0; i < trees.weights.size(); ++i) {
      if (second && trees.weight_ids[i] == 0) continue;
      weights_[{trees.weight_treeids[i], trees.weight_nodeids[i]}] = trees.weights[i];
    }
  }

  // What the trees add up to when only the features of `known` (bits) are.
  double value(std::uint32_t known) const {
    double sum = 0;
    double count = 0;
    for (std::size_t at = 0; at < trees_.treeids.size(); ++at) {
      if (trees_.nodeids[at] != 0) continue;
      sum += below(at, 0, known);
      ++count;
    }
    if (trees_.aggregate == onnx::Aggregate::kAverage) sum /= count;
    return sum + (trees_.base_values.empty() ? 0 : trees_.base_values[0]);
  }

  std::vector<double> shapley() const {
    const auto n = static_cast<std::uint32_t>(trees_.features);
    std::vector<double> values(1U << n);
    for (std::uint32_t known = 0; known < values.size(); ++known) values[known] = value(known);
    std::vector<double> out(n, 0.0);
    for (std::uint32_t i = 0; i < n; ++i) {
      for (std::uint32_t known = 0; known < values.size(); ++known) {
        if ((known >> i & 1U) != 0) continue;
        const auto s = static_cast<double>(std::popcount(known));
        const double weight =
            std::tgamma(s + 1) * std::tgamma(n - s) / std::tgamma(static_cast<double>(n) + 1);
        out[i] += weight * (values[known | 1U << i] - values[known]);
      }
    }
    return out;
  }

 private:
  bool goes_true(std::size_t at) const {
    const float x = row_[static_cast<std::size_t>(trees_.featureids[at])];
    if (std::isnan(x)) {
      const auto& tracks = trees_.missing_value_tracks_true;
      return !tracks.empty() && tracks[at] == 1;
    }
    switch (trees_.modes[at]) {
      case Mode::kLeq:
        return x <= trees_.values[at];
      case Mode::kLt:
        return x < trees_.values[at];
      case Mode::kGte:
        return x >= trees_.values[at];
      default:
        return x > trees_.values[at];
    }
  }

  double below(std::size_t root, std::int64_t node, std::uint32_t known) const {
    const std::size_t at = root + static_cast<std::size_t>(node);
    if (trees_.modes[at] == Mode::kLeaf) return weights_.at({trees_.treeids[at], node});
    const std::int64_t yes = trees_.truenodeids[at];
    const std::int64_t no = trees_.falsenodeids[at];
    if ((known >> trees_.featureids[at] & 1U) != 0) {
      return below(root, goes_true(at) ? yes : no, known);
    }
    const double came[] = {trees_.hitrates[root + static_cast<std::size_t>(yes)],
                           trees_.hitrates[root + static_cast<std::size_t>(no)]};
    return (came[0] * below(root, yes, known) + came[1] * below(root, no, known)) /
           (came[0] + came[1]);
  }

  const Trees& trees_;
  std::span<const float> row_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> weights_;
};

void expect_as_the_oracle(const Shape& shape, std::uint64_t seed, std::size_t rows) {
  const Trees trees = random_trees(shape, seed);
  const CompiledTrees compiled = CompiledTrees::compile(trees).value();
  ASSERT_TRUE(compiled.explains()) << "seed " << seed;
  const std::vector<float> matrix = probe_rows(trees, rows, seed + 1000);
  std::vector<double> got(shape.features, 9.0);
  for (std::size_t at = 0; at < matrix.size(); at += shape.features) {
    const auto row = std::span<const float>(matrix).subspan(at, shape.features);
    const Oracle oracle(trees, row);
    ASSERT_TRUE(compiled.explain(row, got, kNeverLate).ok());
    const std::vector<double> expected = oracle.shapley();
    double size = 0;
    for (const double each : expected) size = std::max(size, std::abs(each));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 1e-9 * size) << "seed " << seed << " feature " << i;
    }
    const double all = oracle.value((1U << shape.features) - 1);
    ASSERT_NEAR(compiled.base(), oracle.value(0), 1e-9 * std::abs(oracle.value(0)));
    const double sum = std::accumulate(got.begin(), got.end(), compiled.base());
    ASSERT_NEAR(sum, all, 1e-9 * std::max(std::abs(all), size)) << "seed " << seed;
  }
}

Shape small() {
  Shape shape;
  shape.trees = 12;
  shape.splits = 20;
  shape.features = 7;
  shape.covers = true;
  shape.scale = 1;
  return shape;
}

TEST(Contributions, agree_with_every_coalition_counted) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) expect_as_the_oracle(small(), seed, 12);
}

TEST(Contributions, agree_for_every_form_that_is_compiled) {
  Shape shape = small();
  shape.modes = {Mode::kLeq, Mode::kLt, Mode::kGte, Mode::kGt};
  expect_as_the_oracle(shape, 31, 20);
  shape.two_columns = true;
  expect_as_the_oracle(shape, 32, 20);
  shape.two_columns = false;
  shape.ensemble = onnx::Ensemble::kRegressor;
  shape.transform = onnx::Transform::kNone;
  shape.base_values = {-12.5f};
  expect_as_the_oracle(shape, 33, 20);
  shape.aggregate = onnx::Aggregate::kAverage;
  expect_as_the_oracle(shape, 34, 20);
  shape.tracks_missing = false;
  expect_as_the_oracle(shape, 35, 20);
}

TEST(Contributions, agree_when_one_feature_is_asked_again_and_again) {
  Shape shape = small();
  shape.features = 2;
  shape.splits = 60;
  for (std::uint64_t seed = 41; seed <= 44; ++seed) expect_as_the_oracle(shape, seed, 20);
  shape.features = 1;
  expect_as_the_oracle(shape, 45, 20);
  shape.splits = 0;
  expect_as_the_oracle(shape, 46, 3);
}

// Where the usual way of unwinding a path loses its digits.
TEST(Contributions, add_up_along_deep_paths_of_many_features) {
  Shape shape = small();
  shape.features = 200;
  shape.splits = 4000;
  shape.trees = 20;
  const Trees trees = random_trees(shape, 51);
  const CompiledTrees compiled = CompiledTrees::compile(trees).value();
  const std::vector<float> matrix = probe_rows(trees, 20, 52);
  std::vector<double> got(shape.features);
  for (std::size_t at = 0; at < matrix.size(); at += shape.features) {
    const auto row = std::span<const float>(matrix).subspan(at, shape.features);
    ASSERT_TRUE(compiled.explain(row, got, kNeverLate).ok());
    const double all = compiled.answer(row).scores[1];
    const double sum = std::accumulate(got.begin(), got.end(), compiled.base());
    EXPECT_NEAR(1 / (1 + std::exp(-sum)), all, 1e-6);
  }
}

TEST(Contributions, are_refused_without_covers_that_add_up) {
  Shape shape = small();
  Trees trees = random_trees(shape, 61);
  trees.hitrates.assign(trees.treeids.size(), 1.0f);  // As most converters write them.
  EXPECT_FALSE(CompiledTrees::compile(trees)->explains());
  trees.hitrates.clear();
  EXPECT_FALSE(CompiledTrees::compile(trees)->explains());
  trees = random_trees(shape, 61);
  EXPECT_TRUE(CompiledTrees::compile(trees)->explains());
  trees.hitrates.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(CompiledTrees::compile(trees)->explains());
}

// A chain: as deep as it has splits.
Trees chain(std::size_t splits) {
  Trees trees;
  trees.features = 1;
  const auto add = [&](Mode mode, std::size_t yes, float came) {
    trees.treeids.push_back(0);
    trees.nodeids.push_back(static_cast<std::int64_t>(trees.nodeids.size()));
    trees.featureids.push_back(0);
    trees.modes.push_back(mode);
    trees.values.push_back(static_cast<float>(trees.nodeids.size()));
    trees.truenodeids.push_back(static_cast<std::int64_t>(yes));
    trees.falsenodeids.push_back(static_cast<std::int64_t>(yes + 1));
    trees.hitrates.push_back(came);
    if (mode != Mode::kLeaf) return;
    trees.weight_treeids.push_back(0);
    trees.weight_nodeids.push_back(trees.nodeids.back());
    trees.weight_ids.push_back(0);
    trees.weights.push_back(trees.weights.size() % 2 == 0 ? -1.0f : 1.0f);
  };
  for (std::size_t i = 0; i < splits; ++i) {
    add(Mode::kLeq, 2 * i + 1, static_cast<float>(splits + 1 - i));
    add(Mode::kLeaf, 0, 1);
  }
  add(Mode::kLeaf, 0, 1);
  // The chain goes on at the false branch, which stands after the leaf.
  return trees;
}

TEST(Contributions, are_refused_for_trees_too_deep_to_walk) {
  EXPECT_TRUE(CompiledTrees::compile(chain(CompiledTrees::kExplainedDepthMax))->explains());
  EXPECT_FALSE(CompiledTrees::compile(chain(CompiledTrees::kExplainedDepthMax + 1))->explains());
}

TEST(Contributions, stop_when_it_is_late) {
  Shape shape = small();
  shape.trees = 400;
  shape.splits = 200;
  shape.features = 12;
  const CompiledTrees compiled = CompiledTrees::compile(random_trees(shape, 71)).value();
  std::vector<double> got(shape.features);
  const std::vector<float> row(shape.features, 0.5f);
  int asked = 0;
  const Status stopped = compiled.explain(row, got, [&] { return ++asked == 2; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().id, ErrorId::kDeadlineExceeded);
  EXPECT_EQ(asked, 2);
}

TEST(Quadrature, is_exact_for_polynomials_up_to_its_degree) {
  for (const std::size_t points : {1U, 2U, 3U, 5U, 8U, 17U, 64U, 128U}) {
    const Quadrature rule = gauss_legendre(points);
    ASSERT_EQ(rule.at.size(), points);
    ASSERT_EQ(rule.weights.size(), points);
    for (std::size_t degree = 0; degree < 2 * points; ++degree) {
      double sum = 0;
      for (std::size_t q = 0; q < points; ++q) {
        sum += rule.weights[q] * std::pow(rule.at[q], static_cast<double>(degree));
      }
      const double exact = 1 / (static_cast<double>(degree) + 1);
      ASSERT_NEAR(sum, exact, 1e-12 * exact) << points << " points, degree " << degree;
    }
    for (std::size_t q = 0; q < points; ++q) {
      EXPECT_GT(rule.weights[q], 0);
      EXPECT_GT(rule.at[q], q == 0 ? 0 : rule.at[q - 1]);
      EXPECT_LT(rule.at[q], 1);
    }
  }
}

}  // namespace
}  // namespace falaj::serving
