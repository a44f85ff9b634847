#include "serving/deployments.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "serving/testing/drained.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

using testing::ServingWorld;

class DeploymentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    const auto report = world_.append("activity",
                                      "customer_id,at,amount,age\n"
                                      "1,2026-01-01,10,30\n"
                                      "2,2026-01-01,20,\n");
    ASSERT_TRUE(report.ok()) << report.error().message;
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
  }
  DeploymentStatus status() const { return world_.deployments->status().at(0); }
  void serve(std::int64_t version) {
    world_.promote(version);
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }

  ServingWorld world_;
};

TEST_F(DeploymentsTest, loads_what_was_declared_just_now) {
  world_.apply_customers();
  world_.promote(world_.register_linear(2, 1));
  world_.apply("Deployment", "fresh", R"({"model":"fraud"})");
  EXPECT_TRUE(world_.deployments->load(world_.context, "fresh").ok()) << "no tick came between";
  EXPECT_TRUE(world_.deployments->find(ProjectName("pay"), "fresh").ok());
  EXPECT_EQ(world_.deployments->load(world_.context, "nobody").error().id,
            world_.deployments->find(ProjectName("pay"), "nobody").error().id);
}

TEST_F(DeploymentsTest, answers_by_entity_id_with_features_read_online) {
  serve(world_.register_linear(2, 5));
  const auto prediction = world_.predict(1);
  ASSERT_TRUE(prediction.ok()) << prediction.error().message;
  EXPECT_EQ(prediction->score, 2 * 10 + 30 + 5);
  EXPECT_EQ(prediction->version, 1);
  EXPECT_EQ(prediction->live, prediction->hold.get());
  EXPECT_EQ(prediction->row.statuses.at(0), features::FeatureStatus::kPresent);
  // What is missing reaches the model as NaN, and the answer says so.
  EXPECT_TRUE(std::isnan(world_.predict(2)->score));
  EXPECT_TRUE(std::isnan(world_.predict(99)->score));
  EXPECT_EQ(world_.predict(99)->row.statuses.at(0), features::FeatureStatus::kNotFound);
}

TEST_F(DeploymentsTest, hands_each_prediction_to_the_sink_in_the_models_column_order) {
  serve(world_.register_linear(1, 0));
  ASSERT_TRUE(world_.predict(1).ok());
  const std::vector<Prediction> seen = testing::drained(world_.sink);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].deployment, "pay/fraud");
  EXPECT_EQ(seen[0].version, 1);
  EXPECT_EQ(seen[0].features, (std::vector<float>{10, 30}));
  EXPECT_EQ(seen[0].score, 40);
  EXPECT_EQ(seen[0].request_id, "req");
  EXPECT_EQ(seen[0].at, world_.clock.now());
}

TEST_F(DeploymentsTest, a_model_once_found_answers_the_whole_request_through_a_swap) {
  serve(world_.register_linear(1, 0));
  const auto live = world_.deployments->find(world_.context.project, "fraud").value();
  const auto ask = [&] {
    return world_.deployments->predict(live, {{"customer_id", std::int64_t{1}}}, "req").value();
  };
  EXPECT_EQ(ask().score, 40);
  serve(world_.register_linear(2, 0));
  EXPECT_EQ(ask().score, 40);
  EXPECT_EQ(ask().version, 1);
  EXPECT_EQ(world_.predict(1)->version, 2);
  EXPECT_EQ(status().requests, 1U) << "each version counts its own";
}

