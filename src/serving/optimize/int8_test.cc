#include "onnx/optimize/int8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serving/optimize/trial.h"
#include "serving/testing/random_mlp.h"

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

std::vector<float> floats_of(const std::string& model, std::span<const float> matrix) {
  return answers_of(*load(model), matrix).value().floats.at(0);
}

std::string matmul_onnx(std::int64_t rows, std::int64_t columns, const std::vector<float>& w) {
  Proto graph;
  graph.message(1, node("MatMul", {"input", "w"}, {"score"})).bytes(2, "one");
  graph.message(5, float_tensor("w", {rows, columns}, w));
  graph.message(11, value_info("input", kOnnxFloat, {-1, rows}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, columns}));
  return testing::model_bytes(graph, R"(["a"])");
}

// Half a step of each weight and each value, summed: no answer may be further away.
TEST(DynamicInt8, stays_within_half_a_step_of_every_product) {
  constexpr std::size_t kRows = 40;
  constexpr std::size_t kIn = 37;
  constexpr std::size_t kOut = 11;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<float> w = testing::gaussians(kIn * kOut, seed);
    const std::vector<float> x = testing::gaussians(kRows * kIn, seed + 100, 3);
    const std::string model = matmul_onnx(kIn, kOut, w);
    const onnx::Optimized made = onnx::dynamic_int8(model, {1}).value();
    ASSERT_EQ(made.changed.size(), 1u);
    const std::vector<float> before = floats_of(model, x);
    const std::vector<float> after = floats_of(made.bytes, x);
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const double step_x = (std::max(*high, 0.0F) - std::min(*low, 0.0F)) / 255.0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t row = i / kOut;
      const std::size_t out = i % kOut;
      double most = 0;
      for (std::size_t k = 0; k < kIn; ++k) {
        most = std::max(most, std::abs(static_cast<double>(w[k * kOut + out])));
      }
      const double step_w = most / 63;
      double bound = 1e-4;
      for (std::size_t k = 0; k < kIn; ++k) {
        bound += std::abs(x[row * kIn + k]) * step_w / 2 + std::abs(w[k * kOut + out]) * step_x +
                 step_x * step_w / 2;
      }
      ASSERT_LE(std::abs(after[i] - before[i]), bound) << "seed " << seed << " value " << i;
    }
  }
}

// On processors before VNNI full range would be cut off at 32767 for each pair of products.
TEST(DynamicInt8, adds_up_the_greatest_products_without_cutting_them_off) {
  constexpr std::size_t kIn = 64;
  const std::string model = matmul_onnx(kIn, 8, std::vector<float>(kIn * 8, 1.0F));
  const onnx::Optimized made = onnx::dynamic_int8(model, {1}).value();
  const std::vector<float> x(kIn, 1.0F);
  for (const float value : floats_of(made.bytes, x)) EXPECT_NEAR(value, kIn, 0.01);
}

TEST(DynamicInt8, answers_as_random_networks_do) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    testing::MlpShape shape;
    shape.columns = 5 + seed % 20;
    shape.layers = 1 + seed % 4;
    const std::string model = random_mlp(shape, seed);
    const onnx::Optimized made = onnx::dynamic_int8(model, {1}).value();
    ASSERT_EQ(made.changed.size(), shape.layers) << "seed " << seed;
    EXPECT_TRUE(made.left.empty());
    const auto before = load(model);
    const auto after = load(made.bytes);
    EXPECT_EQ(before->signature().inputs, after->signature().inputs);
    EXPECT_EQ(before->signature().outputs, after->signature().outputs);
    const std::vector<float> x = testing::gaussians(200 * shape.columns, seed + 7);
    const onnx::Difference far =
        compare(answers_of(*before, x).value(), answers_of(*after, x).value()).value();
    EXPECT_LT(far.mean, 0.1) << "seed " << seed;
    EXPECT_LT(far.worst, 0.7) << "seed " << seed;
    EXPECT_GT(far.worst, 0) << "nothing was rounded, seed " << seed;
  }
}

TEST(DynamicInt8, makes_the_file_smaller_and_keeps_the_rest_of_it) {
  testing::MlpShape shape;
  shape.hidden = 256;
  shape.features = R"(["x"])";
  const std::string model = random_mlp(shape, 3);
  const onnx::Optimized made = onnx::dynamic_int8(model).value();
  EXPECT_LT(made.bytes.size() * 3, model.size());
  EXPECT_EQ(load(made.bytes)->signature().features, std::vector<std::string>{"x"});
  std::size_t before = 0;
  std::size_t after = 0;
  for (const onnx::NodeChange& change : made.changed) {
    before += change.bytes_before;
    after += change.bytes_after;
  }
  EXPECT_NEAR(static_cast<double>(model.size() - made.bytes.size()),
              static_cast<double>(before - after), 4096);
}

TEST(DynamicInt8, takes_its_own_output_again_and_changes_nothing) {
  const onnx::Optimized once = onnx::dynamic_int8(random_mlp({}, 5), {1}).value();
  const onnx::Optimized twice = onnx::dynamic_int8(once.bytes, {1}).value();
  EXPECT_TRUE(twice.changed.empty());
  EXPECT_EQ(twice.bytes, once.bytes);
}

// A value that feeds two is quantised once; a weight that is used elsewhere stays.
TEST(DynamicInt8, shares_what_is_shared) {
  const std::vector<float> w = testing::gaussians(16 * 16, 1);
  Proto graph;
  graph.message(1, node("MatMul", {"input", "w"}, {"one"}));
  graph.message(1, node("MatMul", {"input", "v"}, {"two"}));
  graph.message(1, node("Add", {"one", "two"}, {"sum"}));
  graph.message(1, node("MatMul", {"w", "sum_t"}, {"other"}));
  graph.message(1, node("ReduceMean", {"other"}, {"mean"}, {{"keepdims", 0}}));
  graph.message(1, node("Add", {"sum", "mean"}, {"score"}));
  graph.bytes(2, "shared");
  graph.message(5, float_tensor("w", {16, 16}, w));
  graph.message(5, float_tensor("v", {16, 16}, testing::gaussians(16 * 16, 2)));
  graph.message(5, float_tensor("sum_t", {16, 1}, testing::gaussians(16, 3)));
  graph.message(11, value_info("input", kOnnxFloat, {-1, 16}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 16}));
  const std::string model = testing::model_bytes(graph, "");
  const onnx::Optimized made = onnx::dynamic_int8(model, {1}).value();
  EXPECT_EQ(made.changed.size(), 2u);
  ASSERT_EQ(made.left.size(), 1u);
  EXPECT_EQ(made.left[0].why, "both matrices are constant");
  std::size_t quantised = 0;
  for (std::size_t at = made.bytes.find("DynamicQuantizeLinear"); at != std::string::npos;
       at = made.bytes.find("DynamicQuantizeLinear", at + 1)) {
    ++quantised;
  }
  EXPECT_EQ(quantised, 1u);
  const std::vector<float> x = testing::gaussians(50 * 16, 4);
  const onnx::Difference far = onnx::difference(floats_of(model, x), floats_of(made.bytes, x));
  EXPECT_LT(far.mean, 0.05);
}

}  // namespace
}  // namespace falaj::serving
