#include "security/quota/quotas.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "storage/objects.h"
#include "storage/open.h"

namespace falaj::security {
namespace {

Result<Quota> decoded(const std::string& json) {
  return decode_quota(parse_json(json).value(), "Project/pay quota");
}

TEST(Quota, is_read_strictly) {
  const Quota all =
      decoded(R"({"objects":200,"storage":"10Gi","jobs":0,"predictions_per_second":500})").value();
  EXPECT_EQ(all.objects, 200);
  EXPECT_EQ(all.storage_bytes, std::int64_t{10} << 30);
  EXPECT_EQ(all.jobs, 0) << "none at all";
  EXPECT_EQ(all.predictions_per_second, 500);
  EXPECT_EQ(decoded("{}").value(), Quota{});
  EXPECT_EQ(decode_quota(Value(), "x").value(), Quota{});
  for (const char* bad : {R"({"objects":-1})", R"({"objects":"many"})", R"({"storage":"ten"})",
                          R"({"storage":-5})", R"({"job":4})", R"({"jobs":1.5})"}) {
    EXPECT_FALSE(decoded(bad).ok()) << bad;
  }
}

TEST(Quota, what_passes_with_time_is_told_from_what_does_not) {
  const Error passing = quota_reached("pay", "has 4 jobs", Shortage::kPassing);
  EXPECT_EQ(passing.id, ErrorId::kQuotaReached);
  EXPECT_EQ(passing.code, Code::kResourceExhausted);
  const Error lasting = quota_reached("pay", "has 4 objects", Shortage::kLasting);
  EXPECT_EQ(lasting.id, ErrorId::kQuotaReached);
  EXPECT_EQ(lasting.code, Code::kFailedPrecondition);
}

class QuotasTest : public ::testing::Test {
 protected:
  QuotasTest() {
    EXPECT_TRUE(sql_->migrate({storage::kObjectsMigration, kQuotaMigration}).ok());
    declare("pay", R"({"zone":"ae","quota":{"storage":100}})");
    declare("shop", R"({"zone":"ae"})");
  }
  void declare(const std::string& name, const std::string& spec) {
    storage::Object project;
    project.kind = "Project";
    project.name = name;
    project.spec = parse_json(spec).value();
    ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(storage::put_object(tx, project, Timestamp{1}));
                      return {};
                    })
                    .ok());
    ASSERT_TRUE(quotas_.refresh().ok());
  }

  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  Quotas quotas_{*sql_};
  std::unique_ptr<storage::BlobStore> blobs_ = count_blobs(storage::make_fake_blobs(), quotas_);
  const storage::Owner pay_{ProjectName("pay"), Zone("ae"), "FeatureView/a"};
  const storage::Owner shop_{ProjectName("shop"), Zone("ae"), "FeatureView/a"};
};

TEST_F(QuotasTest, stored_bytes_are_counted_and_refused_past_the_quota) {
  const storage::StoredBlob first = blobs_->put(pay_, std::string(60, 'a')).value();
  EXPECT_EQ(quotas_.stored_bytes("pay"), 60);
  const auto refused = blobs_->put(pay_, std::string(41, 'b'));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kQuotaReached);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(blobs_->list(pay_)->size(), 1u) << "nothing of it remains";
  EXPECT_TRUE(blobs_->put(pay_, std::string(40, 'b')).ok()) << "to the last byte";
  EXPECT_FALSE(blobs_->create(pay_).ok()) << "full";
  EXPECT_TRUE(blobs_->put(shop_, std::string(1000, 'c')).ok()) << "another tenant";
  ASSERT_TRUE(blobs_->remove(pay_, first.id).ok());
  EXPECT_EQ(quotas_.stored_bytes("pay"), 40);
  EXPECT_TRUE(blobs_->create(pay_).ok()) << "room again";
}

TEST_F(QuotasTest, a_stream_is_stopped_on_its_way) {
  auto writer = blobs_->create(pay_).value();
  EXPECT_TRUE(writer->append(std::string(90, 'a')).ok());
  EXPECT_EQ(writer->append(std::string(11, 'a')).error().id, ErrorId::kQuotaReached);
  EXPECT_FALSE(writer->commit().ok());
  EXPECT_EQ(quotas_.stored_bytes("pay"), 0);
  // Two that fit alone do not fit together.
  auto one = blobs_->create(pay_).value();
  auto two = blobs_->create(pay_).value();
  ASSERT_TRUE(one->append(std::string(60, 'a')).ok());
  ASSERT_TRUE(two->append(std::string(60, 'b')).ok());
  EXPECT_TRUE(one->commit().ok());
  EXPECT_EQ(two->commit().error().id, ErrorId::kQuotaReached);
}

TEST_F(QuotasTest, the_count_outlives_the_process) {
  ASSERT_TRUE(blobs_->put(pay_, std::string(60, 'a')).ok());
  ASSERT_TRUE(quotas_.flush().ok());
  Quotas next(*sql_);
  ASSERT_TRUE(next.load().ok());
  ASSERT_TRUE(next.refresh().ok());
  EXPECT_EQ(next.stored_bytes("pay"), 60);
  EXPECT_FALSE(next.room("pay", 41).ok());
}

TEST_F(QuotasTest, a_changed_declaration_counts_at_once) {
  EXPECT_FALSE(quotas_.room("pay", 101).ok());
  declare("pay", R"({"zone":"ae","quota":{"storage":"1Ki"}})");
  EXPECT_TRUE(quotas_.room("pay", 101).ok());
  declare("pay", R"({"zone":"ae"})");
  EXPECT_TRUE(quotas_.room("pay", std::int64_t{1} << 60).ok());
}

}  // namespace
}  // namespace falaj::security
