#include "serving/explain/explain.h"

#include <gtest/gtest.h>

#include <numeric>

#include "serving/testing/random_trees.h"
#include "serving/testing/serving_world.h"
#include "serving/trees/trees_runtime.h"

namespace falaj::serving {
namespace {

using explain::Method;

Tensor matrix(const std::vector<float>& values, std::size_t columns) {
  Tensor tensor{
      "input",
      "FP32",
      {static_cast<std::int64_t>(values.size() / columns), static_cast<std::int64_t>(columns)},
      {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

const auto kNever = [] { return false; };

class ExplainTest : public ::testing::Test {
 protected:
  // score = 2 · amount + age + 1.
  void serve_linear() {
    world_.apply_customers();
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world_.promote(world_.register_linear(2, 1));
    ASSERT_TRUE(world_.deployments->tick().ok());
    live_ = world_.deployments->find(world_.context.project, "fraud").value();
  }

  Result<explain::Explanation> ask(ExplainJob job) const {
    return world_.deployments->explain(*live_, job);
  }

  testing::ServingWorld world_;
  std::shared_ptr<const LiveModel> live_;
};

TEST_F(ExplainTest, samples_what_it_cannot_look_into) {
  serve_linear();
  ExplainJob job;
  job.question.inputs = {matrix({10, 5, /* background */ 1, 1, 3, 5}, 2)};
  job.question.background_rows = 2;
  const auto got = ask(job).value();
  EXPECT_EQ(got.method, Method::kSampling);
  EXPECT_EQ(got.output, "score");
  EXPECT_EQ(got.scale, "output");
  EXPECT_EQ(got.features, (std::vector<std::string>{"amount", "age"}));
  ASSERT_EQ(got.rows.size(), 1u);
  EXPECT_NEAR(got.rows[0].base, 8, 1e-6);  // (4 + 12) / 2
  EXPECT_EQ(got.rows[0].value, 26);
  EXPECT_NEAR(got.rows[0].contributions[0], 16, 1e-6);
  EXPECT_NEAR(got.rows[0].contributions[1], 2, 1e-6);
  EXPECT_EQ(got.rows[0].errors.size(), 2u);
  EXPECT_EQ(got.rows[0].pairs, 256u);
}

TEST_F(ExplainTest, says_what_is_wrong_with_the_question) {
  serve_linear();
  ExplainJob job;
  job.question.inputs = {matrix({10, 5, 1, 1}, 2)};
  EXPECT_EQ(ask(job).error().id, ErrorId::kInvalidArgument);
  job.question.background_rows = 2;
  EXPECT_EQ(ask(job).error().id, ErrorId::kTensorMismatch) << "nothing is left to explain";
  job.question.background_rows = 1;
  job.question.output = "other";
  EXPECT_EQ(ask(job).error().id, ErrorId::kTensorMismatch);
  job.question.output = "score";
  job.question.column = 1;
  EXPECT_EQ(ask(job).error().id, ErrorId::kTensorMismatch);
  job.question.column = 0;
  EXPECT_TRUE(ask(job).ok());
  job.question.pairs_max = explain::kPairsMax + 1;
  EXPECT_EQ(ask(job).error().id, ErrorId::kOutOfRange);
  job.question.pairs_max = 2;
  job.question.inputs = {matrix(std::vector<float>(2 * (explain::kRowsMax + 2)), 2)};
  EXPECT_EQ(ask(job).error().id, ErrorId::kOutOfRange);
  job.question.inputs[0].datatype = "BYTES";
  EXPECT_EQ(ask(job).error().id, ErrorId::kUnimplemented);
  job.question.inputs.clear();
  EXPECT_EQ(ask(job).error().id, ErrorId::kTensorMismatch);
}

TEST_F(ExplainTest, ends_at_its_deadline_and_when_nobody_waits) {
  serve_linear();
  ExplainJob job;
  job.question.inputs = {matrix({10, 5, 1, 1}, 2)};
  job.question.background_rows = 1;
  job.deadline = world_.clock.now();
  EXPECT_EQ(ask(job).error().id, ErrorId::kDeadlineExceeded);
  job.deadline = world_.clock.now() + Duration::seconds(5);
  EXPECT_TRUE(ask(job).ok());
  job.gone = std::make_shared<const std::atomic<bool>>(true);
  EXPECT_EQ(ask(job).error().id, ErrorId::kDeadlineExceeded);
}

TEST_F(ExplainTest, an_entity_is_explained_by_its_features) {
  serve_linear();
  ASSERT_TRUE(world_
                  .append("activity",
                          "customer_id,at,amount,age\n1,2026-05-28T00:00:00Z,10,5\n"
                          "2,2026-05-28T00:00:00Z,1,1\n")
                  .ok());
  const std::vector<std::vector<std::pair<std::string, features::KeyPart>>> entities{
      {{"customer_id", features::KeyPart(std::int64_t{1})}},
      {{"customer_id", features::KeyPart(std::int64_t{2})}}};
  ExplainJob job;
  job.question.background_rows = 1;
  const auto got = world_.deployments->explain(*live_, entities, job).value();
  ASSERT_EQ(got.rows.size(), 1u);
  EXPECT_NEAR(got.rows[0].contributions[0], 18, 1e-6);
  EXPECT_NEAR(got.rows[0].contributions[1], 4, 1e-6);
  EXPECT_EQ(got.rows[0].base, 4);
}

class ExplainTrees : public ::testing::Test {
 protected:
  telemetry::Metrics metrics_;
  std::unique_ptr<Runtime> runtime_ = with_own_trees(
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value(), 1, metrics_);
};

TEST_F(ExplainTrees, are_explained_exactly_and_without_a_background) {
  testing::TreesShape shape;
  shape.covers = true;
  const auto session =
      runtime_->load_bytes(onnx::write_trees(testing::random_trees(shape, 3), {})).value();
  explain::Question question;
  question.inputs = {matrix(std::vector<float>(2 * shape.features, 0.25f), shape.features)};
  const auto got = explain::explain(*session, {}, question, kNever).value();
  EXPECT_EQ(got.method, Method::kTrees);
  EXPECT_EQ(got.output, "probabilities");
  EXPECT_EQ(got.column, 1u);
  EXPECT_EQ(got.scale, "log_odds");
  EXPECT_EQ(got.features[3], "input[3]");
  ASSERT_EQ(got.rows.size(), 2u);
  std::vector<float> scores;
  ASSERT_TRUE(
      session->score(std::vector<float>(shape.features, 0.25f), shape.features, scores).ok());
  EXPECT_NEAR(1 / (1 + std::exp(-got.rows[1].value)), scores[0], 1e-6);
  EXPECT_TRUE(got.rows[1].errors.empty());
  // Its other column is none of what the trees know: it is sampled.
  question.column = 0;
  EXPECT_EQ(explain::explain(*session, {}, question, kNever).error().id, ErrorId::kInvalidArgument);
  question.background_rows = 1;
  const auto sampled = explain::explain(*session, {}, question, kNever).value();
  EXPECT_EQ(sampled.method, Method::kSampling);
  EXPECT_NEAR(sampled.rows[0].value, 1 - scores[0], 1e-6);
}

TEST_F(ExplainTrees, without_covers_are_sampled) {
  testing::TreesShape shape;
  const auto session =
      runtime_->load_bytes(onnx::write_trees(testing::random_trees(shape, 3), {})).value();
  EXPECT_EQ(session->explainer(), nullptr);
}

TEST_F(ExplainTrees, stop_between_rows) {
  testing::TreesShape shape;
  shape.covers = true;
  const auto session =
      runtime_->load_bytes(onnx::write_trees(testing::random_trees(shape, 3), {})).value();
  explain::Question question;
  question.inputs = {matrix(std::vector<float>(2 * shape.features, 0.25f), shape.features)};
  const auto stopped = explain::explain(*session, {}, question, [] { return true; });
  EXPECT_EQ(stopped.error().id, ErrorId::kDeadlineExceeded);
}

}  // namespace
}  // namespace falaj::serving
