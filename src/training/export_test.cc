#include "training/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "onnx/walker.h"

namespace falaj::training {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// x ≤ 0.3 (as a double) → (y ≤ 5, NaN right) else leaf 2.
TreeModel two_splits() {
  TreeModel model;
  model.features = 2;
  Tree tree;
  tree.nodes.push_back({0, 0.3, Missing::kNone, Side::kLeft, 1, ~2});
  tree.nodes.push_back({1, 5.0, Missing::kNan, Side::kRight, ~0, ~1});
  tree.leaves = {-0.5, 0.25, 1.0};
  model.trees.push_back(tree);
  Tree constant;
  constant.leaves = {0.125};
  model.trees.push_back(constant);
  return model;
}

std::vector<std::int32_t> leaves(const onnx::Trees& trees, std::vector<float> row) {
  const auto walker = onnx::Walker::build(trees);
  EXPECT_TRUE(walker.ok()) << walker.error().message;
  return {walker->leaf(0, row), walker->leaf(1, row)};
}

TEST(ExactThreshold, is_the_largest_float_not_above) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const double t =
        std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 80) - 100);
    const float f = exact_threshold(t);
    ASSERT_LE(static_cast<double>(f), t);
    ASSERT_GT(static_cast<double>(std::nextafter(f, kInfinity)), t);
  }
}

TEST(ExactThreshold, keeps_the_ends) {
  EXPECT_EQ(exact_threshold(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(exact_threshold(-1e300), -kInfinity);
}

// LightGBM reads |x| ≤ 1e-35 as 0, so no such x may be split from 0.
TEST(ExactThreshold, never_splits_what_reads_as_zero) {
  for (const double t : {0.0, 1e-40, 1.0000000180025095e-35}) {
    EXPECT_EQ(exact_threshold(t), 1e-35f) << t;
  }
  for (const double t : {-1e-40, -1.0000000180025095e-35}) {
    EXPECT_LT(exact_threshold(t), -1e-35f) << t;
    EXPECT_EQ(std::nextafter(exact_threshold(t), 0.0f), -1e-35f) << t;
  }
}

TEST(Export, walks_as_the_engine_does) {
  const onnx::Trees trees = to_onnx_trees(two_splits());
  const float below = exact_threshold(0.3);
  EXPECT_EQ(leaves(trees, {below, 5.0f}), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(leaves(trees, {below, 5.5f})[0], 1);
  EXPECT_EQ(leaves(trees, {std::nextafter(below, kInfinity), 5.0f})[0], 2);
  EXPECT_EQ(leaves(trees, {std::nanf(""), 0.0f})[0], 0) << "missing None: NaN is 0, and 0 ≤ 0.3";
  EXPECT_EQ(leaves(trees, {0.0f, std::nanf("")})[0], 1) << "missing NaN: the default side";
}

TEST(Export, reads_back_what_was_written) {
  TreeModel model = two_splits();
  for (const Objective objective : {Objective::kBinary, Objective::kRegression}) {
    model.objective = objective;
    const onnx::Trees trees = to_onnx_trees(model);
    const std::string bytes = onnx::write_trees(trees, {{"producer", "falaj"}});
    const auto back = onnx::read_trees(bytes);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->ensemble, trees.ensemble);
    EXPECT_EQ(back->transform, trees.transform);
    EXPECT_EQ(back->features, 2u);
    EXPECT_EQ(back->values, trees.values);
    EXPECT_EQ(back->modes, trees.modes);
    EXPECT_EQ(back->weights, trees.weights);
    EXPECT_EQ(back->truenodeids, trees.truenodeids);
    EXPECT_EQ(back->missing_value_tracks_true, trees.missing_value_tracks_true);
    EXPECT_EQ(bytes, onnx::write_trees(trees, {{"producer", "falaj"}}));
  }
}

TEST(Export, tells_how_many_rows_came_by_when_every_tree_does) {
  TreeModel model = two_splits();
  EXPECT_TRUE(to_onnx_trees(model).hitrates.empty());
  model.trees[0].node_covers = {10, 7};
  model.trees[0].leaf_covers = {3, 4, 3};
  const onnx::Trees trees = to_onnx_trees(model);
  // The second tree is one leaf, which everybody comes by.
  EXPECT_EQ(trees.hitrates, (std::vector<float>{10, 7, 3, 4, 3, 1}));
  EXPECT_EQ(onnx::read_trees(onnx::write_trees(trees, {}))->hitrates, trees.hitrates);
}

TEST(Export, a_classifier_without_a_negative_leaf_spells_out_both_columns) {
  TreeModel model = two_splits();
  model.trees[0].leaves = {0.5, 0.25, 1.0};
  const onnx::Trees trees = to_onnx_trees(model);
  EXPECT_EQ(trees.weights.size(), 8u);
  const auto walker = onnx::Walker::build(trees);
  const std::vector<float> row{1.0f, 0.0f};
  EXPECT_NEAR(walker->score(row), 1 / (1 + std::exp(-1.125)), 1e-6);
}

}  // namespace
}  // namespace falaj::training
