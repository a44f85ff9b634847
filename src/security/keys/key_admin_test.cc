#include "security/keys/key_admin.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "security/keys/log_check.h"
#include "security/keys/testing/key_world.h"

namespace falaj::security::keys {
namespace {

const KeyScope kActivity{"payments", Zone("ae-fin"), "FeatureView/activity", "", "blob"};

class KeyAdminTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(metadata->migrate({kAuditMigration}).ok());
    ASSERT_TRUE(world.tree->new_data_key(kActivity).ok());
  }
  std::vector<std::string> actions() {
    AuditQuery query;
    query.order = AuditQuery::Order::kOldestFirst;
    std::vector<std::string> names;
    const std::vector<AuditEntry> entries = audit.list(query).value();
    for (const AuditEntry& entry : entries) names.push_back(entry.action);
    return names;
  }
  KeyScope place(const std::string& object, const std::string& subject = "") {
    return {"payments", Zone(), object, subject, ""};
  }

  testing::KeyWorld world;
  std::unique_ptr<storage::SqlStore> metadata = storage::make_fake_sql();
  Audit audit{*metadata, world.clock};
  KeyAdmin admin{*world.tree, audit};
  RequestContext context = system_context("user:dev", ProjectName("payments"), Zone("ae-fin"));
};

TEST_F(KeyAdminTest, finds_the_zone_when_there_is_one) {
  EXPECT_EQ(admin.rotate(context, place("FeatureView/activity"))->version, 2);
  EXPECT_EQ(admin.rotate(context, place("FeatureView/other")).error().id, ErrorId::kKeyMissing);
  KeyScope abroad = kActivity;
  abroad.zone = Zone("eu");
  ASSERT_TRUE(world.tree->new_data_key(abroad).ok());
  const auto two = admin.rotate(context, place("FeatureView/activity"));
  EXPECT_EQ(two.error().code, Code::kFailedPrecondition);
  EXPECT_NE(two.error().message.find("ae-fin, eu"), std::string::npos);
}

TEST_F(KeyAdminTest, every_change_has_its_entry) {
  ASSERT_TRUE(admin.rotate(context, place("FeatureView/activity")).ok());
  ASSERT_TRUE(admin.raise_min_version(context, place("FeatureView/activity"), 2).ok());
  const ShredOutcome outcome =
      admin.shred(context, place("FeatureView/activity"), ShredGround::kErasureRequest).value();
  EXPECT_EQ(actions(),
            (std::vector<std::string>{"key.rotate_begin", "key.rotate", "key.raise_min_version",
                                      "key.shred_begin", "key.shred"}));
  const AuditEntry entry = audit.get(outcome.audit_sequence).value();
  EXPECT_EQ(entry.object, "Key/payments/FeatureView/activity");
  EXPECT_EQ(entry.detail.integer("opens_tried"), 1);
  EXPECT_EQ(entry.detail.integer("opens_refused"), 1);
  EXPECT_TRUE(audit.verify().ok());
}

TEST_F(KeyAdminTest, a_subject_does_not_reach_the_audit_log) {
  KeyScope subject = kActivity;
  subject.subject = "784-1990-1234567";
  ASSERT_TRUE(world.tree->new_data_key(subject).ok());
  ASSERT_TRUE(admin
                  .shred(context, place("FeatureView/activity", "784-1990-1234567"),
                         ShredGround::kErasureRequest)
                  .ok());
  const std::vector<AuditEntry> entries = audit.list({}).value();
  for (const AuditEntry& entry : entries) {
    EXPECT_EQ(to_json(to_value(entry)).find("784-1990"), std::string::npos);
  }
  EXPECT_TRUE(world.tree->new_data_key(kActivity).ok());  // The object lives on.
}

