// Deployments of several steps, on real models: what they answer, and when their parts change.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "serving/deployments.h"
#include "serving/testing/drained.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

using testing::ServingWorld;

// fraud: 2·amount + age; risky: whether that is over 50; review: fraud's score and `risky`,
// weighed.
const std::string kGraph =
    R"("graph":[{"name":"first","model":"fraud","inputs":{"input":"rows"},)"
    R"("outputs":{"score":"s"}},)"
    R"({"name":"risky","rule":"s > 50 and amount > 0","inputs":{"s":"s","amount":"rows[0]"},)"
    R"("as":"FP32"},{"name":"second","model":"review","inputs":{"input":["s","risky","rows[1]"]},)"
    R"("outputs":{"score":"verdict"}}])";

class GraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    const auto report = world_.append("activity",
                                      "customer_id,at,amount,age\n"
                                      "1,2026-01-01,10,30\n"
                                      "2,2026-01-01,20,40\n");
    ASSERT_TRUE(report.ok()) << report.error().message;
    world_.apply("Deployment", "fraud", R"({"model":"fraud",)" + kGraph + "}");
    world_.promote(world_.register_linear(2, 0));
    promote("review", add("review", testing::linear_onnx({1, 1000, 0.5f}, 0)));
  }
  std::int64_t add(const std::string& model, const std::string& onnx) {
    registry::ModelVersion version;
    version.model = model;
    version.project = world_.context.project.str();
    version.zone = "ae";
    EXPECT_TRUE(registry::keep_onnx(*world_.blobs, onnx, version).ok());
    version.run = RunId("run-" + std::to_string(++world_.registered));
    const auto added = world_.models->add_version(world_.context, version);
    EXPECT_TRUE(added.ok()) << added.error().message;
    return added->version;
  }
  void promote(const std::string& model, std::int64_t version) {
    ASSERT_TRUE(world_.models->set_alias(world_.context, model, "champion", version, Value()).ok());
  }
  void tick() { ASSERT_TRUE(world_.deployments->tick().ok()); }
  std::shared_ptr<const LiveModel> live() const {
    return world_.deployments->find(world_.context.project, "fraud").value();
  }
  DeploymentStatus status() const { return world_.deployments->status().at(0); }
  static Tensor rows(const std::vector<float>& values) {
    Tensor tensor{"rows", "FP32", {static_cast<std::int64_t>(values.size() / 2), 2}, {}};
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
  }
  static std::vector<float> floats(const Tensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  Result<std::vector<float>> infer(const LiveModel& model, const std::vector<float>& values) const {
    const Tensor input = rows(values);
    const Inference got = FALAJ_TRY(world_.deployments->infer(model, std::span(&input, 1), "req"));
    EXPECT_EQ(got.outputs.size(), 1u);
    EXPECT_EQ(got.outputs[0].name, "verdict");
    return floats(got.outputs[0]);
  }
  ServingWorld world_;
};

TEST_F(GraphTest, answers_through_every_step) {
  tick();
  ASSERT_EQ(status().state, "ready") << status().error;
  const auto model = live();
  EXPECT_EQ(model->session->signature().inputs[0].name, "rows");
  EXPECT_EQ(model->session->signature().outputs[0].name, "verdict");
  EXPECT_GT(model->rows_together, 1u);
  // 2·10+30 = 50 is not over 50; 2·20+40 = 80 is.
  EXPECT_EQ(infer(*model, {10, 30, 20, 40}).value(), (std::vector<float>{65, 1100}));
  EXPECT_EQ(world_.predict(1)->score, 65);
  EXPECT_EQ(world_.predict(2)->score, 1100);
  EXPECT_EQ(world_.predict(2)->version, 1);
  const std::vector<Prediction> seen = testing::drained(world_.sink);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().features, (std::vector<float>{20, 40}));
  // A rule with nothing to go by gives NaN, as a missing feature is.
  EXPECT_TRUE(std::isnan(world_.predict(99)->score));
}

TEST_F(GraphTest, a_new_version_of_any_step_is_a_new_set_and_requests_keep_theirs) {
  tick();
  const auto before = live();
  promote("review", add("review", testing::linear_onnx({0, 1, 0}, 7)));
  tick();
  const auto after = live();
  EXPECT_NE(digest_of(*before), digest_of(*after));
  EXPECT_EQ(infer(*before, {20, 40}).value(), std::vector<float>{1100});
  EXPECT_EQ(infer(*after, {20, 40}).value(), std::vector<float>{8});
  EXPECT_EQ(after->version.version, 1) << "the deployment's own model did not change";
  EXPECT_EQ(before->graph->parts()[0].session, after->graph->parts()[0].session) << "not again";
  const auto audited = world_.audited("deployment.serve");
  ASSERT_EQ(audited.size(), 2u);
  EXPECT_EQ(audited[1].detail["graph"]["second"].integer("version"), 2);
  tick();
  EXPECT_EQ(live(), after) << "nothing changed";

  world_.promote(world_.register_linear(1, 0));
  tick();
  EXPECT_EQ(live()->version.version, 2);
  EXPECT_EQ(infer(*live(), {20, 40}).value(), std::vector<float>{8 - 1 + 1});
  EXPECT_EQ(live()->graph->parts()[2].session, after->graph->parts()[2].session);
}

