#include "features/erasure.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

class ErasureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world.apply_activity();
    append("1,2026-01-01,2026-01-01,10,dubai\n2,2026-01-01,2026-01-01,20,ajman\n");
    append("1,2026-01-02,2026-01-02,11,dubai\n3,2026-01-02,2026-01-02,30,fujairah\n");
    append("2,2026-01-03,2026-01-03,21,ajman\n");
    append("1,2026-01-04,2026-01-04,12,dubai\n");
  }
  void append(const std::string& rows) {
    const auto report = world.append("activity", "customer_id,at,loaded_at,amount,city\n" + rows);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }
  Result<EraseReport> erase(std::string_view key, const std::string& entity = "customer") {
    return erase_subject(world.context,
                         {*world.sql, *world.blobs, *world.ingest, *world.training_sets}, entity,
                         json(key));
  }
  std::int64_t count(std::string_view sql) {
    return storage::query(*world.sql, sql).value().front().integer(0);
  }
  FeatureStatus online(std::int64_t customer) {
    const auto plan = world.online->plan(world.context.project, "svc").value();
    OnlineRow row;
    const std::vector<KeyPart> key{customer};
    world.online->read(*plan, key, Timestamp::from_seconds(1'767'600'000), row);
    return row.statuses.front();
  }

  FeatureWorld world;
};

TEST_F(ErasureTest, takes_the_person_out_of_segments_and_online_and_leaves_the_others) {
  ASSERT_EQ(online(1), FeatureStatus::kPresent);
  const EraseReport report = erase(R"({"customer_id":1})").value();
  EXPECT_EQ(report.rows, 3U);
  ASSERT_EQ(report.views.size(), 1U);
  EXPECT_EQ(report.views.front().segments, 3U);
  EXPECT_EQ(report.views.front().online, 1U);
  EXPECT_GE(world.kv.purges.load(), 1) << "out of the files too, before anybody is told";
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(online(1), FeatureStatus::kNotFound);
    EXPECT_EQ(online(2), FeatureStatus::kPresent);
    EXPECT_EQ(online(3), FeatureStatus::kPresent);
    ASSERT_TRUE(world.online->make_sure(world.context.project, "activity").ok());
    EXPECT_EQ(world.online->keys(world.context.project, "activity"), 2U);
    world.restart();
  }
  EXPECT_EQ(count("SELECT sum(rows) FROM feature_segments"), 3);
  EXPECT_EQ(count("SELECT sum(rows) FROM feature_commits"), 3);
  EXPECT_EQ(count("SELECT count(*) FROM feature_segments"), 3);  // The last had no other row.
  EXPECT_EQ(count("SELECT count(*) FROM feature_erased_blobs"), 0);
}

TEST_F(ErasureTest, the_old_segments_are_destroyed) {
  const storage::Owner owner{world.context.project, world.context.zone, "FeatureView/activity"};
  const std::vector<BlobId> before = world.blobs->list(owner).value();
  ASSERT_EQ(before.size(), 8U);  // Each segment has a profile.
  ASSERT_TRUE(erase(R"({"customer_id":1})").ok());
  const std::vector<BlobId> after = world.blobs->list(owner).value();
  EXPECT_EQ(after.size(), 4U);  // Three segments; the profiles with the person are gone.
  int kept = 0;
  for (const BlobId& blob : before) kept += world.blobs->get(owner, blob).ok() ? 1 : 0;
  EXPECT_EQ(kept, 2);  // The ones without the person.
}

TEST_F(ErasureTest, repeating_it_finds_nothing_and_new_rows_may_come) {
  ASSERT_TRUE(erase(R"({"customer_id":1})").ok());
  EXPECT_EQ(erase(R"({"customer_id":1})")->rows, 0U);
  EXPECT_EQ(erase(R"({"customer_id":99})")->rows, 0U);
  append("1,2026-01-01,2026-01-05,1,sharjah\n");
  EXPECT_EQ(online(1), FeatureStatus::kPresent);
  EXPECT_EQ(world.online->keys(world.context.project, "activity"), 3U);
}

TEST_F(ErasureTest, names_the_rows_that_have_keys_of_their_own) {
  EXPECT_TRUE(erase(R"({"customer_id":1})")->views.front().own_keys.empty());
  world.apply("Entity", "customer",
              R"({"keys":[{"name":"customer_id","type":"int64"}],"subject_keys":true})");
  append("5,2026-01-05,2026-01-05,1,dubai\n");
  const EraseReport report = erase(R"({"customer_id":5})").value();
  ASSERT_EQ(report.views.front().own_keys.size(), 1U);
  EXPECT_EQ(report.views.front().owner.object, "FeatureView/activity");
  EXPECT_EQ(to_json(to_value(report)).find("own_keys"), std::string::npos) << "never printed";
}

