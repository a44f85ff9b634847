// serving/testing/serving_world.h — a small world in which models are registered and served: real
// stores in memory, real features, real ONNX Runtime over tiny models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "features/testing/feature_world.h"
#include "registry/models.h"
#include "security/testing/model_trust.h"
#include "serving/deployments.h"
#include "serving/testing/tiny_onnx.h"

// Where the unpacked libraries are, from the module's CMakeLists.txt; else the run path decides.
#ifndef FALAJ_TEST_LIBS
#define FALAJ_TEST_LIBS ""
#endif

namespace falaj::serving::testing {

class ServingWorld : public features::FeatureWorld {
 public:
  // `more`: the migrations of the modules above.
  explicit ServingWorld(const std::vector<storage::Migration>& more = {}) {
    std::vector<storage::Migration> all{storage::kObjectsMigration,   security::kAuditMigration,
                                        features::kFeaturesMigration, features::kReachMigration,
                                        features::kErasureMigration,  features::kProfilesMigration,
                                        registry::kRegistryMigration};
    all.insert(all.end(), more.begin(), more.end());
    const Status migrated = sql->migrate(all);
    EXPECT_TRUE(migrated.ok()) << migrated.error().message;
    models = std::make_unique<registry::Models>(*sql, *blobs, audit, trust.get(), clock);
    runtime = open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
    make_deployments();
  }

  void make_deployments() {
    deployments = std::make_unique<Deployments>(*sql, *models, *online, *runtime, sink, audit,
                                                metrics, clock);
  }

  // customer_id → amount, age; served as the feature service "svc".
  void apply_customers() {
    apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
    apply("FeatureView", "activity",
          R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64"},)"
          R"({"name":"age","type":"int64"}]})");
    apply("FeatureService", "svc", R"({"features":["activity"]})");
  }

  // Registers score = amount · weight + age + bias and returns its number.
  std::int64_t register_linear(float weight, float bias, const std::string& training_set = "") {
    registry::ModelVersion version;
    version.model = "fraud";
    version.project = context.project.str();
    version.zone = "ae";  // Part of whose the bytes are, so before they are kept.
    EXPECT_TRUE(registry::keep_onnx(*blobs, linear_onnx({weight, 1}, bias), version).ok());
    version.signature.inputs = {{"input", "FP32", {-1, 2}}};
    version.signature.outputs = {{"score", "FP32", {-1, 1}}};
    version.signature.features = {"amount", "age"};
    version.feature_service = "svc";
    version.training_set = training_set;
    version.run = RunId("run-" + std::to_string(++registered));
    const auto added = models->add_version(context, version);
    EXPECT_TRUE(added.ok()) << added.error().message;
    return added.ok() ? added->version : 0;
  }

  // Registers a file as version 1 of `model`, with a deployment of that name that serves it.
  void serve_onnx(const std::string& model, const std::string& onnx,
                  const registry::Signature& signature) {
    registry::ModelVersion version;
    version.model = model;
    version.project = context.project.str();
    version.zone = "ae";
    EXPECT_TRUE(registry::keep_onnx(*blobs, onnx, version).ok());
    version.signature = signature;
    version.run = RunId("run-" + std::to_string(++registered));
    const auto added = models->add_version(context, version);
    ASSERT_TRUE(added.ok()) << added.error().message;
    apply("Deployment", model, R"({"model":")" + model + R"(","version":1})");
  }

  void promote(std::int64_t version) {
    const Status moved = models->set_alias(context, "fraud", "champion", version, Value());
    ASSERT_TRUE(moved.ok()) << moved.error().message;
  }

  Result<EntityPrediction> predict(std::int64_t customer) const {
    return deployments->predict(context.project, "fraud",
                                {{"customer_id", features::KeyPart(customer)}}, "req");
  }

  std::vector<security::AuditEntry> audited(const std::string& action) const {
    security::AuditQuery query;
    query.action = action;
    query.order = security::AuditQuery::Order::kOldestFirst;
    return audit.list(query).value();
  }

  PredictionSink sink{100'000};
  security::TestModelTrust trust;
  std::unique_ptr<registry::Models> models;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Deployments> deployments;
  int registered = 0;
};

}  // namespace falaj::serving::testing
