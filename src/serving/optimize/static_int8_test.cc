#include "onnx/optimize/static_int8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serving/optimize/optimize.h"
#include "serving/testing/random_mlp.h"

namespace falaj::serving {
namespace {

using testing::float_tensor;
using testing::kOnnxFloat;
using testing::node;
using testing::Proto;
using testing::random_mlp;
using testing::value_info;

Runtime& runtime() {
  static Runtime* const opened =
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value().release();
  return *opened;
}

std::unique_ptr<Session> load(const std::string& bytes) {
  auto session = runtime().load_bytes(bytes);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return session.ok() ? std::move(session).value() : nullptr;
}

// [N, 3, 8, 8] → Conv 16 of 3×3 with a bias → Relu → Conv 8 of 3×3 → mean of each channel.
std::string conv_onnx(std::uint64_t seed) {
  Proto graph;
  graph.message(1, node("Conv", {"input", "k0", "b0"}, {"c0"}));
  graph.message(1, node("Relu", {"c0"}, {"r0"}));
  graph.message(1, node("Conv", {"r0", "k1"}, {"c1"}));
  graph.message(1, node("GlobalAveragePool", {"c1"}, {"pool"}));
  graph.message(1, node("Flatten", {"pool"}, {"score"}));
  graph.bytes(2, "conv");
  graph.message(5, float_tensor("k0", {16, 3, 3, 3}, testing::gaussians(16 * 27, seed, 0.2F)));
  graph.message(5, float_tensor("b0", {16}, testing::gaussians(16, seed + 1, 0.5F)));
  graph.message(5, float_tensor("k1", {8, 16, 3, 3}, testing::gaussians(8 * 144, seed + 2, 0.1F)));
  graph.message(11, value_info("input", kOnnxFloat, {-1, 3, 8, 8}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 8}));
  return testing::model_bytes(graph, "");
}

OptimizeOutcome tried(const std::string& model, std::span<const float> rows) {
  std::int64_t clock = 0;
  OptimizeRequest request;
  request.model = model;
  request.method = OptimizeMethod::kStaticInt8;
  request.matrix = rows;
  request.goal = onnx::Goal::kSmaller;
  request.trial.rounds = 1;
  request.trial.now_ns = [&] { return clock += 1'000'000'000; };
  auto outcome = optimize(runtime(), request);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
  return outcome.ok() ? *std::move(outcome) : OptimizeOutcome{};
}

TEST(StaticInt8, watches_what_it_wants_to_know_and_changes_no_answer) {
  const std::string model = conv_onnx(1);
  const onnx::Watched watched = onnx::watch_ranges(model, {1}).value();
  EXPECT_EQ(watched.values, (std::vector<std::string>{"input", "c0", "r0", "c1"}));
  const std::vector<float> rows = testing::gaussians(5 * 192, 3);
  const Answers plain = answers_of(*load(model), rows).value();
  const Answers seen = answers_of(*load(watched.bytes), rows).value();
  ASSERT_EQ(seen.floats.size(), 5u);
  EXPECT_EQ(seen.floats[0], plain.floats[0]);
  EXPECT_EQ(seen.floats[1], rows);
}

TEST(StaticInt8, answers_as_convolutions_do) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string model = conv_onnx(seed * 10);
    const OptimizeOutcome made = tried(model, testing::gaussians(300 * 192, seed));
    ASSERT_EQ(made.made.changed.size(), 2u) << "seed " << seed;
    EXPECT_TRUE(made.made.left.empty());
    EXPECT_EQ(made.rows_judged, 150u);
    EXPECT_LT(made.evidence.difference.mean, 0.1) << "seed " << seed;
    EXPECT_GT(made.evidence.difference.mean, 0);
    const auto before = load(model);
    const auto after = load(made.made.bytes);
    EXPECT_EQ(before->signature().inputs, after->signature().inputs);
    EXPECT_EQ(before->signature().outputs, after->signature().outputs);
  }
}

TEST(StaticInt8, answers_as_random_networks_do) {
  std::size_t changed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    testing::MlpShape shape;
    shape.layers = 1 + seed % 4;
    shape.outputs = 12;
    const std::string model = random_mlp(shape, seed);
    const OptimizeOutcome made = tried(model, testing::gaussians(600 * shape.columns, seed));
    ASSERT_EQ(made.made.changed.size(), shape.layers) << "seed " << seed;
    changed += made.made.changed.size();
    EXPECT_LT(made.evidence.difference.mean, 0.12) << "seed " << seed;
    EXPECT_GT(made.evidence.difference.mean, 0);
  }
  EXPECT_GT(changed, 60u);
}

TEST(StaticInt8, cuts_off_what_calibration_did_not_see) {
  Proto graph;
  graph.message(1, node("MatMul", {"input", "w"}, {"score"})).bytes(2, "one");
  graph.message(5, float_tensor("w", {1, 1}, {1}));
  graph.message(11, value_info("input", kOnnxFloat, {-1, 1}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 1}));
  const std::string model = testing::model_bytes(graph, "");
  onnx::Ranges ranges;
  ranges["input"].see(std::vector<float>{-1, 2, std::nanf(""), INFINITY});
  const onnx::Optimized made = onnx::static_int8(model, ranges, {1}).value();
  ASSERT_EQ(made.changed.size(), 1u);
  const auto session = load(made.bytes);
  const std::vector<float> got =
      answers_of(*session, std::vector<float>{0, 1.5F, 100, -100}).value().floats.at(0);
  EXPECT_EQ(got[0], 0) << "zero is held exactly";
  EXPECT_NEAR(got[1], 1.5, 0.02);
  EXPECT_NEAR(got[2], 2, 0.02);
  EXPECT_NEAR(got[3], -1, 0.02);
  const onnx::Optimized unknown = onnx::static_int8(model, {}, {1}).value();
  EXPECT_TRUE(unknown.changed.empty());
  EXPECT_EQ(unknown.bytes, model);
  EXPECT_EQ(unknown.left.at(0).why, "the range of what it reads is not known");
  EXPECT_EQ(onnx::static_int8("garbage", {}).error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(onnx::watch_ranges("garbage").error().id, ErrorId::kModelCorrupt);
}

}  // namespace
}  // namespace falaj::serving
