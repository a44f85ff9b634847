// Sampled replies asked again of the join: features/parity.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "features/internal/online_rows.h"
#include "features/parity.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHeader = "customer_id,at,loaded_at,amount,city\n";

class ParityCheck : public testing::Test {
 protected:
  ParityCheck() {
    world_.online_options.parity = &samples_;
    world_.restart();
    world_.apply_activity();
    world_.apply("FeatureView", "counts",
                 R"({"entity":"customer","source":"tx","events_max":3,"features":[)"
                 R"({"name":"amount","type":"float64"},)"
                 R"({"name":"n","type":"int64","aggregate":{"count":"*","window":"30d"}}]})");
    world_.apply("FeatureService", "both",
                 R"({"features":["activity",{"counts":["n"]}],)"
                 R"("on_demand":[{"name":"twice","type":"float64","expr":"amount * 2"}]})");
  }

  void ingest(const std::string& view, const std::string& rows) {
    const auto report = world_.append(view, kHeader + rows);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }

  void tick(int times = 1) {
    for (int i = 0; i < times; ++i) {
      const Status status = parity_.tick();
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }

  std::uint64_t checked(const std::string& view) { return count("checked", view); }
  std::uint64_t mismatches(const std::string& view) { return count("mismatches", view); }

  std::vector<security::AuditEntry> alarms() {
    security::AuditQuery query;
    query.action = "features.alarm";
    return world_.audit.list(query).value();
  }

  // Changes a value of the durable copy, as no program may, and reads it back into memory.
  void plant(std::int64_t customer) {
    const storage::Owner owner = world_.owner_of_view("activity");
    const std::string key = kRowMark + encode_key({customer});
    world_.stop();
    auto row = world_.kv_inner->get(owner, key).value();
    ASSERT_TRUE(row.has_value());
    const std::size_t place = row->find("Sharjah");
    ASSERT_NE(place, std::string::npos);
    (*row)[place] = 'X';
    ASSERT_TRUE(world_.kv_inner->write(owner, {{key, *row}}).ok());
    world_.restart();
  }

  FeatureWorld world_;
  ParitySamples samples_{1};
  Parity parity_{{*world_.sql, *world_.blobs, world_.audit, world_.metrics, world_.clock},
                 samples_};

 private:
  // From what is exposed: a series that nobody counted in is not there.
  std::uint64_t count(const std::string& what, const std::string& view) {
    const std::string text = world_.metrics.exposition();
    const std::string series =
        "falaj_features_parity_" + what + "_total{project=\"pay\",view=\"" + view + "\"} ";
    const std::size_t place = text.find(series);
    return place == std::string::npos ? 0 : std::stoull(text.substr(place + series.size()));
  }
};

TEST_F(ParityCheck, replies_that_the_join_agrees_with_are_counted) {
  ingest("activity", "1,2026-05-25,,10,Sharjah\n2,2026-01-01,,20,Dubai\n");
  ingest("counts", "1,2026-05-25,,10,Sharjah\n1,2026-05-26,,11,Sharjah\n");
  EXPECT_EQ(world_.read({1}, "both").numbers.size(), 4u);
  world_.read({2}, "both");  // Outside its time to live.
  world_.read({3}, "both");  // Unknown.
  world_.read({1});
  tick();
  EXPECT_EQ(checked("activity"), 4u);
  EXPECT_EQ(checked("counts"), 3u);
  EXPECT_EQ(mismatches("activity") + mismatches("counts"), 0u);
  EXPECT_TRUE(alarms().empty());
  tick();
  EXPECT_EQ(checked("activity"), 4u) << "each is asked once";
}

TEST_F(ParityCheck, a_planted_mismatch_is_counted_and_raised_without_saying_whose_it_is) {
  ingest("activity", "4711,2026-05-25,,10,Sharjah\n");
  world_.kv.wait_for_written(1);
  plant(4711);
  world_.read({4711});
  tick();
  EXPECT_EQ(mismatches("activity"), 0u) << "asked twice before it is believed";
  tick();
  EXPECT_EQ(checked("activity"), 1u);
  EXPECT_EQ(mismatches("activity"), 1u);
  ASSERT_EQ(alarms().size(), 1u);
  const security::AuditEntry entry = alarms().front();
  EXPECT_EQ(entry.object, "FeatureView/pay/activity");
  const std::string detail = to_json(entry.detail);
  EXPECT_THAT(detail, HasSubstr("\"parity\""));
  EXPECT_THAT(detail, HasSubstr("\"city\""));
  EXPECT_THAT(detail, Not(HasSubstr("4711")));
  EXPECT_THAT(detail, Not(HasSubstr("harjah")));
  // Counted every time, raised once an hour.
  world_.read({4711});
  tick(2);
  EXPECT_EQ(mismatches("activity"), 2u);
  EXPECT_EQ(alarms().size(), 1u);
  world_.clock.advance(Parity::kQuiet);
  world_.read({4711});
  tick(2);
  EXPECT_EQ(alarms().size(), 2u);
}

TEST_F(ParityCheck, replies_about_what_was_erased_or_declared_anew_are_not_compared) {
  ingest("activity", "1,2026-05-25,,10,Sharjah\n");
  world_.read({1});
  ErasureServices services{*world_.sql, *world_.blobs, *world_.ingest, *world_.training_sets};
  ASSERT_TRUE(
      erase_subject(world_.context, services, "customer", json(R"({"customer_id":1})")).ok());
  tick(2);
  EXPECT_EQ(checked("activity"), 0u);
  ingest("activity", "2,2026-05-25,,10,Sharjah\n");
  world_.read({2});
  world_.apply_activity("1d");
  tick(2);
  EXPECT_EQ(checked("activity") + mismatches("activity"), 0u);
}

TEST_F(ParityCheck, what_cannot_agree_by_its_nature_is_left_out) {
  // The event is ahead of the clock: online at once, in the join when its time comes.
  ingest("activity", "1,2030-01-01,,10,Sharjah\n");
  EXPECT_EQ(world_.read({1}).numbers[0], 10);
  // More events than are kept: the window is null online.
  ingest("counts",
         "1,2026-05-21,,1,a\n1,2026-05-22,,1,a\n1,2026-05-23,,1,a\n1,2026-05-24,,1,a\n"
         "1,2026-05-25,,1,a\n");
  const OnlineRow row = world_.read({1}, "both");
  EXPECT_EQ(row.statuses[2], FeatureStatus::kNullValue);
  tick(2);
  EXPECT_EQ(checked("counts"), 1u);
  EXPECT_EQ(mismatches("activity") + mismatches("counts"), 0u);
}

TEST(ParitySamples, takes_one_of_so_many_and_no_more_than_it_holds) {
  const ParitySamples some(10);
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += some.due() ? 1 : 0;
  EXPECT_EQ(taken, 100);
  const ParitySamples none(0);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(none.due());

  FeatureWorld world;
  ParitySamples all(1);
  world.online_options.parity = &all;
  world.restart();
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", std::string(kHeader) + "1,2026-05-25,,10,a\n").ok());
  for (std::size_t i = 0; i < 2 * ParitySamples::kMax; ++i) world.read({1});
  EXPECT_EQ(all.all().first.size(), ParitySamples::kMax);
  EXPECT_TRUE(all.all().first.empty());
}

}  // namespace
}  // namespace falaj::features
