// Half-precision weights, pruning and trimming: what the runtime makes of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "onnx/optimize/fp16.h"
#include "onnx/optimize/prune.h"
#include "onnx/optimize/trim.h"
#include "serving/optimize/trial.h"
#include "serving/testing/random_mlp.h"
#include "serving/testing/random_trees.h"
#include "serving/trees/compiled_trees.h"

namespace falaj::serving {
namespace {

using testing::float_tensor;
using testing::kOnnxFloat;
using testing::node;
using testing::Proto;
using testing::random_mlp;
using testing::value_info;

std::unique_ptr<Session> load(const std::string& bytes) {
  static Runtime* const runtime =
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value().release();
  auto session = runtime->load_bytes(bytes);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return session.ok() ? std::move(session).value() : nullptr;
}

onnx::Difference apart(const std::string& before, const std::string& after,
                       std::span<const float> matrix) {
  const auto first = load(before);
  const auto second = load(after);
  EXPECT_EQ(first->signature().inputs, second->signature().inputs);
  EXPECT_EQ(first->signature().outputs, second->signature().outputs);
  return compare(answers_of(*first, matrix).value(), answers_of(*second, matrix).value()).value();
}

TEST(Half, is_the_nearest_of_all_halves) {
  for (std::uint32_t half = 0; half <= 0xFFFF; ++half) {
    const float value = onnx::float_of(static_cast<std::uint16_t>(half));
    if (std::isnan(value)) continue;
    ASSERT_EQ(onnx::half_of(value), half) << value;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::ldexp(static_cast<float>(random() % 20'001) / 10'000 - 1,
                                   static_cast<int>(random() % 44) - 28);
    const std::uint16_t half = onnx::half_of(value);
    const float mine = onnx::float_of(half);
    if (std::isinf(mine)) {
      ASSERT_GE(std::abs(value), 65520.0F);
      continue;
    }
    const double gap = std::abs(static_cast<double>(mine) - value);
    for (const int step : {-1, 1}) {
      const auto beside = static_cast<std::uint16_t>(half + step);
      if ((beside & 0x8000) != (half & 0x8000)) continue;
      const float other = onnx::float_of(beside);
      if (!std::isfinite(other)) continue;
      ASSERT_LE(gap, std::abs(static_cast<double>(other) - value)) << value;
    }
  }
  EXPECT_EQ(onnx::half_of(65519.9F), 0x7BFF);
  EXPECT_EQ(onnx::half_of(-65520.0F), 0xFC00);
  EXPECT_EQ(onnx::half_of(1.0F + 0x1p-11F), 0x3C00) << "a tie goes to the even one";
  EXPECT_EQ(onnx::half_of(1.0F + 3 * 0x1p-11F), 0x3C02);
  EXPECT_TRUE(std::isnan(onnx::float_of(onnx::half_of(std::nanf("")))));
}

TEST(Half, halves_the_file_and_hardly_moves_an_answer) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    testing::MlpShape shape;
    shape.hidden = 96;
    shape.features = R"(["x"])";
    const std::string model = random_mlp(shape, seed);
    const onnx::Optimized made = onnx::half_weights(model).value();
    EXPECT_GE(made.changed.size(), shape.layers);
    EXPECT_LT(made.bytes.size() * 100, model.size() * 55);
    const onnx::Difference far =
        apart(model, made.bytes, testing::gaussians(100 * shape.columns, seed));
    EXPECT_LT(far.worst, 0.02) << "seed " << seed;
    EXPECT_GT(far.worst, 0);
    const onnx::Optimized again = onnx::half_weights(made.bytes).value();
    EXPECT_TRUE(again.changed.empty());
    EXPECT_EQ(again.bytes, made.bytes);
  }
}

TEST(Half, leaves_what_it_cannot_hold) {
  std::vector<float> weights(64, 1);
  weights[5] = 70'000;
  const std::string model = testing::linear_onnx(weights, 0);
  const onnx::Optimized made = onnx::half_weights(model).value();
  EXPECT_TRUE(made.changed.empty());
  EXPECT_EQ(made.bytes, model);
  ASSERT_EQ(made.left.size(), 1u);
  EXPECT_EQ(made.left[0].why, "a value is over 65504 or not finite");
  EXPECT_EQ(onnx::half_weights("garbage").error().id, ErrorId::kModelCorrupt);
}

// input → [columns, units] → Relu → [units, 1] → score; unit i weighs `sizes[i]`.
std::string two_layers(const std::vector<float>& sizes, bool turned = false) {
  const auto units = static_cast<std::int64_t>(sizes.size());
  std::vector<float> in;
  for (int column = 0; column < 3; ++column) {
    for (std::size_t unit = 0; unit < sizes.size(); ++unit) {
      in.push_back(sizes[unit] * (column == static_cast<int>(unit) % 3 ? 1.0F : 0.5F));
    }
  }
  if (turned) {
    std::vector<float> other(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      other[(i % sizes.size()) * 3 + i / sizes.size()] = in[i];
    }
    in = other;
  }
  Proto graph;
  Proto gemm = node("Gemm", {"input", "w0", "b0"}, {"raw"});
  if (turned) gemm.message(5, Proto().bytes(1, "transB").integer(3, 1).integer(20, 2));
  graph.message(1, gemm);
  graph.message(1, node("Relu", {"raw"}, {"act"}));
  graph.message(1, node("MatMul", {"act", "w1"}, {"score"}));
  graph.bytes(2, "two");
  graph.message(5,
                turned ? float_tensor("w0", {units, 3}, in) : float_tensor("w0", {3, units}, in));
  graph.message(5, float_tensor("b0", {units}, std::vector<float>(sizes.size(), 0)));
  graph.message(5, float_tensor("w1", {units, 1}, std::vector<float>(sizes.size(), 1)));
  graph.message(11, value_info("input", kOnnxFloat, {-1, 3}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 1}));
  graph.message(13, value_info("act", kOnnxFloat, {-1, units}));
  return testing::model_bytes(graph, "");
}