TEST_F(DeploymentsTest, is_unready_only_when_a_version_that_exists_cannot_be_served) {
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_TRUE(world_.deployments->unready().empty()) << "it waits for its alias";
  world_.apply("Deployment", "fraud", R"({"model":"fraud","version":1})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_TRUE(world_.deployments->unready().empty()) << "it waits for its version";
  EXPECT_EQ(status().state, "loading");
  EXPECT_NE(status().error, "");

  registry::ModelVersion broken;
  broken.model = "fraud";
  broken.project = world_.context.project.str();
  broken.zone = world_.context.zone.name();
  EXPECT_TRUE(registry::keep_onnx(*world_.blobs, "this is no model", broken).ok());
  broken.run = RunId("broken");
  ASSERT_EQ(world_.models->add_version(world_.context, broken)->version, 1);
  ASSERT_TRUE(world_.deployments->tick().ok());
  ASSERT_EQ(world_.deployments->unready().size(), 1U);
  EXPECT_EQ(world_.deployments->unready()[0].name, "fraud");

  const std::int64_t good = world_.register_linear(1, 0);
  world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
  serve(good);
  EXPECT_TRUE(world_.deployments->unready().empty());
  world_.promote(1);
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(status().state, "failed");
  EXPECT_TRUE(world_.deployments->unready().empty()) << "the old version still serves";
}

// ONNX Runtime under another name.
class OtherRuntime final : public Runtime {
 public:
  explicit OtherRuntime(int& loads) : loads_(loads) {}
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    ++loads_;
    return inner_->load_bytes(model);
  }
  std::string version() const override { return "other"; }

 private:
  int& loads_;
  std::unique_ptr<Runtime> inner_ =
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
};