TEST_F(ErasureTest, a_view_whose_keys_were_destroyed_is_gone_at_once_and_takes_new_rows) {
  append("424242,2026-01-05,2026-01-05,1,x\n424242,2026-01-05,2026-01-05,-7,x\n");
  const storage::Owner owner{world.context.project, world.context.zone, "FeatureView/activity"};
  const auto plan = world.online->plan(world.context.project, "svc").value();
  ASSERT_EQ(online(1), FeatureStatus::kPresent);
  for (int again = 0; again < 2; ++again) {
    const Status done = world.ingest->forget(world.context.project, "activity", Zone("ae"));
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  for (int restart = 0; restart < 2; ++restart) {
    for (const std::int64_t customer : {1, 2, 3})
      EXPECT_EQ(online(customer), FeatureStatus::kNotFound);
    EXPECT_EQ(world.online->keys(world.context.project, "activity"), 0U);
    EXPECT_TRUE(world.blobs->list(owner).value().empty());
    int rows = 0;
    ASSERT_TRUE(world.kv.scan(owner, [&](auto, auto) { return ++rows > 0; }).ok());
    EXPECT_EQ(rows, 0);
    EXPECT_EQ(count("SELECT count(*) FROM feature_segments"), 0);
    EXPECT_EQ(count("SELECT count(*) FROM feature_quarantines"), 0);
    if (restart == 0) world.restart();
  }
  append("1,2026-01-06,2026-01-06,10,dubai\n");
  EXPECT_EQ(online(1), FeatureStatus::kPresent);
  EXPECT_EQ(online(2), FeatureStatus::kNotFound);
  EXPECT_EQ(count("SELECT sum(rows) FROM feature_commits"), 1);
}

TEST_F(ErasureTest, also_from_views_whose_entity_has_further_keys) {
  world.apply(
      "Entity", "visit",
      R"({"keys":[{"name":"shop","type":"string"},{"name":"customer_id","type":"int64"}]})");
  world.apply("Source", "visits", R"({"format":"csv","event_time":"at"})");
  world.apply(
      "FeatureView", "visits",
      R"({"entity":"visit","source":"visits","features":[{"name":"pages","type":"int64"}]})");
  ASSERT_TRUE(world
                  .append("visits",
                          "shop,customer_id,at,pages\na,1,2026-01-01,5\nb,1,2026-01-01,6\n"
                          "a,2,2026-01-01,7\n")
                  .ok());
  const EraseReport report = erase(R"({"customer_id":1})").value();
  EXPECT_EQ(report.rows, 5U);
  EXPECT_EQ(world.online->keys(world.context.project, "visits"), 1U);
  // The other way about: a visit is not a customer.
  EXPECT_EQ(erase(R"({"shop":"a","customer_id":2})", "visit")->rows, 1U);
  EXPECT_EQ(online(2), FeatureStatus::kPresent);
}

TEST_F(ErasureTest, quarantined_rows_go_too_and_the_audit_log_does_not_learn_who) {
  append("424242,2026-01-05,2026-01-05,1,x\n424242,2026-01-05,2026-01-05,-7,x\n");
  ASSERT_EQ(count("SELECT count(*) FROM feature_quarantines"), 1);
  EXPECT_EQ(erase(R"({"customer_id":424242})")->views.front().quarantines, 1U);
  EXPECT_EQ(count("SELECT count(*) FROM feature_quarantines"), 0);
  const std::vector<security::AuditEntry> entries = world.audit.list({}).value();
  bool erased = false;
  for (const security::AuditEntry& entry : entries) {
    EXPECT_EQ(to_json(to_value(entry)).find("424242"), std::string::npos);
    erased = erased || entry.action == "features.erase";
  }
  EXPECT_TRUE(erased);
}

TEST_F(ErasureTest, a_disk_that_goes_away_leaves_the_view_as_it_was) {
  world.kv.break_writes();
  EXPECT_FALSE(erase(R"({"customer_id":1})").ok());
  EXPECT_EQ(count("SELECT sum(rows) FROM feature_segments"), 6);
  world.kv.mend();
  EXPECT_EQ(erase(R"({"customer_id":1})")->rows, 3U);
  EXPECT_EQ(online(1), FeatureStatus::kNotFound);
}

TEST_F(ErasureTest, old_segments_that_a_crash_left_are_destroyed_at_start) {
  const storage::Owner owner{world.context.project, world.context.zone, "FeatureView/activity"};
  const BlobId left = world.blobs->put(owner, "an old segment").value().id;
  ASSERT_TRUE(world.sql
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("INSERT INTO feature_erased_blobs VALUES (?, ?, ?, ?)",
                                         {owner.project.str(), owner.zone.name(),
                                          std::string("activity"), left.str()}));
                    return {};
                  })
                  .ok());
  ASSERT_TRUE(finish_erasures(*world.sql, *world.blobs).ok());
  EXPECT_FALSE(world.blobs->get(owner, left).ok());
  EXPECT_TRUE(finish_erasures(*world.sql, *world.blobs).ok());
}

TEST_F(ErasureTest, names_the_frozen_sets_that_hold_the_person_and_no_others) {
  world.apply("Source", "labels", R"({"format":"csv","event_time":"at"})");
  world.apply(
      "FeatureView", "bought",
      R"({"entity":"customer","source":"labels","features":[{"name":"y","type":"int64"}]})");
  ASSERT_TRUE(
      world.append("bought", "customer_id,at,y\n1,2026-01-03,1\n2,2026-01-03,0\n2,2026-01-04,1\n")
          .ok());
  world.apply("TrainingSet", "set", R"({"service":"svc","spine":{"view":"bought","label":"y"}})");
  ASSERT_TRUE(world.training_sets->freeze(world.context, "set").ok());
  EXPECT_TRUE(erase(R"({"customer_id":3})")->training_sets.empty());
  EXPECT_EQ(erase(R"({"customer_id":1})")->training_sets, std::vector<std::string>{"set"});
  // Repeated before the set was shredded: it still has to be.
  EXPECT_EQ(erase(R"({"customer_id":1})")->training_sets, std::vector<std::string>{"set"});
}

TEST_F(ErasureTest, wants_exactly_the_keys_of_the_entity) {
  EXPECT_EQ(erase(R"({})").error().id, ErrorId::kMissingField);
  EXPECT_EQ(erase(R"({"customer_id":"1"})").error().id, ErrorId::kWrongType);
  EXPECT_EQ(erase(R"({"customer_id":1,"shop":"a"})").error().id, ErrorId::kUnknownField);
  EXPECT_EQ(erase(R"({"customer_id":1})", "nobody").error().id, ErrorId::kObjectNotFound);
}

}  // namespace
}  // namespace falaj::features