TEST(PruneUnits, takes_out_those_that_weigh_nothing_without_any_difference) {
  for (const bool turned : {false, true}) {
    const std::string model = two_layers({1, 0, 2, 0, 3, 0, 0, 0}, turned);
    const onnx::Optimized made = onnx::prune_units(model, 0.625).value();
    ASSERT_EQ(made.changed.size(), 1u);
    EXPECT_EQ(made.changed[0].what, "3 of 8 units");
    EXPECT_EQ(made.changed[0].bytes_after, 3 * 4 * sizeof(float));
    EXPECT_LT(made.bytes.size(), model.size());
    EXPECT_EQ(apart(model, made.bytes, testing::gaussians(300, 1)).worst, 0);
  }
}

TEST(PruneUnits, takes_out_those_that_weigh_least) {
  const std::string model = two_layers({1, 0.001F, 2, 0.002F});
  const onnx::Optimized half = onnx::prune_units(model, 0.5).value();
  EXPECT_EQ(half.changed.at(0).what, "2 of 4 units");
  EXPECT_LT(apart(model, half.bytes, testing::gaussians(300, 1)).worst, 0.01);
  const onnx::Optimized most = onnx::prune_units(model, 0.99).value();
  EXPECT_EQ(most.changed.at(0).what, "1 of 4 units");
}

TEST(PruneUnits, narrows_whole_chains_of_random_networks) {
  std::size_t narrowed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    testing::MlpShape shape;
    shape.layers = 1 + seed % 4;
    const std::string model = random_mlp(shape, seed);
    const onnx::Optimized made = onnx::prune_units(model, 0.5).value();
    ASSERT_EQ(made.changed.size(), shape.layers - 1) << "seed " << seed;
    ASSERT_EQ(made.left.size(), 1u) << "the last matrix gives the answer";
    narrowed += made.changed.size();
    const auto session = load(made.bytes);
    ASSERT_NE(session, nullptr);
    const auto answers = answers_of(*session, testing::gaussians(10 * shape.columns, seed));
    ASSERT_TRUE(answers.ok());
    for (const float value : answers->floats.at(0)) ASSERT_TRUE(std::isfinite(value));
  }
  EXPECT_GT(narrowed, 30u);
}

TEST(PruneUnits, leaves_alone_what_others_read) {
  Proto graph;
  graph.message(1, node("MatMul", {"input", "w0"}, {"hidden"}));
  graph.message(1, node("MatMul", {"hidden", "w1"}, {"score"}));
  graph.bytes(2, "shown");
  graph.message(5, float_tensor("w0", {3, 4}, testing::gaussians(12, 1)));
  graph.message(5, float_tensor("w1", {4, 1}, testing::gaussians(4, 2)));
  graph.message(11, value_info("input", kOnnxFloat, {-1, 3}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 1}));
  graph.message(12, value_info("hidden", kOnnxFloat, {-1, 4}));
  const onnx::Optimized made = onnx::prune_units(testing::model_bytes(graph, ""), 0.5).value();
  EXPECT_TRUE(made.changed.empty());
  ASSERT_EQ(made.left.size(), 2u);
  EXPECT_EQ(made.left[0].why, "what it gives is an output, or read by several");
  for (const double share : {0.0, 1.0, -1.0, std::nan("")}) {
    EXPECT_EQ(onnx::prune_units("", share).error().id, ErrorId::kOutOfRange);
  }
  EXPECT_EQ(onnx::prune_units("garbage", 0.5).error().id, ErrorId::kModelCorrupt);
}

TEST(PruneWeights, makes_the_smallest_share_zero) {
  const std::string model = testing::linear_onnx({1, -0.1F, 3, 0.2F, -5}, 1);
  const onnx::Optimized made = onnx::prune_weights(model, 0.4).value();
  ASSERT_EQ(made.changed.size(), 1u);
  EXPECT_EQ(made.changed[0].what, "2 of 5 weights are zero");
  const std::vector<float> rows{1, 1, 1, 1, 1, 0, 1, 0, 1, 0};
  const Answers answers = answers_of(*load(made.bytes), rows).value();
  EXPECT_EQ(answers.floats.at(0), (std::vector<float>{0, 1}));
}