TEST_F(DeploymentsTest, runs_on_the_runtime_that_it_names) {
  int loads = 0;
  world_.deployments->offer("other", std::make_unique<OtherRuntime>(loads));
  serve(world_.register_linear(1, 0));
  EXPECT_EQ(loads, 0);

  world_.apply("Deployment", "fraud", R"({"model":"fraud","runtime":"other"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(loads, 1) << "the same version anew";
  EXPECT_TRUE(world_.predict(1).ok());
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(loads, 1);

  world_.apply("Deployment", "fraud", R"({"model":"fraud","runtime":"absent"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(status().state, "failed");
  EXPECT_NE(status().error.find("no runtime 'absent'"), std::string::npos) << status().error;
  EXPECT_NE(status().error.find("names other"), std::string::npos) << status().error;
  EXPECT_TRUE(world_.predict(1).ok()) << "what served before still does";

  world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(status().state, "ready");
  EXPECT_EQ(loads, 1);
}

TEST_F(DeploymentsTest, refuses_a_key_that_is_missing_or_of_another_type) {
  serve(world_.register_linear(1, 0));
  const auto ask = [&](const std::vector<std::pair<std::string, features::KeyPart>>& keys) {
    return world_.deployments->predict(world_.context.project, "fraud", keys, "");
  };
  EXPECT_EQ(ask({}).error().id, ErrorId::kEntityKeyMissing);
  EXPECT_NE(ask({{"merchant", std::int64_t{1}}}).error().message.find("customer_id"),
            std::string::npos);
  EXPECT_EQ(ask({{"customer_id", std::string("1")}}).error().id, ErrorId::kWrongType);
  EXPECT_TRUE(ask({{"trace", std::string("x")}, {"customer_id", std::int64_t{1}}}).ok());
  EXPECT_EQ(status().requests, 4U);
  EXPECT_EQ(status().latency.count, 4U);
  EXPECT_EQ(status().errors, 3U);
  EXPECT_EQ(status().rows, 1U);
}

TEST_F(DeploymentsTest, says_whether_a_deployment_is_unknown_or_not_ready) {
  EXPECT_EQ(world_.predict(1).error().id, ErrorId::kModelNotFound);
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(world_.predict(1).error().id, ErrorId::kModelNotReady);
  EXPECT_NE(status().error.find("has no alias 'champion' yet"), std::string::npos);
  EXPECT_EQ(status().state, "loading");
  serve(world_.register_linear(1, 0));
  EXPECT_TRUE(world_.predict(1).ok());
  EXPECT_EQ(status().state, "ready");
}

TEST_F(DeploymentsTest, keeps_the_old_version_when_the_new_one_cannot_be_loaded) {
  serve(world_.register_linear(1, 0));
  registry::ModelVersion broken = world_.models->get(world_.context.project, "fraud", 1).value();
  broken.project = world_.context.project.str();
  broken.zone = world_.context.zone.name();
  EXPECT_TRUE(registry::keep_onnx(*world_.blobs, "this is no model", broken).ok());
  broken.run = RunId("broken");
  const std::int64_t version = world_.models->add_version(world_.context, broken)->version;
  world_.promote(version);
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(world_.predict(1)->version, 1);
  EXPECT_EQ(status().state, "failed");
  EXPECT_NE(status().error.find("version 2"), std::string::npos);
  // Said once, not at every tick.
  ASSERT_TRUE(world_.deployments->tick().ok());
  world_.clock.advance(Duration::minutes(5));
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(world_.audited("deployment.fail").size(), 1U);

  serve(world_.register_linear(3, 0));
  EXPECT_EQ(world_.predict(1)->version, 3);
  EXPECT_EQ(status().state, "ready");
  EXPECT_EQ(status().error, "");
}

TEST_F(DeploymentsTest, refuses_a_model_file_that_does_not_match_its_hash) {
  const auto files = storage::open_files(world_.folder.path() + "/files").value();
  registry::Models models(*world_.sql, *files, world_.audit, world_.trust.get(), world_.clock);
  Deployments deployments(*world_.sql, models, *world_.online, *world_.runtime, world_.sink,
                          world_.audit, world_.metrics, world_.clock);
  registry::ModelVersion version;
  version.model = "fraud";
  version.project = world_.context.project.str();
  version.zone = world_.context.zone.name();
  ASSERT_TRUE(registry::keep_onnx(*files, testing::linear_onnx({1, 1}, 0), version).ok());
  version.run = RunId("r");
  world_.promote(models.add_version(world_.context, version)->version);

  std::string path;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(world_.folder.path() + "/files")) {
    if (entry.path().filename() == version.onnx.str()) path = entry.path().string();
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  // Another model that would load and answer: only its hash tells.
  std::ofstream(path, std::ios::binary) << testing::linear_onnx({1, 2}, 0);
  ASSERT_TRUE(deployments.tick().ok());
  EXPECT_EQ(deployments.find(world_.context.project, "fraud").error().id, ErrorId::kModelNotReady);
  const DeploymentStatus failed = deployments.status().at(0);
  EXPECT_EQ(failed.state, "failed");
  EXPECT_NE(failed.error.find(version.onnx.str().substr(0, 8)), std::string::npos) << failed.error;
}

TEST_F(DeploymentsTest, refuses_a_model_trained_on_a_feature_its_service_lacks) {
  registry::ModelVersion version;
  version.model = "fraud";
  version.project = world_.context.project.str();
  version.zone = world_.context.zone.name();
  EXPECT_TRUE(registry::keep_onnx(*world_.blobs, testing::linear_onnx({1, 1}, 0), version).ok());
  version.signature.features = {"amount", "shoe_size"};
  version.feature_service = "svc";
  version.run = RunId("r");
  serve(world_.models->add_version(world_.context, version)->version);
  EXPECT_EQ(status().state, "failed");
  EXPECT_NE(status().error.find("shoe_size"), std::string::npos);
}

TEST_F(DeploymentsTest, follows_a_pinned_version_and_a_changed_declaration) {
  serve(world_.register_linear(1, 0));
  const std::int64_t second = world_.register_linear(2, 0);
  world_.apply("Deployment", "fraud",
               R"({"model":"fraud","version":)" + std::to_string(second) + "}");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(world_.predict(1)->version, second);
  const auto entries = world_.audited("deployment.serve");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].detail["previous"], Value(1));
  EXPECT_EQ(entries[1].detail["version"], Value(2));
  EXPECT_EQ(entries[1].object, "Deployment/pay/fraud");
}

