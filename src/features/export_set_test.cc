#include "features/export_set.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

class ExportSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_activity();
    world_.apply("TrainingSet", "set",
                 R"({"service":"svc","spine":{"path":"l","time":"at","label":"y"}})");
    ASSERT_TRUE(
        world_.append("activity", "customer_id,at,loaded_at,amount,city\n1,2026-01-01,,10,Dubai\n")
            .ok());
    const TextReader spine("customer_id,at,y\n1,2026-01-02,1\n");
    FreezeOptions options;
    options.spine_file = &spine;
    options.spine_format = table::Format::kCsv;
    const auto frozen = world_.training_sets->freeze(world_.context, "set", options);
    ASSERT_TRUE(frozen.ok()) << frozen.error().message;
    manifest_ = *frozen;
  }
  Result<ExportedSet> exported(const ExportRequest& request) {
    return export_set(*world_.training_sets, *world_.blobs, world_.audit, world_.context, request);
  }
  std::size_t exports() {
    security::AuditQuery query;
    query.action = "data.export";
    return world_.audit.list(query)->size();
  }
  const std::string key_ = std::string(32, 'k');
  FeatureWorld world_;
  Manifest manifest_;
};

TEST_F(ExportSetTest, gives_encrypted_parquet_and_says_so_in_the_audit) {
  const auto out = exported({"set", "", key_});
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->manifest.id, manifest_.id);
  EXPECT_TRUE(out->parquet.starts_with("PARE")) << "the footer is encrypted too";
  EXPECT_TRUE(out->parquet.ends_with("PARE"));
  for (const char* word : {"Dubai", "customer_id", "amount"}) {
    EXPECT_EQ(out->parquet.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(exports(), 1u);
  EXPECT_FALSE(table::read_all(TextReader(out->parquet), table::Format::kParquet).ok());
  EXPECT_NE(exported({"set", manifest_.id, key_})->parquet, out->parquet) << "fresh nonces";
}

TEST_F(ExportSetTest, refuses_what_is_not_there_and_bad_keys) {
  EXPECT_EQ(exported({"none", "", key_}).error().id, ErrorId::kObjectNotFound);
  EXPECT_EQ(exported({"other", manifest_.id, key_}).error().id, ErrorId::kObjectNotFound);
  EXPECT_EQ(exported({"set", "", "short"}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(exports(), 0u);
}

}  // namespace
}  // namespace falaj::features