// Boosted: each round adds less than the one before.
onnx::Trees fading_trees(std::uint64_t seed) {
  testing::TreesShape shape;
  shape.trees = 64;
  shape.splits = 12;
  shape.covers = seed % 2 == 0;
  onnx::Trees trees = testing::random_trees(shape, seed);
  for (std::size_t i = 0; i < trees.weights.size(); ++i) {
    trees.weights[i] *= std::pow(0.8F, static_cast<float>(trees.weight_treeids[i]));
  }
  return trees;
}

TEST(Trim, first_trees_and_merged_leaves_are_trees_of_their_own) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const onnx::Trees trees = fading_trees(seed);
    ASSERT_TRUE(onnx::check_forest(trees).ok());
    const onnx::Trees few = onnx::first_trees(trees, 5);
    EXPECT_EQ(onnx::tree_count(few), 5u);
    EXPECT_TRUE(onnx::check_forest(few).ok());
    EXPECT_TRUE(CompiledTrees::compile(few).ok());
    const onnx::Trees all = onnx::merge_leaves(trees, std::numeric_limits<float>::infinity());
    EXPECT_EQ(all.treeids.size(), 64u) << "a leaf for each tree";
    EXPECT_TRUE(onnx::check_forest(all).ok());
    const onnx::Trees some = onnx::merge_leaves(trees, 0.01F);
    EXPECT_TRUE(onnx::check_forest(some).ok());
    EXPECT_TRUE(CompiledTrees::compile(some).ok());
    EXPECT_LT(some.treeids.size(), trees.treeids.size());
  }
}

TEST(Trim, equal_leaves_are_merged_without_any_difference) {
  onnx::Trees trees = fading_trees(3);
  for (float& weight : trees.weights) weight = weight > 0 ? 0.25F : -0.5F;
  const std::string model = onnx::write_trees(trees, {{"note", "kept"}});
  const onnx::Optimized made = onnx::with_trees(model, onnx::merge_leaves(trees, 0)).value();
  ASSERT_EQ(made.changed.size(), 1u);
  EXPECT_LT(made.bytes.size(), model.size());
  EXPECT_NE(made.bytes.find("kept"), std::string::npos);
  EXPECT_EQ(apart(model, made.bytes, testing::gaussians(500 * trees.features, 9)).worst, 0);
}

TEST(Trim, finds_the_least_that_fits) {
  const onnx::Trees trees = fading_trees(4);
  std::size_t asked = 0;
  const auto by_count = [&](const onnx::Trees& fewer) -> Result<bool> {
    ++asked;
    return onnx::tree_count(fewer) >= 17 && fewer.treeids.size() + 40 >= 17 * 8;
  };
  const onnx::Trees found = onnx::trim(trees, by_count).value();
  EXPECT_EQ(onnx::tree_count(found), 17u);
  EXPECT_TRUE(by_count(found).value());
  EXPECT_LT(asked, 25u);
  const auto never = [](const onnx::Trees&) -> Result<bool> { return false; };
  EXPECT_EQ(onnx::trim(trees, never).value().treeids, trees.treeids);
  const auto broken = [](const onnx::Trees&) -> Result<bool> {
    return Error{Code::kInternal, "no"};
  };
  EXPECT_FALSE(onnx::trim(trees, broken).ok());
}

TEST(Trim, refuses_arrays_that_are_no_trees) {
  const auto refused = [](const std::function<void(onnx::Trees&)>& harm) {
    onnx::Trees trees = fading_trees(5);
    harm(trees);
    const Status status = onnx::check_forest(trees);
    EXPECT_FALSE(status.ok());
    return status.ok() ? std::string() : status.error().message;
  };
  const auto split_of = [](const onnx::Trees& trees) {
    return static_cast<std::size_t>(
        std::find(trees.modes.begin(), trees.modes.end(), onnx::Mode::kLeq) - trees.modes.begin());
  };
  EXPECT_NE(refused([&](auto& t) { t.truenodeids[split_of(t)] = 9999; }).find("missing"),
            std::string::npos);
  EXPECT_NE(refused([&](auto& t) {
              t.truenodeids[split_of(t)] = t.falsenodeids[split_of(t)];
            }).find("two parents"),
            std::string::npos);
  EXPECT_NE(refused([&](auto& t) {
              t.truenodeids[split_of(t)] = t.nodeids[split_of(t)];
            }).find("ONNX trees"),
            std::string::npos);
  EXPECT_NE(refused([&](auto& t) { t.nodeids[1] = t.nodeids[0]; }).find("twice"),
            std::string::npos);
  EXPECT_NE(refused([&](auto& t) { t.weight_nodeids[0] = 12345; }).find("no leaf"),
            std::string::npos);
}

}  // namespace
}  // namespace falaj::serving
