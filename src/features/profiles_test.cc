#include "features/profiles.h"

#include <gtest/gtest.h>

#include "features/erasure.h"
#include "features/internal/kept_profiles.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

class ProfilesTest : public ::testing::Test {
 protected:
  void SetUp() override { world.apply_activity(); }
  void append(const std::string& rows) {
    const auto report = world.append("activity", "customer_id,at,loaded_at,amount,city\n" + rows);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }
  Result<Value> read(const ProfileQuery& query = {}) {
    return read_profiles(*world.sql, *world.blobs, world.context.project, "activity", query);
  }
  std::vector<KeptProfile> kept() {
    std::vector<KeptProfile> out;
    EXPECT_TRUE(world.sql
                    ->read([&](storage::SqlTransaction& tx) -> Status {
                      out = FALAJ_TRY(list_profiles(tx, {"pay", "activity"}));
                      return {};
                    })
                    .ok());
    return out;
  }
  FeatureWorld world;
};

TEST_F(ProfilesTest, each_ingest_leaves_one_of_the_rows_that_were_accepted) {
  append("1,2026-01-01,,10,Dubai\n2,2026-01-01,,20,Dubai\n3,2026-01-01,,-5,Dubai\n");
  append("1,2026-01-02,,,Ajman\n");
  const Value both = read({.commit = {}, .most = 10}).value();
  ASSERT_EQ(both["profiles"].as_array().size(), 2u);
  const Value& newest = both["profiles"].as_array()[0];
  EXPECT_EQ(newest["commits"].integer("last"), 2);
  EXPECT_EQ(newest["features"].as_array()[0].integer("missing"), 1);
  const Value& first = both["profiles"].as_array()[1];
  EXPECT_EQ(first.integer("rows"), 2) << "the one in quarantine is in no profile";
  EXPECT_EQ(first["features"].as_array()[0].number("max"), 20);
  EXPECT_EQ(first["keys"].as_array()[0].integer("distinct"), 2);
  EXPECT_EQ((*read())["profiles"].as_array().size(), 1u);
  const Value one = read({.commit = 1, .most = 1}).value();
  EXPECT_EQ(one["profiles"].as_array().at(0)["commits"].integer("first"), 1);
  EXPECT_EQ(read({.commit = 7, .most = 1}).error().id, ErrorId::kNotFound);
}

TEST_F(ProfilesTest, an_unknown_view_is_refused_and_one_without_rows_has_none) {
  EXPECT_TRUE((*read())["profiles"].as_array().empty());
  const auto missing = read_profiles(*world.sql, *world.blobs, world.context.project, "other", {});
  EXPECT_EQ(missing.error().id, ErrorId::kObjectNotFound);
}

TEST_F(ProfilesTest, their_number_is_bounded_and_nothing_is_lost_when_old_ones_are_merged) {
  const std::size_t ingests = kProfilesKept + 9;
  for (std::size_t i = 0; i < ingests; ++i) {
    append(std::to_string(i) + ",2026-01-01,," + std::to_string(i) + ",Dubai\n");
  }
  const std::vector<KeptProfile> now = kept();
  ASSERT_EQ(now.size(), kProfilesKept);
  std::uint64_t rows = 0;
  std::uint64_t next = 1;
  for (const KeptProfile& one : now) {
    EXPECT_EQ(one.first, next) << "no gap";
    next = one.last + 1;
    rows += one.rows;
  }
  EXPECT_EQ(rows, ingests);
  EXPECT_EQ(now.front().ingests, 2u);
  EXPECT_EQ(now.back().ingests, 1u);
  const Value merged = read({.commit = 2, .most = 1}).value();
  EXPECT_EQ(merged["profiles"].as_array().at(0).integer("rows"), 2);
  EXPECT_EQ(merged["profiles"].as_array().at(0).integer("ingests"), 2);
  const storage::Owner owner = world.owner_of_view("activity");
  EXPECT_EQ(world.blobs->list(owner)->size(), ingests + kProfilesKept)
      << "segments and profiles; those that were merged are gone";
}

TEST_F(ProfilesTest, what_is_merged_gets_coarser_with_age_and_never_crosses_declarations) {
  std::vector<KeptProfile> many(kProfilesKept + 1);
  for (KeptProfile& one : many) one.zone = Zone("ae");
  EXPECT_EQ(next_to_merge(many), 0u);
  many[0].ingests = 2;
  EXPECT_EQ(next_to_merge(many), 1u);
  for (std::size_t i = 0; i < many.size(); ++i) many[i].generation = static_cast<int>(i);
  EXPECT_EQ(next_to_merge(many), std::nullopt);
  for (KeptProfile& one : many) one.generation = 1;
  for (std::size_t i = 0; i < many.size(); i += 2) many[i].zone = Zone("sa");
  EXPECT_EQ(next_to_merge(many), std::nullopt);
  EXPECT_EQ(next_to_merge({}), std::nullopt);
}

TEST_F(ProfilesTest, erasing_a_person_destroys_the_profiles_with_rows_of_theirs) {
  append("1,2026-01-01,,10,Dubai\n2,2026-01-01,,20,Dubai\n");
  append("2,2026-01-02,,30,Ajman\n");
  const BlobId first = kept().at(0).blob;
  const auto report =
      erase_subject(world.context, {*world.sql, *world.blobs, *world.ingest, *world.training_sets},
                    "customer", json(R"({"customer_id":1})"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_EQ(kept().at(0).last, 2u);
  EXPECT_FALSE(world.blobs->get(world.owner_of_view("activity"), first).ok());
}

TEST_F(ProfilesTest, a_zone_whose_keys_were_destroyed_keeps_none) {
  append("1,2026-01-01,,10,Dubai\n");
  ASSERT_TRUE(world.ingest->forget(world.context.project, "activity", world.context.zone).ok());
  EXPECT_TRUE(kept().empty());
  EXPECT_TRUE(world.blobs->list(world.owner_of_view("activity"))->empty());
}

TEST_F(ProfilesTest, one_that_was_damaged_is_named) {
  append("1,2026-01-01,,10,Dubai\n");
  ASSERT_TRUE(world.blobs->remove(world.owner_of_view("activity"), kept().at(0).blob).ok());
  const auto damaged = read();
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message.find("profile of commit 1"), std::string::npos);
}

}  // namespace
}  // namespace falaj::features
