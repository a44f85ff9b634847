#include "features/push.h"

#include <gtest/gtest.h>

#include <thread>

#include "features/internal/json_rows.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;

std::string row(int customer, const std::string& at, double amount) {
  return R"({"customer_id":)" + std::to_string(customer) + R"(,"at":")" + at + R"(","amount":)" +
         std::to_string(amount) + "}";
}

std::uint64_t commits(FeatureWorld& world) {
  const auto rows = storage::query(*world.sql, "SELECT COUNT(*) FROM feature_commits");
  return static_cast<std::uint64_t>(rows->at(0).integer(0));
}

TEST(Push, an_acknowledged_row_is_visible_and_stays_so) {
  FeatureWorld world;
  world.apply_activity();
  const auto report = world.push("activity", "[" + row(1, "2026-05-20T10:00:00Z", 5) + "," +
                                                 row(2, "2026-05-20 10:00:00", 6) + "]");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows, 2u);
  EXPECT_EQ(report->commit, 1u);
  EXPECT_EQ(world.read({1}).numbers[0], 5.0);
  EXPECT_EQ(world.read({1}).commit, 1u);
  EXPECT_EQ(world.read({1}).statuses[1], kNullValue);
  world.restart();
  EXPECT_EQ(world.read({2}).numbers[0], 6.0);
}

TEST(Push, late_rows_are_kept_but_never_overwrite_newer_ones) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.push("activity", "[" + row(1, "2026-05-20", 5) + "]").ok());
  ASSERT_TRUE(world.push("activity", "[" + row(1, "2026-05-19", 4) + "]").ok());
  EXPECT_EQ(world.read({1}).numbers[0], 5.0);
  // In one push too, and of equal times the later row wins.
  ASSERT_TRUE(world
                  .push("activity", "[" + row(1, "2026-05-22", 8) + "," + row(1, "2026-05-22", 9) +
                                        "," + row(1, "2026-05-21", 7) + "]")
                  .ok());
  EXPECT_EQ(world.read({1}).numbers[0], 9.0);
  world.restart();
  EXPECT_EQ(world.read({1}).numbers[0], 9.0);
  EXPECT_EQ(view_stats(*world.sql, world.online.get(), world.context.project)->at(0).rows, 5u);
}

TEST(Push, is_taken_whole_or_not_at_all) {
  FeatureWorld world;
  world.apply_activity();
  const auto refused = [&](const std::string& rows) {
    const auto report = world.push("activity", rows);
    return report.ok() ? std::string("taken") : report.error().message;
  };
  const std::string good = row(1, "2026-05-20", 5);
  EXPECT_EQ(refused("[" + good + "," + row(2, "2026-05-20", -1) + "]"),
            "push activity: row 2: column \"amount\" is -1, below the least expected, 0");
  EXPECT_EQ(refused("[" + good + R"(,{"customer_id":"2","at":"2026-05-20"}])"),
            "push activity: row 2: column \"customer_id\" is \"2\", which is no int64");
  EXPECT_EQ(refused(R"([{"customer_id":1,"amount":1}])"),
            "push activity: row 1: column \"at\" is empty, but it is the event time");
  EXPECT_EQ(refused(R"([{"customer_id":1,"at":"soon"}])"),
            "push activity: row 1: column \"at\" is \"soon\", which is no timestamp");
  EXPECT_EQ(refused(R"([{"customer_id":1,"at":"2026-05-20","amont":1}])"),
            "push activity: row 1: column \"amont\" is not one of the view; did you mean "
            "\"amount\"?");
  EXPECT_EQ(refused("[]"), "push activity: there is no row to push");
  EXPECT_EQ(refused("[1]"), "push activity: row 1 is no object of column: value");
  EXPECT_EQ(refused("{}"), "push activity: rows must be a list of objects");
  EXPECT_EQ(world.push("nope", "[" + good + "]").error().id, ErrorId::kObjectNotFound);
  EXPECT_EQ(commits(world), 0u);
  EXPECT_EQ(world.read({1}).statuses[0], kNotFound);
}

TEST(Push, rows_reach_what_they_are_for_also_after_a_restart) {
  FeatureWorld world;
  world.apply_activity();
  world.apply("TrainingSet", "set",
              R"({"service":"svc","spine":{"path":"s.csv","time":"at","label":"y"}})");
  ASSERT_TRUE(world.push("activity", "[" + row(1, "2026-05-20", 5) + "]", Reach::kOnline).ok());
  ASSERT_TRUE(world.push("activity", "[" + row(2, "2026-05-20", 6) + "]", Reach::kOffline).ok());
  ASSERT_TRUE(world.push("activity", "[" + row(3, "2026-05-20", 7) + "]", Reach::kBoth).ok());
  for (int starts = 0; starts < 2; ++starts, world.restart()) {
    EXPECT_EQ(world.read({1}).numbers[0], 5.0);
    EXPECT_EQ(world.read({2}).statuses[0], kNotFound);
    EXPECT_EQ(world.read({3}).numbers[0], 7.0);
    EXPECT_EQ(world.read({3}).commit, 3u);
  }
  const TextReader spine("customer_id,at,y\n1,2026-05-21,0\n2,2026-05-21,1\n3,2026-05-21,1\n");
  FreezeOptions options;
  options.spine_file = &spine;
  options.spine_format = table::Format::kCsv;
  const auto frozen = world.training_sets->freeze(world.context, "set", options);
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  const auto file = world.blobs->open(owner_of(*frozen), frozen->data);
  ASSERT_TRUE(file.ok());
  const auto rows = table::read_all(**file, table::Format::kParquet);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  const table::Column& amount = *rows->find("amount");
  EXPECT_TRUE(amount.is_null(0));
  EXPECT_EQ(amount.doubles()[1], 6.0);
  EXPECT_EQ(amount.doubles()[2], 7.0);
}