TEST_F(KeyAdminTest, nothing_is_rotated_or_destroyed_when_the_log_cannot_be_written) {
  const DataKey made = world.tree->new_data_key(kActivity).value();
  ASSERT_TRUE(metadata
                  ->write([](storage::SqlTransaction& tx) -> Status {
                    const auto tables = FALAJ_TRY(
                        tx.query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name "
                                 "LIKE 'audit%' ORDER BY name"));
                    for (const storage::SqlRow& row : tables) {
                      FALAJ_TRY(tx.execute("DROP TABLE " + row.text(0)));
                    }
                    return {};
                  })
                  .ok());
  EXPECT_FALSE(admin.rotate(context, place("FeatureView/activity")).ok());
  const std::vector<RingInfo> rings = world.tree->inventory().value();
  for (const RingInfo& ring : rings) EXPECT_EQ(ring.version, 1);
  EXPECT_FALSE(admin.shred(context, place("FeatureView/activity"), ShredGround::kOther).ok());
  EXPECT_TRUE(world.tree->open_data_key(kActivity, made.wrapped).ok());
}

TEST_F(KeyAdminTest, a_receipt_that_a_crash_kept_back_is_delivered_with_its_consequences) {
  int consequences = 0;
  admin.set_after_shred([&](const RequestContext& by, const ShredReceipt&) -> Result<Value> {
    EXPECT_EQ(by.project.str(), "payments");
    ++consequences;
    Value value;
    value["retrain_due"] = "fraud/3";
    return value;
  });
  ASSERT_TRUE(world.tree->shred(kActivity).ok());  // And then the process is gone.
  ASSERT_TRUE(admin.deliver_receipts().ok());
  ASSERT_TRUE(admin.deliver_receipts().ok());
  EXPECT_EQ(consequences, 1);
  EXPECT_EQ(actions(), std::vector<std::string>{"key.shred"});
  EXPECT_EQ(audit.get(1)->detail["consequences"].text("retrain_due"), "fraud/3");
}

TEST_F(KeyAdminTest, inventory_of_a_project_shows_its_own) {
  KeyScope other = kActivity;
  other.project = "lending";
  other.zone = Zone("eu");
  ASSERT_TRUE(world.tree->new_data_key(other).ok());
  const Value all = admin.inventory("").value();
  EXPECT_EQ(all.text("vault"), "fake");
  EXPECT_EQ(all["roots"].as_array().size(), 3U);
  EXPECT_EQ(all["keys"].as_array().size(), 5U);
  const Value own = admin.inventory("lending").value();
  EXPECT_EQ(own["roots"].as_array().size(), 1U);
  EXPECT_EQ(own["keys"].as_array().size(), 2U);
  EXPECT_EQ(to_json(own).find("payments"), std::string::npos);
}

TEST_F(KeyAdminTest, grounds_are_a_choice) {
  for (const ShredGround ground : {ShredGround::kErasureRequest, ShredGround::kRetentionEnded,
                                   ShredGround::kContractEnded, ShredGround::kOther}) {
    EXPECT_EQ(ground_from_name(ground_name(ground)).value(), ground);
  }
  EXPECT_EQ(ground_from_name("because").error().id, ErrorId::kWrongType);
}

TEST_F(KeyAdminTest, keys_that_are_older_than_the_log_are_found) {
  EXPECT_TRUE(check_against_log(*world.tree, *world.sql, audit).ok());
  const std::vector<RingInfo> before = world.tree->inventory().value();
  const std::string ring = before.back().id;
  ASSERT_EQ(before.back().level, "object");
  ASSERT_TRUE(admin.rotate(context, place("FeatureView/activity")).ok());
  EXPECT_TRUE(check_against_log(*world.tree, *world.sql, audit).ok());
  const auto set = [&](const std::string& text) {
    ASSERT_TRUE(world.sql
                    ->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(
                          tx.execute("UPDATE key_rings SET " + text + " WHERE id = ?", {ring}));
                      return {};
                    })
                    .ok());
  };
  set("version = 1");
  EXPECT_EQ(check_against_log(*world.tree, *world.sql, audit).error().id, ErrorId::kRolledBack);
  set("version = 2");
  ASSERT_TRUE(admin.shred(context, place("FeatureView/activity"), ShredGround::kOther).ok());
  EXPECT_TRUE(check_against_log(*world.tree, *world.sql, audit).ok());
  EXPECT_TRUE(living_rings(*world.sql, {ring, "nobody"}).value().empty());
  set("shredded = 0");
  const Status found = check_against_log(*world.tree, *world.sql, audit);
  EXPECT_EQ(found.error().id, ErrorId::kRolledBack);
  EXPECT_NE(found.error().message.find("key.shred"), std::string::npos) << found.error().message;
}

}  // namespace
}  // namespace falaj::security::keys
