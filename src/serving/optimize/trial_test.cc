#include "serving/optimize/trial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serving/testing/random_mlp.h"
#include "serving/testing/tiny_onnx.h"

namespace falaj::serving {
namespace {

// Doubles what it gets, and lets a clock of its own go on by `cost` for each row.
class TimedSession final : public Session {
 public:
  TimedSession(std::int64_t& clock, std::int64_t cost) : clock_(clock), cost_(cost) {
    signature_.inputs = {{"x", "FP32", {-1, 1}}};
  }
  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    clock_ += cost_ * inputs[0].shape[0];
    rows_ += inputs[0].shape[0];
    return std::vector<Tensor>{{"y", "FP32", inputs[0].shape, inputs[0].bytes}};
  }
  Status score(std::span<const float>, std::size_t, std::vector<float>&) const override {
    return Error(ErrorId::kTensorMismatch, "not asked");
  }
  std::int64_t rows() const { return rows_; }

 private:
  std::int64_t& clock_;
  std::int64_t cost_;
  mutable std::int64_t rows_ = 0;
  registry::Signature signature_;
};

TEST(Trial, measures_rows_a_second_of_both) {
  std::int64_t clock = 0;
  const TimedSession before(clock, 1000);
  const TimedSession after(clock, 250);
  TrialOptions options;
  options.batch = 4;
  options.rounds = 5;
  options.slice_ns = 100'000;
  options.now_ns = [&] { return clock; };
  const std::vector<float> rows(10, 1.0F);
  const onnx::Speed speed = measure(before, after, rows, options).value();
  EXPECT_DOUBLE_EQ(speed.before, 1e6);
  EXPECT_DOUBLE_EQ(speed.after, 4e6);
  EXPECT_DOUBLE_EQ(speed.ratio(), 4);
  EXPECT_EQ(speed.rounds, 5u);
  EXPECT_EQ(speed.won, 5u);
  EXPECT_EQ(before.rows(), 6 * 100);  // Five rounds and the slice that warms it up.
  const onnx::Speed back = measure(after, before, rows, options).value();
  EXPECT_DOUBLE_EQ(back.ratio(), 0.25);
  EXPECT_EQ(back.won, 0u);
  EXPECT_FALSE(measure(before, after, {}, options).ok());
}

TEST(Trial, knows_the_width_of_a_row) {
  const auto width = [](std::vector<registry::TensorSpec> inputs) {
    registry::Signature signature;
    signature.inputs = std::move(inputs);
    const auto found = row_width(signature);
    if (!found.ok()) {
      EXPECT_EQ(found.error().id, ErrorId::kTensorMismatch);
    }
    return found.ok() ? *found : 0;
  };
  EXPECT_EQ(width({{"x", "FP32", {-1, 7}}}), 7u);
  EXPECT_EQ(width({{"x", "FP32", {-1, 3, 4, 5}}}), 60u);
  EXPECT_EQ(width({{"x", "FP32", {-1, -1}}}), 0u);
  EXPECT_EQ(width({{"x", "FP32", {5, 7}}}), 0u);
  EXPECT_EQ(width({{"x", "INT64", {-1, 7}}}), 0u);
  EXPECT_EQ(width({{"x", "FP32", {-1}}}), 0u);
  EXPECT_EQ(width({{"x", "FP32", {-1, 1}}, {"z", "FP32", {-1, 1}}}), 0u);
  EXPECT_EQ(width({{"x", "FP32", {-1, 1 << 24, 1 << 24, 1 << 24}}}), 0u);
}

TEST(Trial, gathers_the_answers_of_all_rows_in_their_order) {
  const auto runtime = open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
  const auto session = runtime->load_bytes(testing::classifier_onnx({2}, 0)).value();
  std::vector<float> rows;
  for (int i = 0; i < 2500; ++i) rows.push_back(static_cast<float>(i % 7) - 3);  // Three pieces.
  const Answers answers = answers_of(*session, rows).value();
  ASSERT_EQ(answers.floats.size(), 1u);
  EXPECT_EQ(answers.floats[0].size(), 5000u);
  ASSERT_EQ(answers.others.size(), 1u);
  EXPECT_EQ(answers.others[0].size(), 2500 * sizeof(std::int64_t));
  const std::vector<float> scores = scores_of(answers, rows.size());
  ASSERT_EQ(scores.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_NEAR(scores[i], 1 / (1 + std::exp(-2 * rows[i])), 1e-6) << i;
  }
  EXPECT_EQ(compare(answers, answers).value().worst, 0);
  EXPECT_FALSE(compare(answers, {}).ok());
}

}  // namespace
}  // namespace falaj::serving
