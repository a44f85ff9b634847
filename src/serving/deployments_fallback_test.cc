#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "base/json.h"
#include "serving/internal/deployments_impl.h"
#include "serving/testing/linear_version.h"
#include "serving/testing/staged_runtime.h"

namespace falaj::serving {
namespace {

using testing::Stage;
using testing::StagedRuntime;

class FallbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.deployments =
        std::make_unique<Deployments>(*world_.sql, *world_.models, *world_.online, runtime_,
                                      world_.sink, world_.audit, world_.metrics, world_.clock);
    Deployments::Limits limits;
    limits.nanos = [this] { return stage_.now; };
    world_.deployments->limit(limits);
  }
  void TearDown() override { world_.deployments.reset(); }  // Before its runtime.

  // Version 2 gives 2x + y; `cheap_model`, whose version 1 is before it, x + y. A run is 50 ms.
  void serve(const std::string& fallback, const std::string& cheap_model,
             const std::string& more = "") {
    if (cheap_model != "fraud") testing::add_linear(world_, "fraud", {9, 1});
    testing::add_linear(world_, cheap_model, {1, 1});
    testing::add_linear(world_, "fraud", {2, 1});
    declare(R"({"model":"fraud","version":2,"batch":"never")" + fallback + more + "}");
  }
  void declare(const std::string& spec) {
    world_.apply("Deployment", "fraud", spec);
    runtime_.cost = Duration::milliseconds(50);
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }
  DeploymentStatus status() const { return world_.deployments->status().at(0); }
  std::shared_ptr<const LiveModel> live() const {
    return world_.deployments->find(world_.context.project, "fraud").value();
  }
  static float score(const Inference& answer) {
    float value = 0;
    std::memcpy(&value, answer.outputs.at(0).bytes.data(), sizeof value);
    return value;
  }
  // Asks for (1, 0); worth nothing after so many milliseconds; 0: no limit.
  void ask(std::int64_t limit, std::optional<Result<Inference>>& answer) {
    InferJob job;
    const float values[2] = {1, 0};
    job.inputs = {{"input", "FP32", {1, 2}, std::string(reinterpret_cast<const char*>(values), 8)}};
    job.request_id = "r";
    job.timeout = Duration::milliseconds(limit);
    world_.deployments->infer(live(), std::move(job),
                              [&](Result<Inference> given) { answer = std::move(given); });
  }
  // The answer to a request that comes while the model is busy with another one.
  Result<Inference> ask_while_busy(std::int64_t limit) {
    std::optional<Result<Inference>> first;
    std::optional<Result<Inference>> second;
    ask(0, first);  // Now it is known how long it takes.
    stage_.meanwhile = [&] { ask(limit, second); };
    ask(0, first);
    EXPECT_TRUE(first.has_value() && first->ok());
    if (!second.has_value()) return Error(Code::kInternal, "nobody answered");
    return *std::move(second);
  }
  bool shows(const std::string& series) {
    return world_.metrics.exposition().find(series) != std::string::npos;
  }

  Stage stage_;
  testing::ServingWorld world_;
  StagedRuntime runtime_{*world_.runtime, stage_};
  const std::string older_ = R"(,"fallback":{"version":1})";
};

TEST_F(FallbackTest, who_would_be_refused_is_answered_by_the_fallback) {
  serve(older_, "fraud");
  ASSERT_NE(live()->fallback, nullptr) << status().error;
  const Result<Inference> answer = ask_while_busy(20);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->version, 1);
  EXPECT_EQ(score(*answer), 1);
  ASSERT_NE(answer->fallback, nullptr);
  EXPECT_EQ(answer->fallback->version.version, 1);
  EXPECT_TRUE(
      shows(R"(falaj_serving_fallback_total{project="pay",deployment="fraud",version="2"} 1)"));
  EXPECT_EQ(status().refused, 0U);
  int older = 0;
  EXPECT_EQ(world_.sink.drain([&](const Prediction& each) { older += each.version == 1; }), 3U);
  EXPECT_EQ(older, 1) << "monitors see which version it was";
}

