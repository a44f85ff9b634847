#include "registry/models.h"

#include <gtest/gtest.h>

#include "security/testing/model_trust.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::registry {
namespace {

class ModelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        sql_->migrate({security::kAuditMigration, storage::kObjectsMigration, kRegistryMigration})
            .ok());
  }
  ModelVersion candidate(const std::string& run, const std::string& bytes = "onnx") {
    ModelVersion version;
    version.model = "fraud";
    version.project = project_.str();
    version.zone = "ae";
    EXPECT_TRUE(keep_onnx(*blobs_, bytes, version).ok());
    EXPECT_TRUE(keep_native(*blobs_, "native", version).ok());
    version.signature.inputs.push_back({"input", "FP32", {-1, 2}});
    version.signature.outputs.push_back({"probabilities", "FP32", {-1, 2}});
    version.signature.features = {"amount", "count"};
    version.training_set = "abc";
    version.feature_service = "fraud_v1";
    version.run = RunId(run);
    version.metrics["auc"] = 0.9;
    version.proof["rows"] = 100'000;
    return version;
  }

  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  std::unique_ptr<storage::BlobStore> blobs_ = storage::make_fake_blobs();
  security::Audit audit_{*sql_, clock_};
  security::TestModelTrust trust_;
  Models models_{*sql_, *blobs_, audit_, trust_.get(), clock_};
  const ProjectName project_{"payments"};
  const security::RequestContext context_ =
      security::system_context("user:dev", project_, Zone("ae"));
};

TEST_F(ModelsTest, numbers_versions_and_gives_them_back_whole) {
  ASSERT_EQ(models_.add_version(context_, candidate("r1"))->version, 1);
  ASSERT_EQ(models_.add_version(context_, candidate("r2"))->version, 2);
  const auto back = models_.get(project_, "fraud", 1);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->signature.features, (std::vector<std::string>{"amount", "count"}));
  EXPECT_EQ(back->signature.inputs.front(), (TensorSpec{"input", "FP32", {-1, 2}}));
  EXPECT_EQ(to_value(*back), to_value(*models_.get(project_, "fraud", 1)));
  const auto all = models_.versions(project_, "fraud");
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->front().version, 2) << "newest first";
  EXPECT_EQ(*models_.models(project_), std::vector<std::string>{"fraud"});
  EXPECT_TRUE(models_.models(ProjectName("other"))->empty());
}

TEST_F(ModelsTest, registering_the_same_run_again_is_the_same_version) {
  ASSERT_EQ(models_.add_version(context_, candidate("r1"))->version, 1);
  EXPECT_EQ(models_.add_version(context_, candidate("r1"))->version, 1);
  EXPECT_EQ(audit_.head()->sequence, 1);
}

TEST_F(ModelsTest, refuses_a_file_that_is_not_in_the_store) {
  ModelVersion version = candidate("r1");
  version.onnx = BlobId(std::string(64, 'a'));
  const auto refused = models_.add_version(context_, version);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(audit_.head()->sequence, 0);
  version = candidate("r1");
  version.native = BlobId();
  EXPECT_TRUE(models_.add_version(context_, version).ok()) << "the engine's file is optional";
}

TEST_F(ModelsTest, says_what_exists_when_something_does_not) {
  EXPECT_EQ(models_.get(project_, "fraud", 1).error().id, ErrorId::kModelNotFound);
  ASSERT_TRUE(models_.add_version(context_, candidate("r1")).ok());
  const auto other = models_.get(project_, "froud", 1);
  EXPECT_NE(other.error().message.find("fraud"), std::string::npos) << other.error().message;
  const auto later = models_.get(project_, "fraud", 7);
  EXPECT_EQ(later.error().id, ErrorId::kModelNotFound);
  EXPECT_NE(later.error().message.find("version 1"), std::string::npos) << later.error().message;
}

TEST_F(ModelsTest, an_alias_moves_with_its_evidence) {
  ASSERT_TRUE(models_.add_version(context_, candidate("r1")).ok());
  ASSERT_TRUE(models_.add_version(context_, candidate("r2")).ok());
  EXPECT_FALSE(models_.alias(project_, "fraud", "champion")->has_value());
  Value evidence;
  evidence["reason"] = "better on new labels";
  ASSERT_TRUE(models_.set_alias(context_, "fraud", "champion", 1, {}).ok());
  ASSERT_TRUE(models_.set_alias(context_, "fraud", "champion", 2, evidence).ok());
  EXPECT_EQ(*models_.alias(project_, "fraud", "champion"), 2);
  EXPECT_EQ(models_.aliases(project_, "fraud")->integer("champion"), 2);
  const auto entry = audit_.get(audit_.head()->sequence);
  EXPECT_EQ(entry->action, "model.alias");
  EXPECT_EQ(entry->detail.integer("before"), 1);
  EXPECT_EQ(entry->detail["evidence"].text("reason"), "better on new labels");
  const auto head = audit_.head()->sequence;
  ASSERT_TRUE(models_.set_alias(context_, "fraud", "champion", 2, evidence).ok());
  EXPECT_EQ(audit_.head()->sequence, head) << "nothing moved, nothing to record";
  EXPECT_EQ(models_.set_alias(context_, "fraud", "champion", 9, {}).error().id,
            ErrorId::kModelNotFound);
  EXPECT_EQ(models_.set_alias(context_, "fraud", "Bad Alias", 1, {}).error().id,
            ErrorId::kInvalidName);
}

