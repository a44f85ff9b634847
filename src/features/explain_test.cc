#include "features/explain.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;

constexpr const char* kHeader = "customer_id,at,loaded_at,amount,city\n";

class Explain : public testing::Test {
 protected:
  void SetUp() override {
    world_.apply_activity();
    ASSERT_TRUE(world_
                    .append("activity", std::string(kHeader) + "1,2026-05-20,2026-05-20,5,x\n"
                                                               "1,2026-05-22,2026-05-22,6,\n"
                                                               "2,2026-01-01,,7,y\n")
                    .ok());
    world_.context.principal.id = "service:till";
    ASSERT_TRUE(world_
                    .push("activity",
                          R"([{"customer_id":2,"at":"2026-05-21","amount":1},)"
                          R"({"customer_id":1,"at":"2026-05-21","amount":8,"city":"z"}])")
                    .ok());
  }
  Explanation explain(std::int64_t customer, std::optional<Timestamp> at = std::nullopt,
                      std::optional<std::uint64_t> commit = std::nullopt) {
    const Explainer explainer(*world_.sql, *world_.blobs, world_.audit, world_.clock);
    const auto found = explainer.explain(world_.context.project, "activity",
                                         {{"customer_id", customer}}, {at, commit});
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? *found : Explanation{};
  }
  FeatureWorld world_;
};

TEST_F(Explain, names_the_row_that_is_online) {
  const Explanation one = explain(1);
  EXPECT_EQ(one.status, kPresent);
  EXPECT_EQ(one.candidates, 3u);
  EXPECT_EQ(to_rfc3339(one.event), "2026-05-22T00:00:00Z");
  EXPECT_EQ(to_rfc3339(one.created.value()), "2026-05-22T00:00:00Z");
  EXPECT_EQ(one.commit, 1u);
  EXPECT_EQ(one.row, 1u);
  EXPECT_EQ(one.action, "features.ingest");
  EXPECT_EQ(one.actor, "user:test");
  EXPECT_EQ(one.features["amount"].as_double(), 6.0);
  EXPECT_TRUE(one.features["city"].is_null());
  EXPECT_EQ(one.ttl_margin, one.event + Duration::days(30) - world_.clock.now());
  EXPECT_EQ(world_.read({1}).numbers[0], 6.0) << "and that is what is read";
}

TEST_F(Explain, names_the_file_and_the_row_in_it_where_that_is_known) {
  EXPECT_EQ(explain(1).file, "") << "nobody said";
  EXPECT_EQ(explain(1).file_row, std::nullopt);
  const auto append = [&](const std::string& rows) {
    const TextReader bytes("customer_id,at,loaded_at,amount,city\n" + rows);
    const auto report = world_.ingest->append(world_.context, "activity",
                                              {bytes, table::Format::kCsv, {}, "late.csv"});
    EXPECT_TRUE(report.ok()) << report.error().message;
  };
  append("7,2026-05-23,,1,a\n8,2026-05-23,,2,b\n");
  EXPECT_EQ(explain(8).file, "late.csv");
  EXPECT_EQ(explain(8).file_row, 2u);
  EXPECT_EQ(to_value(explain(8))["file"].as_string(), "late.csv");
  append("9,2026-05-23,,-1,a\n9,2026-05-23,,2,b\n");  // The first is below its minimum.
  EXPECT_EQ(explain(9).file, "late.csv");
  EXPECT_EQ(explain(9).file_row, std::nullopt);
}