TEST_F(DeploymentsTest, takes_a_new_plan_when_a_definition_changes_without_another_session) {
  serve(world_.register_linear(1, 0));
  const auto before = world_.predict(1)->hold;
  world_.apply("FeatureService", "svc", R"({"features":[{"activity":["age","amount"]}]})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  const auto after = world_.predict(1);
  EXPECT_EQ(after->score, 40);  // Columns are matched by name, not by place.
  EXPECT_NE(after->hold, before);
  EXPECT_EQ(after->hold->session, before->session);
  EXPECT_EQ(world_.audited("deployment.serve").size(), 1U);
}

TEST_F(DeploymentsTest, stops_answering_at_once_when_its_model_was_destroyed) {
  serve(world_.register_linear(2, 5));
  ASSERT_TRUE(world_.predict(1).ok());
  world_.deployments->forget(ProjectName("pay"), "another");
  world_.deployments->forget(ProjectName("other"), "");
  EXPECT_TRUE(world_.predict(1).ok());
  world_.deployments->forget(ProjectName("pay"), "fraud");
  EXPECT_EQ(world_.predict(1).error().id, ErrorId::kModelNotReady);
  EXPECT_EQ(status().state, "failed");
  // The file is there in this test, so it can be served again.
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_TRUE(world_.predict(1).ok());
}

TEST_F(DeploymentsTest, stops_answering_when_its_declaration_is_deleted) {
  serve(world_.register_linear(1, 0));
  ASSERT_TRUE(world_.sql
                  ->write([](storage::SqlTransaction& tx) {
                    return storage::delete_object(tx, "Deployment", "pay", "fraud");
                  })
                  .ok());
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(world_.predict(1).error().id, ErrorId::kModelNotFound);
}

TEST_F(DeploymentsTest, is_found_in_its_own_project_only) {
  serve(world_.register_linear(1, 0));
  EXPECT_TRUE(world_.deployments->find(ProjectName("pay"), "fraud").ok());
  for (const char* project : {"", "other"}) {
    const auto found = world_.deployments->find(ProjectName(project), "fraud");
    EXPECT_EQ(found.error().id, ErrorId::kModelNotFound);
    EXPECT_EQ(found.error().message, "Request for unknown model: 'fraud' is not found");
  }
}

TEST_F(DeploymentsTest, logs_the_rows_of_an_inference_request) {
  serve(world_.register_linear(1, 0));
  const auto live = world_.deployments->find(ProjectName("pay"), "fraud").value();
  const float rows[4] = {1, 2, 3, 4};
  Tensor input{"input", "FP32", {2, 2}, ""};
  input.bytes.assign(reinterpret_cast<const char*>(rows), sizeof(rows));
  ASSERT_TRUE(world_.deployments->infer(*live, {&input, 1}, "abc").ok());
  const std::vector<Prediction> seen = testing::drained(world_.sink);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].features, (std::vector<float>{3, 4}));
  EXPECT_EQ(seen[1].score, 7);
  input.shape = {1, 2};
  EXPECT_EQ(world_.deployments->infer(*live, {&input, 1}, "").error().id, ErrorId::kTensorMismatch);
  EXPECT_EQ(status().rows, 2U);
  EXPECT_EQ(status().errors, 1U);
}

TEST_F(DeploymentsTest, counts_requests_and_latency_by_version) {
  serve(world_.register_linear(1, 0));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(world_.predict(1).ok());
  EXPECT_EQ(status().requests, 10U);
  EXPECT_GT(status().p99_ms, 0);
  EXPECT_GE(status().p99_ms, status().p50_ms);
  EXPECT_GT(status().seconds_total, 0);
  EXPECT_NE(world_.metrics.exposition().find(
                R"(falaj_serving_requests_total{project="pay",deployment="fraud",version="1"} 10)"),
            std::string::npos);
}

TEST_F(DeploymentsTest, counts_many_entities_of_one_request_as_one_request) {
  serve(world_.register_linear(1, 0));
  const auto live = world_.deployments->find(ProjectName("pay"), "fraud").value();
  using Keys = std::vector<std::pair<std::string, features::KeyPart>>;
  const Keys one{{"customer_id", features::KeyPart(std::int64_t{1})}};
  const std::vector<Keys> three{one, one, one};
  std::vector<EntityPrediction> predictions;
  ASSERT_TRUE(world_.deployments->predict_all(live, three, "r", predictions).ok());
  EXPECT_EQ(predictions.size(), 3U);
  EXPECT_EQ(status().requests, 1U);
  EXPECT_EQ(status().rows, 3U);
  EXPECT_EQ(status().errors, 0U);
  const std::vector<Keys> broken{one, {}, one};
  EXPECT_EQ(world_.deployments->predict_all(live, broken, "r", predictions).error().id,
            ErrorId::kEntityKeyMissing);
  EXPECT_EQ(status().requests, 2U);
  EXPECT_EQ(status().rows, 4U);
  EXPECT_EQ(status().errors, 1U);
}