TEST_F(GraphTest, what_does_not_fit_leaves_the_set_that_serves) {
  tick();
  const auto before = live();
  promote("review", add("review", testing::linear_onnx({1, 1}, 0)));
  tick();
  EXPECT_EQ(status().state, "failed");
  EXPECT_NE(status().error.find("graph step 'second'"), std::string::npos) << status().error;
  EXPECT_NE(status().error.find("3 elements"), std::string::npos) << status().error;
  EXPECT_EQ(digest_of(*live()), digest_of(*before));
  EXPECT_TRUE(world_.predict(1).ok());
}

TEST_F(GraphTest, waits_for_the_first_version_of_a_step) {
  world_.apply("Deployment", "fraud",
               R"({"model":"fraud","graph":[{"name":"a","model":"fraud","inputs":{"input":"rows"},)"
               R"("outputs":{"score":"s"}},{"name":"b","model":"later","inputs":{"input":"rows"},)"
               R"("outputs":{"score":"t"}}]})");
  tick();
  EXPECT_EQ(status().state, "loading");
  EXPECT_NE(status().error.find("later"), std::string::npos);
  EXPECT_TRUE(world_.deployments->unready().empty());
  promote("later", add("later", testing::linear_onnx({1, 1}, 0)));
  tick();
  EXPECT_EQ(status().state, "ready") << status().error;
  EXPECT_EQ(live()->session->signature().outputs.size(), 2u) << "neither is read";
}

TEST_F(GraphTest, goes_with_the_keys_of_any_of_its_models) {
  tick();
  world_.deployments->forget(world_.context.project, "other");
  EXPECT_TRUE(world_.predict(1).ok());
  world_.deployments->forget(world_.context.project, "review");
  EXPECT_FALSE(world_.predict(1).ok());
}

TEST_F(GraphTest, comes_and_goes_with_the_declaration) {
  tick();
  const auto part = live()->graph->parts()[0].session;
  world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
  tick();
  EXPECT_EQ(live()->graph, nullptr);
  EXPECT_EQ(live()->session, part);
  EXPECT_EQ(world_.predict(1)->score, 50);
  world_.apply("Deployment", "fraud", R"({"model":"fraud",)" + kGraph + R"(,"answers":["s"]})");
  tick();
  EXPECT_EQ(live()->session->signature().outputs[0].name, "s");
  EXPECT_EQ(world_.predict(1)->score, 50);
}

TEST_F(GraphTest, keeps_answers_of_one_set_apart_from_another) {
  world_.apply("Deployment", "fraud",
               R"({"model":"fraud","cache":{"bytes":"1Mi"},)" + kGraph + "}");
  tick();
  const auto ask = [&] {
    InferJob job;
    job.inputs = {rows({20, 40})};
    std::optional<Result<Inference>> answer;
    world_.deployments->infer(live(), std::move(job),
                              [&](Result<Inference> got) { answer = std::move(got); });
    EXPECT_TRUE(answer->ok()) << answer->error().message;
    return std::pair((*answer)->cache, floats((*answer)->outputs[0])[0]);
  };
  EXPECT_EQ(ask(), std::pair(Inference::Cache::kMiss, 1100.0f));
  EXPECT_EQ(ask(), std::pair(Inference::Cache::kHit, 1100.0f));
  promote("review", add("review", testing::linear_onnx({0, 1, 0}, 7)));
  tick();
  EXPECT_EQ(ask(), std::pair(Inference::Cache::kMiss, 8.0f));
}

TEST_F(GraphTest, a_declaration_refers_to_every_model) {
  storage::Object object;
  object.project = "pay";
  object.name = "fraud";
  object.spec["model"] = "fraud";
  const storage::KindInfo kind = kinds().front();
  object.spec["graph"] = features::json("{" + kGraph + "}")["graph"];
  const auto references = kind.check(object);
  ASSERT_TRUE(references.ok()) << references.error().message;
  ASSERT_EQ(references->size(), 2u);
  EXPECT_EQ((*references)[1].name, "review");
  object.spec["graph"] = Value();
  object.spec["answers"] = Value::array();
  EXPECT_FALSE(kind.check(object).ok()) << "answers of no graph";
}

}  // namespace
}  // namespace falaj::serving