TEST_F(Explain, at_a_time_follows_the_join_and_names_who_pushed) {
  const auto day = [](int number) {
    return parse_timestamp("2026-05-" + std::to_string(number)).value();
  };
  EXPECT_EQ(explain(1, day(20)).features["amount"].as_double(), 5.0);
  const Explanation pushed = explain(1, day(21));
  EXPECT_EQ(pushed.features["amount"].as_double(), 8.0);
  EXPECT_EQ(pushed.commit, 2u);
  EXPECT_EQ(pushed.row, 1u);
  EXPECT_EQ(pushed.action, "features.push");
  EXPECT_EQ(pushed.actor, "service:till");
  EXPECT_FALSE(pushed.created.has_value());
  EXPECT_EQ(explain(1, day(19)).status, kNotFound);
  EXPECT_EQ(explain(2, day(20)).status, kOutsideMaxAge);
  EXPECT_EQ(explain(9).status, kNotFound);
  EXPECT_EQ(explain(9).candidates, 0u);
}

TEST_F(Explain, at_a_commit_it_is_what_was_read_then) {
  ASSERT_TRUE(
      world_.push("activity", R"([{"customer_id":1,"at":"2026-05-23","amount":9}])", Reach::kOnline)
          .ok());
  const Timestamp now = world_.clock.now();
  EXPECT_EQ(explain(2, now, 1).status, kOutsideMaxAge);
  EXPECT_EQ(explain(2, now, 2).features["amount"].as_double(), 1.0);
  EXPECT_EQ(explain(1, now, 2).features["amount"].as_double(), 6.0);
  EXPECT_EQ(explain(1, now, 3).features["amount"].as_double(), 9.0);
  EXPECT_EQ(explain(1, now).features["amount"].as_double(), 6.0) << "it is not for training";
}

TEST_F(Explain, at_a_commit_a_row_whose_event_was_to_come_is_what_was_read) {
  ASSERT_TRUE(world_.push("activity", R"([{"customer_id":1,"at":"2026-07-01","amount":9}])").ok());
  const Timestamp now = world_.clock.now();
  ASSERT_EQ(world_.read({1}).numbers[0], 9.0);
  EXPECT_EQ(explain(1, now, 3).features["amount"].as_double(), 9.0);
  EXPECT_EQ(explain(1, now, 2).features["amount"].as_double(), 6.0);
  EXPECT_EQ(explain(1, now).features["amount"].as_double(), 6.0) << "the join leaves it out";
}

TEST_F(Explain, a_row_of_another_century_is_too_old) {
  ASSERT_TRUE(world_.push("activity", R"([{"customer_id":3,"at":"1700-01-01","amount":9}])").ok());
  ASSERT_EQ(world_.read({3}).statuses[0], kOutsideMaxAge);
  const Explanation old = explain(3);
  EXPECT_EQ(old.status, kOutsideMaxAge);
  EXPECT_LT(old.ttl_margin.value(), Duration{});
}

TEST_F(Explain, who_brought_a_row_is_found_however_much_came_after_it) {
  const Status many = world_.sql->write([&](storage::SqlTransaction& tx) -> Status {
    Value detail;
    detail["commit"] = 3;
    detail["rows"] = 1;
    for (int i = 0; i < 10'500; ++i) {
      FALAJ_TRY(world_.audit.append(tx, world_.context,
                                    {"features.push", "FeatureView/pay/activity", detail}));
    }
    return {};
  });
  ASSERT_TRUE(many.ok()) << many.error().message;
  EXPECT_EQ(explain(1).action, "features.ingest");
  EXPECT_EQ(explain(1).actor, "user:test");
  EXPECT_EQ(explain(2).actor, "service:till");
}

TEST_F(Explain, refuses_a_key_that_is_none) {
  const Explainer explainer(*world_.sql, *world_.blobs, world_.audit, world_.clock);
  const auto& project = world_.context.project;
  EXPECT_EQ(explainer.explain(project, "activity", {{"customer_id", "1"}}, {}).error().id,
            ErrorId::kWrongType);
  EXPECT_EQ(explainer.explain(project, "activity", {{"id", 1}}, {}).error().id,
            ErrorId::kEntityKeyMissing);
  EXPECT_EQ(explainer.explain(project, "nope", {{"customer_id", 1}}, {}).error().id,
            ErrorId::kObjectNotFound);
}

}  // namespace
}  // namespace falaj::features