// Readers hammer while versions change under them: every answer is right for the version it names,
// and none fails.
TEST_F(DeploymentsTest, swaps_versions_without_a_failed_request) {
  constexpr int kSwaps = 40;
  serve(world_.register_linear(1, 0));
  std::vector<std::int64_t> versions{1};
  for (int i = 1; i < 4; ++i) {
    versions.push_back(world_.register_linear(static_cast<float>(i + 1), 0));
  }
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) {
        const auto prediction = world_.predict(1);
        const bool right = prediction.ok() &&
                           prediction->score == static_cast<float>(prediction->version) * 10 + 30;
        if (!right) ++wrong;
        ++answered;
      }
    });
  }
  for (int i = 0; i < kSwaps; ++i) {
    serve(versions[static_cast<std::size_t>(i + 1) % versions.size()]);
    EXPECT_EQ(world_.predict(1)->version, versions[static_cast<std::size_t>(i + 1) % 4]);
  }
  done = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(answered.load(), kSwaps);
}

TEST_F(DeploymentsTest,
       infers_later_with_the_answer_of_now_and_its_slo_takes_effect_without_a_load) {
  serve(world_.register_linear(2, 1));
  auto live = world_.deployments->find(world_.context.project, "fraud").value();
  const std::vector<Tensor> inputs{{"input", "FP32", {1, 2}, std::string(8, '\0')}};
  const auto now = world_.deployments->infer(*live, inputs, "r");
  ASSERT_TRUE(now.ok()) << now.error().message;
  const auto ask = [&](InferJob job) {
    std::optional<Result<Inference>> answer;
    job.inputs = inputs;
    world_.deployments->infer(live, std::move(job),
                              [&](Result<Inference> got) { answer = std::move(got); });
    return std::move(answer).value();
  };
  const auto later = ask({});
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_EQ(later->outputs[0].bytes, now->outputs[0].bytes);
  EXPECT_EQ(status().rows, 2U);

  const std::shared_ptr<Session> session = live->session;
  world_.apply("Deployment", "fraud", R"({"model":"fraud","slo":{"p99":"20ms"},"batch":"never"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  live = world_.deployments->find(world_.context.project, "fraud").value();
  EXPECT_EQ(live->slo, Duration::milliseconds(20));
  EXPECT_EQ(live->rows_together, 1U);
  EXPECT_EQ(live->session, session) << "nothing was loaded anew";
  EXPECT_TRUE(ask({}).ok()) << "a model that is free answers whoever asks";
}

TEST(DecodeDeployment, is_strict) {
  const auto decode = [](std::string_view spec) {
    storage::Object object;
    object.kind = "Deployment";
    object.name = "fraud";
    object.spec = parse_json(spec).value();
    return decode_deployment(object);
  };
  EXPECT_EQ(decode(R"({"model":"m"})")->alias, "champion");
  EXPECT_EQ(decode(R"({"model":"m","version":3})")->version, 3);
  EXPECT_EQ(decode(R"({"model":"m","features":"s"})")->feature_service, "s");
  EXPECT_EQ(decode(R"({"model":"m","slo":{"p99":"20ms"}})")->slo, Duration::milliseconds(20));
  EXPECT_EQ(decode(R"({"model":"m","batch":"never"})")->batch, Deployment::Batch::kNever);
  EXPECT_FALSE(decode(R"({"model":"m","slo":{"p99":"2h"}})").ok());
  EXPECT_FALSE(decode(R"({"model":"m","slo":{"p99":20}})").ok());
  EXPECT_FALSE(decode(R"({"model":"m","slo":{"p98":"20ms"}})").ok());
  EXPECT_FALSE(decode(R"({"model":"m","batch":"often"})").ok());
  EXPECT_EQ(decode("{}").error().id, ErrorId::kMissingField);
  EXPECT_EQ(decode(R"({"model":"m","verson":3})").error().id, ErrorId::kUnknownField);
  EXPECT_EQ(decode(R"({"model":"m","version":0})").error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(decode(R"({"model":"m","version":"3"})").error().id, ErrorId::kWrongType);
  EXPECT_FALSE(decode(R"({"model":"m","version":3,"alias":"a"})").ok());
  EXPECT_EQ(decode(R"({"model":"No!"})").error().id, ErrorId::kInvalidName);
}

}  // namespace
}  // namespace falaj::serving