TEST(Push, those_that_wait_together_become_one_commit_and_keep_their_owners) {
  FeatureWorld world;
  world.apply_activity();
  constexpr int kPushes = 400;
  std::atomic<int> acknowledged{0};
  std::atomic<int> unseen{0};
  for (int i = 0; i < kPushes; ++i) {
    const std::string rows = "[" + row(i, "2026-05-20", i) + "]";
    world.pushes->push(world.context, "activity", {PushedRows::Form::kRows, json(rows)},
                       Reach::kBoth, [&, i](const Result<PushReport>& report) {
                         if (!report.ok() || world.read({i}).numbers[0] != i ||
                             world.read({i}).commit < report->commit) {
                           ++unseen;
                         }
                         ++acknowledged;
                         acknowledged.notify_all();
                       });
  }
  for (int seen = acknowledged; seen < kPushes; seen = acknowledged) acknowledged.wait(seen);
  EXPECT_EQ(unseen, 0);
  EXPECT_LT(commits(world), static_cast<std::uint64_t>(kPushes));
  world.restart();
  for (int i = 0; i < kPushes; ++i) ASSERT_EQ(world.read({i}).numbers[0], i);
}

TEST(Push, a_definition_that_changes_meanwhile_refuses_what_no_longer_fits) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.push("activity", "[" + row(1, "2026-05-20", 5) + "]").ok());
  world.apply_activity("10d");
  ASSERT_TRUE(world.push("activity", "[" + row(1, "2026-05-21", 6) + "]").ok());
  EXPECT_EQ(world.read({1}).numbers[0], 6.0);
}

TEST(JsonRows, columns_are_of_one_length_and_one_value_stands_for_all) {
  const table::Schema schema{{{"id", table::Type::kInt64}, {"x", table::Type::kFloat64}}};
  const auto of = [&](std::string_view text) {
    return batch_of(schema, {PushedRows::Form::kColumns, json(text)});
  };
  const auto batch = of(R"({"id":[1,2.0,null],"x":0.5,"other":["a","b","c"]})");
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_EQ(batch->columns[0].ints()[1], 2);
  EXPECT_TRUE(batch->columns[0].is_null(2));
  EXPECT_EQ(batch->columns[1].doubles()[2], 0.5);
  EXPECT_FALSE(of(R"({"id":[1,2],"x":[1]})").ok());
  EXPECT_FALSE(of(R"({"id":[1.5],"x":[1]})").ok());
  EXPECT_FALSE(of(R"({"id":[1]})").ok());
  EXPECT_FALSE(of(R"({"id":[],"x":[]})").ok());
  EXPECT_FALSE(of("[]").ok());
}

TEST(JsonRows, what_would_come_to_far_more_than_was_sent_is_refused) {
  const auto refused = [](const table::Schema& schema, PushedRows::Form form, Value rows) {
    const auto batch = batch_of(schema, {form, std::move(rows)});
    return batch.ok() ? std::string("taken") : batch.error().message;
  };
  const std::string over = "its rows come to over 64 MiB as a table: split it, or ingest a file";
  const table::Schema two{{{"id", table::Type::kInt64}, {"s", table::Type::kString}}};
  Value columns = Value::object();
  columns["id"] = Value::array();
  for (int i = 0; i < 10'000; ++i) columns["id"].push(i);
  columns["s"] = std::string(6'400, 'x');
  columns["other"] = std::string(1 << 20, 'x');
  EXPECT_EQ(refused(two, PushedRows::Form::kColumns, columns), "taken");
  columns["s"] = std::string(6'800, 'x');
  EXPECT_EQ(refused(two, PushedRows::Form::kColumns, columns), over);
  table::Schema wide;
  for (int i = 0; i < 4'096; ++i) {
    wide.fields.push_back({"f" + std::to_string(i), table::Type::kFloat64});
  }
  Value rows = Value::array();
  for (int i = 0; i < 2'049; ++i) rows.push(Value::object());
  EXPECT_EQ(refused(wide, PushedRows::Form::kRows, std::move(rows)), over);
}

}  // namespace
}  // namespace falaj::features