TEST_F(FallbackTest, who_has_time_is_answered_by_the_model_itself) {
  serve(older_, "fraud");
  const Result<Inference> answer = ask_while_busy(1'000);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->version, 2);
  EXPECT_EQ(score(*answer), 2);
  EXPECT_EQ(answer->fallback, nullptr);
}

TEST_F(FallbackTest, without_one_it_is_refused_as_before) {
  serve("", "fraud");
  EXPECT_EQ(ask_while_busy(20).error().id, ErrorId::kOverloaded);
  EXPECT_EQ(status().refused, 1U);
}

TEST_F(FallbackTest, a_fallback_that_would_be_late_too_does_not_help) {
  serve(older_, "fraud");
  std::optional<Result<Inference>> main;
  std::optional<Result<Inference>> cheap;
  std::optional<Result<Inference>> late;
  ask(0, main);
  stage_.meanwhile = [&] { ask(20, cheap); };
  ask(0, main);  // The fallback's own time is known by now: 50 ms as well.
  stage_.meanwhile = [&] {
    stage_.meanwhile = [&] { ask(20, late); };
    ask(20, cheap);
  };
  ask(0, main);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->error().id, ErrorId::kOverloaded);
  EXPECT_EQ(status().refused, 1U);
}

TEST_F(FallbackTest, what_it_answered_is_not_kept_for_the_model) {
  serve(older_, "fraud", R"(,"cache":{"bytes":"64Ki","shared":"project"})");
  std::optional<Result<Inference>> first;
  std::optional<Result<Inference>> second;
  stage_.meanwhile = nullptr;
  ask(0, first);
  world_.deployments->drop_answers(world_.context.project);
  // Another question keeps it busy.
  InferJob other;
  other.inputs = {{"input", "FP32", {1, 2}, std::string(8, '\0')}};
  stage_.meanwhile = [&] { ask(20, second); };
  world_.deployments->infer(live(), std::move(other), [](const Result<Inference>&) {});
  ASSERT_TRUE(second.has_value() && second->ok());
  ASSERT_NE((*second)->fallback, nullptr);
  ask(0, first);
  EXPECT_EQ((*first)->cache, Inference::Cache::kMiss);
  EXPECT_EQ(score(**first), 2);
}

TEST_F(FallbackTest, another_model_may_stand_in_and_its_rows_are_not_the_deployments) {
  serve(R"(,"fallback":{"model":"small","version":1})", "small");
  const Result<Inference> answer = ask_while_busy(20);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->fallback->version.model, "small");
  EXPECT_EQ(world_.sink.drain([](const Prediction&) {}), 2U)
      << "monitors compare with the training of the deployment's model";
  EXPECT_TRUE(shows(
      R"(falaj_serving_requests_total{project="pay",deployment="fraud",version="small/1"} 1)"));
}

TEST_F(FallbackTest, one_with_other_tensors_is_refused_and_what_served_serves_on) {
  serve("", "fraud");
  testing::add_linear(world_, "wide", {1, 1, 1});
  declare(R"({"model":"fraud","version":2,"fallback":{"model":"wide","version":1}})");
  EXPECT_EQ(status().state, "failed");
  EXPECT_NE(status().error.find("other tensors"), std::string::npos) << status().error;
  EXPECT_EQ(status().version, 2);
  std::optional<Result<Inference>> answer;
  ask(0, answer);
  EXPECT_TRUE(answer->ok());
}

TEST_F(FallbackTest, follows_its_alias_and_is_left_out_where_it_is_the_model_itself) {
  serve("", "fraud");
  const auto point = [&](std::int64_t version) {
    ASSERT_TRUE(world_.models->set_alias(world_.context, "fraud", "small", version, Value()).ok());
  };
  point(1);
  declare(R"({"model":"fraud","version":2,"fallback":{"alias":"small"}})");
  const auto before = live()->fallback;
  ASSERT_NE(before, nullptr);
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(live()->fallback, before) << "nothing changed";
  point(2);
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(live()->fallback, nullptr);
}

TEST(Fallback, names_a_version_or_an_alias) {
  const auto decoded = [](const std::string& fallback) {
    storage::Object object;
    object.name = "fraud";
    object.spec = parse_json(R"({"model":"fraud","fallback":)" + fallback + "}").value();
    return decode_deployment(object);
  };
  EXPECT_EQ(decoded(R"({"version":3})")->fallback->model, "fraud");
  EXPECT_EQ(decoded(R"({"model":"small","alias":"champion"})")->fallback->alias, "champion");
  EXPECT_FALSE(decoded("{}").ok());
  EXPECT_FALSE(decoded(R"({"version":3,"alias":"a"})").ok());
  EXPECT_FALSE(decoded(R"({"version":0})").ok());
  EXPECT_FALSE(decoded(R"({"verison":3})").ok());
  EXPECT_FALSE(decoded("3").ok());
}

}  // namespace
}  // namespace falaj::serving
