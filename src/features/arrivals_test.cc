#include "features/arrivals.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

TEST(Arrivals, a_view_is_stale_past_its_freshness_and_not_before_it_was_declared_so_long) {
  const Arrival expected{Duration::hours(2), 0, {}};
  const auto stale = [&](Duration age, Duration declared) {
    return judge_arrival(expected, {kNow - declared, kNow - age, 0}, kNow).stale;
  };
  EXPECT_FALSE(stale(Duration::hours(2), Duration::days(1))) << "the bound is fresh";
  EXPECT_TRUE(stale(Duration::hours(2) + Duration::nanoseconds(1), Duration::days(1)));
  EXPECT_FALSE(stale(Duration::days(9), Duration::hours(1)));
  EXPECT_TRUE(judge_arrival(expected, {kNow - Duration::days(1), {}, 0}, kNow).stale)
      << "no row ever came";
  EXPECT_FALSE(judge_arrival({}, {kNow - Duration::days(1), {}, 0}, kNow).stale);
}

TEST(Arrivals, too_few_rows_in_the_span_before_now_are_told) {
  const Arrival expected{{}, 10, Duration::days(1)};
  EXPECT_TRUE(judge_arrival(expected, {kNow - Duration::days(2), kNow, 9}, kNow).few);
  EXPECT_FALSE(judge_arrival(expected, {kNow - Duration::days(2), kNow, 10}, kNow).few);
  EXPECT_FALSE(judge_arrival(expected, {kNow - Duration::hours(2), kNow, 0}, kNow).few);
}

class ArrivalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        world.sql
            ->migrate({storage::kObjectsMigration, security::kAuditMigration, kFeaturesMigration,
                       kReachMigration, kErasureMigration, kProfilesMigration, kArrivalsMigration})
            .ok());
    world.apply_activity();
    world.apply("FeatureView", "activity",
                R"({"entity":"customer","source":"tx","freshness":"2h",)"
                R"("volume":{"rows_min":2,"every":"1d"},)"
                R"("features":[{"name":"amount","type":"float64"}]})");
  }
  void tick() {
    const Status done = tick_arrivals({*world.sql, world.audit, world.metrics, world.clock});
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  std::size_t entries(const std::string& action) {
    security::AuditQuery query;
    query.action = action;
    return world.audit.list(query)->size();
  }
  void append(std::size_t rows) {
    std::string csv = "customer_id,at,loaded_at,amount\n";
    for (std::size_t i = 0; i < rows; ++i) {
      csv += "1," + to_rfc3339(world.clock.now()) + ",," + std::to_string(i) + "\n";
    }
    ASSERT_TRUE(world.append("activity", csv).ok());
  }
  FeatureWorld world;
};

TEST_F(ArrivalsTest, each_beginning_and_end_is_told_once) {
  tick();
  EXPECT_EQ(entries("features.alarm"), 0u) << "it was declared just now";
  world.clock.advance(Duration::hours(3));
  tick();
  tick();
  EXPECT_EQ(entries("features.alarm"), 1u) << "stale";
  world.clock.advance(Duration::days(1));
  tick();
  EXPECT_EQ(entries("features.alarm"), 2u) << "too few as well";
  append(1);
  tick();
  EXPECT_EQ(entries("features.alarm_end"), 1u) << "fresh again, one row is still too few";
  append(1);
  tick();
  EXPECT_EQ(entries("features.alarm_end"), 2u);
  const auto now = read_arrivals(*world.sql, world.context.project, world.clock.now()).value();
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now[0].state.rows, 2u);
  EXPECT_FALSE(now[0].state.stale || now[0].state.few);
  EXPECT_EQ(to_value(now[0]).number("freshness_seconds"), 7200);
}

TEST_F(ArrivalsTest, a_view_that_expects_nothing_any_more_has_no_alarm) {
  world.clock.advance(Duration::hours(3));
  tick();
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx",)"
              R"("features":[{"name":"amount","type":"float64"}]})");
  tick();
  EXPECT_EQ(
      storage::query(*world.sql, "SELECT count(*) FROM feature_arrivals").value().at(0).integer(0),
      0);
  EXPECT_TRUE(read_arrivals(*world.sql, world.context.project, world.clock.now())->empty());
}

}  // namespace
}  // namespace falaj::features
