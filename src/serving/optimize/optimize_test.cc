#include "serving/optimize/optimize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serving/testing/random_mlp.h"
#include "serving/testing/random_trees.h"
#include "serving/testing/tiny_onnx.h"

namespace falaj::serving {
namespace {

class Optimize : public ::testing::Test {
 protected:
  Optimize() {
    // The clock of who asks is all that the verdict may hang on: each look at it is a millisecond
    // more, so that both models are equally fast.
    request_.trial.now_ns = [this] { return clock_ += 1'000'000; };
    request_.trial.rounds = 3;
    request_.goal = onnx::Goal::kSmaller;
  }
  OptimizeOutcome tried() {
    auto outcome = optimize(*runtime_, request_);
    EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
    return outcome.ok() ? *std::move(outcome) : OptimizeOutcome{};
  }

  std::int64_t clock_ = 0;
  std::unique_ptr<Runtime> runtime_ =
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
  OptimizeRequest request_;
};

TEST_F(Optimize, keeps_what_is_smaller_and_answers_alike) {
  const std::string model = testing::random_mlp({}, 1);
  const std::vector<float> rows = testing::gaussians(200 * 24, 2);
  request_.model = model;
  request_.matrix = rows;
  request_.method = OptimizeMethod::kHalf;
  const OptimizeOutcome half = tried();
  EXPECT_TRUE(half.verdict.keep) << half.verdict.reasons.at(0);
  EXPECT_EQ(half.rows_judged, 200u);
  EXPECT_EQ(half.evidence.bytes_before, model.size());
  EXPECT_EQ(half.evidence.bytes_after, half.made.bytes.size());
  EXPECT_DOUBLE_EQ(half.evidence.speed.ratio(), 1);
  request_.goal = onnx::Goal::kFaster;
  EXPECT_FALSE(tried().verdict.keep) << "it is not faster";
}

TEST_F(Optimize, refuses_what_answers_otherwise) {
  const std::string model = testing::random_mlp({}, 1);
  const std::vector<float> rows = testing::gaussians(200 * 24, 2);
  request_.model = model;
  request_.matrix = rows;
  request_.method = OptimizeMethod::kPruneUnits;
  request_.share = 0.9;
  const OptimizeOutcome outcome = tried();
  EXPECT_FALSE(outcome.verdict.keep);
  EXPECT_GT(outcome.evidence.difference.mean, 0.02);
  EXPECT_FALSE(outcome.made.changed.empty());
}

TEST_F(Optimize, says_when_nothing_can_be_changed) {
  const std::string model = testing::linear_onnx({1, 2}, 0);
  const std::vector<float> rows = testing::gaussians(20, 2);
  request_.model = model;
  request_.matrix = rows;
  const OptimizeOutcome outcome = tried();
  EXPECT_FALSE(outcome.verdict.keep);
  EXPECT_EQ(outcome.verdict.reasons,
            std::vector<std::string>{"nothing in the model could be changed"});
  ASSERT_EQ(outcome.made.left.size(), 1u);
}

TEST_F(Optimize, trims_trees_by_half_of_the_rows_and_judges_by_the_other) {
  testing::TreesShape shape;
  shape.trees = 64;
  onnx::Trees trees = testing::random_trees(shape, 4);
  for (std::size_t i = 0; i < trees.weights.size(); ++i) {
    trees.weights[i] *= std::pow(0.7F, static_cast<float>(trees.weight_treeids[i]));
  }
  const std::string model = onnx::write_trees(trees, {});
  const std::vector<float> rows = testing::gaussians(2001 * shape.features, 3);
  request_.model = model;
  request_.matrix = rows;
  request_.method = OptimizeMethod::kTrim;
  for (int row = 0; row < 2001; ++row) request_.known.labels.push_back(row % 2 == 0 ? 1.0F : 0.0F);
  std::size_t judged = 0;
  request_.known.measure = [&](std::span<const float> scores, std::span<const float> labels) {
    EXPECT_EQ(scores.size(), labels.size());
    judged = labels.size();
    EXPECT_TRUE(std::all_of(labels.begin(), labels.end(),
                            [&](float each) { return each == labels.front(); }));
    return 0.5;
  };
  const OptimizeOutcome outcome = tried();
  EXPECT_TRUE(outcome.verdict.keep) << outcome.verdict.reasons.at(0);
  EXPECT_EQ(outcome.rows_judged, 1000u);
  EXPECT_EQ(judged, 1000u);
  EXPECT_LT(outcome.made.bytes.size() * 2, model.size());
  EXPECT_LE(outcome.evidence.difference.mean, request_.allowed.mean);
  ASSERT_TRUE(outcome.evidence.quality.has_value());
  EXPECT_EQ(outcome.evidence.quality->loss(), 0);
}

TEST_F(Optimize, passes_errors_on) {
  const std::string trees = testing::linear_onnx({1, 2}, 0);
  const std::vector<float> rows = testing::gaussians(20, 2);
  request_.matrix = rows;
  request_.model = "garbage";
  EXPECT_EQ(optimize(*runtime_, request_).error().id, ErrorId::kModelCorrupt);
  request_.model = trees;
  request_.method = OptimizeMethod::kTrim;
  EXPECT_EQ(optimize(*runtime_, request_).error().id, ErrorId::kModelCorrupt) << "it has no trees";
  request_.method = OptimizeMethod::kPruneUnits;
  EXPECT_EQ(optimize(*runtime_, request_).error().id, ErrorId::kOutOfRange);
  request_.matrix = {};
  EXPECT_EQ(optimize(*runtime_, request_).error().code, Code::kInvalidArgument);
  const std::string two = testing::identity_onnx(testing::kOnnxInt64, {-1, 2});
  request_.model = two;
  EXPECT_EQ(optimize(*runtime_, request_).error().id, ErrorId::kTensorMismatch);
}

}  // namespace
}  // namespace falaj::serving