TEST_F(ModelsTest, an_alias_moves_only_from_where_it_is_expected) {
  for (const char* run : {"r1", "r2", "r3"}) {
    ASSERT_TRUE(models_.add_version(context_, candidate(run)).ok());
  }
  const auto move = [&](std::int64_t from, std::int64_t to) {
    return models_.set_alias(context_, "fraud", "champion", to, {}, {.expected_version = from});
  };
  EXPECT_EQ(move(1, 2).error().id, ErrorId::kConflict) << "it points at nothing yet";
  ASSERT_TRUE(models_.set_alias(context_, "fraud", "champion", 1, {}).ok());
  ASSERT_TRUE(move(1, 2).ok());
  const auto head = audit_.head()->sequence;
  const Status refused = move(1, 3);
  EXPECT_EQ(refused.error().id, ErrorId::kConflict);
  EXPECT_NE(refused.error().message.find("points at version 2"), std::string::npos);
  EXPECT_EQ(*models_.alias(project_, "fraud", "champion"), 2);
  EXPECT_TRUE(move(1, 2).ok()) << "it is there already";
  EXPECT_EQ(audit_.head()->sequence, head);
}

TEST_F(ModelsTest, a_file_is_loaded_only_when_everything_agrees_with_its_signature) {
  const ModelVersion version = models_.add_version(context_, candidate("r1", "graph")).value();
  EXPECT_EQ(models_.load_onnx(version).value(), "graph");

  ModelVersion other = models_.add_version(context_, candidate("r2", "other graph")).value();
  ModelVersion swapped = version;
  swapped.onnx = other.onnx;
  EXPECT_EQ(models_.load_onnx(swapped).error().id, ErrorId::kModelSignatureInvalid);
  swapped.bundle = "";
  EXPECT_EQ(models_.load_onnx(swapped).error().id, ErrorId::kModelSignatureInvalid);
  other.bundle = version.bundle;
  EXPECT_EQ(models_.load_onnx(other).error().id, ErrorId::kModelSignatureInvalid);

  security::AuditQuery query;
  query.action = "model.refused";
  const auto refusals = audit_.list(query).value();
  EXPECT_EQ(refusals.size(), 2U) << "one for each version, however often it is asked for";
}

TEST_F(ModelsTest, a_model_serves_only_the_purpose_it_was_registered_for) {
  const auto declare = [&](const char* purpose) {
    storage::Object project;
    project.kind = "Project";
    project.name = project_.str();
    project.spec["purpose"] = purpose;
    return sql_->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, project, clock_.now()));
      return {};
    });
  };
  ASSERT_TRUE(declare("fraud-prevention").ok());
  const ModelVersion version = models_.add_version(context_, candidate("r1")).value();
  EXPECT_TRUE(models_.load_onnx(version).ok());
  ASSERT_TRUE(declare("marketing").ok());
  const auto refused = models_.load_onnx(version);
  EXPECT_EQ(refused.error().id, ErrorId::kModelSignatureInvalid);
  EXPECT_NE(refused.error().message.find("purpose"), std::string::npos);
}

TEST_F(ModelsTest, a_signature_is_read_strictly) {
  Value value;
  value["inputs"].push(1);
  EXPECT_FALSE(signature_from_value(value).ok());
  Value extra;
  extra["imputs"] = Value::array();
  EXPECT_EQ(signature_from_value(extra).error().id, ErrorId::kUnknownField);
}

TEST_F(ModelsTest, the_kind_refuses_unknown_fields) {
  storage::Object object;
  object.kind = "Model";
  object.name = "fraud";
  object.spec["description"] = "card fraud";
  const auto kind = kinds().front();
  EXPECT_TRUE(kind.check(object).ok());
  object.spec["descripton"] = "typo";
  EXPECT_EQ(kind.check(object).error().id, ErrorId::kUnknownField);
}

}  // namespace
}  // namespace falaj::registry
