// Features over windows, from the declaration to a frozen row and an online read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "features/definitions.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;
using table::Type;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kView = R"j({"entity":"customer","source":"tx","ttl":"1h","features":[
    {"name":"amount","type":"float64"},{"name":"city","type":"string"},
    {"name":"count_2h","type":"int64","aggregate":{"count":"*","window":"2h"}},
    {"name":"sum_1d","type":"float64","aggregate":{"sum":"amount","window":"1d"}},
    {"name":"cities_1d","type":"int64","aggregate":{"distinct":"city","window":"1d"}},
    {"name":"ratio","type":"float64","expr":"amount / coalesce(sum_1d, 1.0)"}]})j";

class WindowFeatures : public testing::Test {
 protected:
  WindowFeatures() {
    world_.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    world_.apply("Source", "tx",
                 R"({"format":"csv","event_time":"at","created_time":"loaded_at"})");
    world_.apply("FeatureView", "activity", kView);
    world_.apply("FeatureService", "svc",
                 R"({"features":[{"activity":["count_2h","sum_1d","cities_1d"]}]})");
    world_.apply("FeatureService", "all", R"({"features":["activity"]})");
    world_.apply("TrainingSet", "set",
                 R"({"service":"all","spine":{"path":"l.csv","time":"at","label":"y"}})");
    world_.clock.set(parse_timestamp("2026-05-02T12:00:00Z").value());
  }

  void push(const std::string& rows) {
    const auto report = world_.push("activity", rows);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }

  static std::string row(int customer, const std::string& at, const std::string& amount,
                         const std::string& city = "Dubai") {
    return R"({"customer_id":)" + std::to_string(customer) + R"(,"at":"2026-05-)" + at +
           R"(Z","amount":)" + amount + R"(,"city":")" + city + R"("})";
  }

  std::vector<double> numbers(std::int64_t customer, const std::string& service = "svc") {
    return world_.read({customer}, service).numbers;
  }

  Result<table::Batch> freeze(const std::string& spine) {
    FreezeOptions options;
    const TextReader file{spine};
    options.spine_file = &file;
    options.spine_format = table::Format::kCsv;
    const auto manifest = world_.training_sets->freeze(world_.context, "set", options);
    if (!manifest.ok()) return manifest.error();
    leakage_ = manifest->leakage;
    const auto bytes = world_.blobs->open(owner_of(*manifest), manifest->data);
    return table::read_all(**bytes, table::Format::kParquet);
  }

  FeatureWorld world_;
  std::vector<Leakage> leakage_;
};

TEST_F(WindowFeatures, are_read_online_as_rows_come) {
  EXPECT_EQ(world_.read({std::int64_t{1}}).statuses,
            (std::vector{kPresent, kNullValue, kPresent}));  // 0, nothing, 0.
  EXPECT_EQ(numbers(1)[0], 0);
  push("[" + row(1, "02T10:00:00", "5") + "," + row(1, "02T10:00:01", "7", "Abu Dhabi") + "]");
  EXPECT_THAT(numbers(1), ElementsAre(1, 12, 2));  // 10:00 is behind by two hours: just outside.
  push("[" + row(1, "01T13:00:00", "100") + "]");  // Late.
  EXPECT_THAT(numbers(1), ElementsAre(1, 112, 2));
  push("[" + row(1, "02T10:00:01", "8", "Abu Dhabi") + "]");  // A correction.
  EXPECT_THAT(numbers(1), ElementsAre(1, 113, 2));
  push("[" + row(1, "02T12:00:01", "1000") + "]");  // Of the future.
  EXPECT_THAT(numbers(1), ElementsAre(1, 113, 2));
  world_.clock.advance(Duration::seconds(1));
  EXPECT_THAT(numbers(1), ElementsAre(1, 1113, 2));  // 12:00:01 came, 10:00:01 went.
  EXPECT_THAT(numbers(2), ElementsAre(0, testing::IsNan(), 0));
}

TEST_F(WindowFeatures, survive_a_restart_and_a_new_declaration) {
  push("[" + row(1, "02T11:00:00", "5") + "," + row(1, "02T11:30:00", "7") + "]");
  ASSERT_TRUE(world_
                  .append("activity",
                          "customer_id,at,loaded_at,amount,city\n"
                          "1,2026-05-02T11:45:00Z,,1.5,Dubai\n")
                  .ok());
  world_.restart();
  EXPECT_THAT(numbers(1), ElementsAre(3, 13.5, 1));
  push("[" + row(1, "02T11:30:00", "8") + "]");
  world_.restart();
  EXPECT_THAT(numbers(1), ElementsAre(3, 14.5, 1));
  // Another window over what came before.
  world_.apply(
      "FeatureView", "activity",
      R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64"},)"
      R"({"name":"city","type":"string"},{"name":"sum_20m","type":"float64",)"
      R"("aggregate":{"sum":"amount","window":"20m"}}]})");
  world_.apply("FeatureService", "svc", R"({"features":[{"activity":["sum_20m"]}]})");
  EXPECT_THAT(numbers(1), ElementsAre(1.5));
}

TEST_F(WindowFeatures, a_frozen_row_has_what_was_read) {
  push("[" + row(1, "02T11:00:00", "5") + "," + row(1, "02T11:30:00", "7", "Ajman") + "," +
       row(2, "01T20:00:00", "9") + "]");
  const auto frozen = freeze(
      "customer_id,at,y\n1,2026-05-02T12:00:00Z,1\n2,2026-05-02T12:00:00Z,0\n"
      "3,2026-05-02T12:00:00Z,0\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  for (std::size_t i = 0; i < 3; ++i) {
    const OnlineRow read = world_.read({static_cast<std::int64_t>(i + 1)}, "all");
    const char* names[] = {"amount", "city", "count_2h", "sum_1d", "cities_1d", "ratio"};
    for (std::size_t c = 0; c < 6; ++c) {
      const table::Column& column = *frozen->find(names[c]);
      EXPECT_EQ(column.is_null(i), read.statuses[c] != kPresent) << names[c] << " of " << i + 1;
      if (column.is_null(i) || column.type() == Type::kString) continue;
      EXPECT_EQ(column.number_at(i), read.numbers[c]) << names[c] << " of " << i + 1;
    }
  }
  // The newest row of the second is too old for the ttl; its window is not.
  EXPECT_TRUE(frozen->find("amount")->is_null(1));
  EXPECT_EQ(frozen->find("sum_1d")->doubles()[1], 9);
  EXPECT_EQ(frozen->find("ratio")->doubles()[0], 7.0 / 12);
}

TEST_F(WindowFeatures, an_old_segment_counts_where_a_window_reaches_it) {
  push("[" + row(1, "02T01:00:00", "5") + "]");  // Older than the ttl of an hour.
  push("[" + row(1, "02T11:59:00", "6") + "]");
  const auto frozen = freeze("customer_id,at,y\n1,2026-05-02T12:00:00Z,1\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  EXPECT_EQ(frozen->find("sum_1d")->doubles()[0], 11);
}

TEST_F(WindowFeatures, the_leakage_certificate_sees_late_events_in_a_window) {
  push(R"([{"customer_id":1,"at":"2026-05-02T09:00:00Z","loaded_at":"2026-05-02T12:30:00Z",)"
       R"("amount":5,"city":"Dubai"}])");
  push("[" + row(1, "02T11:59:00", "6") + "]");  // Available at once, and the newest.
  const auto frozen = freeze("customer_id,at,y\n1,2026-05-02T12:00:00Z,1\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  ASSERT_EQ(leakage_.size(), 1u);
  EXPECT_EQ(leakage_[0].created_later, 1u);
}

TEST_F(WindowFeatures, past_the_bound_on_events_a_window_is_null_and_never_less) {
  world_.apply("FeatureView", "activity",
               R"({"entity":"customer","source":"tx","events_max":3,"features":[)"
               R"({"name":"amount","type":"float64"},{"name":"city","type":"string"},)"
               R"({"name":"s30","type":"float64","aggregate":{"sum":"amount","window":"30m"}},)"
               R"({"name":"s1d","type":"float64","aggregate":{"sum":"amount","window":"1d"}}]})");
  world_.apply("FeatureService", "svc", R"({"features":[{"activity":["s30","s1d"]}]})");
  push("[" + row(1, "02T10:00:00", "1") + "," + row(1, "02T11:40:00", "2") + "," +
       row(1, "02T11:50:00", "3") + "]");
  EXPECT_THAT(numbers(1), ElementsAre(5, 6));
  push("[" + row(1, "02T11:59:00", "4") + "]");
  EXPECT_THAT(numbers(1), ElementsAre(9, testing::IsNan()));
  world_.restart();
  EXPECT_THAT(numbers(1), ElementsAre(9, testing::IsNan()));
  world_.clock.advance(Duration::hours(22));  // 10:00 leaves the day.
  EXPECT_THAT(numbers(1), ElementsAre(testing::IsNan(), 9));
}

TEST_F(WindowFeatures, corrections_do_not_count_against_the_bound) {
  world_.apply("FeatureView", "activity",
               R"({"entity":"customer","source":"tx","events_max":2,"features":[)"
               R"({"name":"amount","type":"float64"},{"name":"city","type":"string"},)"
               R"({"name":"s1d","type":"float64","aggregate":{"sum":"amount","window":"1d"}}]})");
  world_.apply("FeatureService", "svc", R"({"features":[{"activity":["s1d"]}]})");
  push("[" + row(1, "02T10:00:00", "1") + "]");
  for (int i = 0; i < 6; ++i) push("[" + row(1, "02T11:00:00", std::to_string(10 + i)) + "]");
  world_.restart();
  EXPECT_THAT(numbers(1), ElementsAre(16));
}

TEST_F(WindowFeatures, a_read_of_a_time_long_gone_is_null) {
  push("[" + row(1, "02T11:00:00", "5") + "]");
  const auto plan = world_.online->plan(world_.context.project, "svc");
  ASSERT_TRUE(plan.ok());
  OnlineRow out;
  const std::vector<KeyPart> keys{std::int64_t{1}};
  world_.online->read(**plan, keys, world_.clock.now() - Duration::days(3), out);
  EXPECT_THAT(out.statuses, ElementsAre(kNullValue, kNullValue, kNullValue));
}

TEST_F(WindowFeatures, a_commit_of_old_rows_only_changes_no_window) {
  push("[" + row(1, "02T11:00:00", "5") + "]");
  ASSERT_TRUE(world_
                  .append("activity",
                          "customer_id,at,loaded_at,amount,city\n"
                          "1,2025-01-02T11:45:00Z,,1.5,Dubai\n3,2025-01-02,,1,Dubai\n")
                  .ok());
  EXPECT_THAT(numbers(1), ElementsAre(1, 5, 1));
  EXPECT_THAT(numbers(3), ElementsAre(0, testing::IsNan(), 0));
  world_.restart();
  EXPECT_THAT(numbers(1), ElementsAre(1, 5, 1));
}

TEST_F(WindowFeatures, erasing_a_customer_empties_the_windows) {
  push("[" + row(1, "02T11:00:00", "5") + "," + row(2, "02T11:00:00", "6") + "]");
  FeatureView view;
  Entity entity;
  ASSERT_TRUE(world_.sql
                  ->read([&](storage::SqlTransaction& tx) -> Status {
                    view = FALAJ_TRY(decode_feature_view(
                        FALAJ_TRY(storage::get_object(tx, "FeatureView", "pay", "activity"))));
                    entity = FALAJ_TRY(decode_entity(
                        FALAJ_TRY(storage::get_object(tx, "Entity", "pay", "customer"))));
                    return {};
                  })
                  .ok());
  ASSERT_TRUE(
      world_.online->erase(world_.context.project, view, entity, {encode_key({std::int64_t{1}})})
          .ok());
  EXPECT_THAT(numbers(1), ElementsAre(0, testing::IsNan(), 0));
  EXPECT_THAT(numbers(2), ElementsAre(1, 6, 1));
}

TEST_F(WindowFeatures, offline_rows_are_not_read_online) {
  const std::string rows = "[" + row(1, "02T11:00:00", "5") + "]";
  ASSERT_TRUE(world_.push("activity", rows, Reach::kOffline).ok());
  EXPECT_THAT(numbers(1), ElementsAre(0, testing::IsNan(), 0));
  const auto frozen = freeze("customer_id,at,y\n1,2026-05-02T12:00:00Z,1\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  EXPECT_EQ(frozen->find("sum_1d")->doubles()[0], 5);
}

std::string refused(const std::string& feature, const std::string& more = "") {
  storage::Object object;
  object.kind = "FeatureView";
  object.project = "pay";
  object.name = "v";
  object.spec = json(R"({"entity":"e","source":"s",)" + more +
                     R"("features":[{"name":"amount","type":"float64"},)"
                     R"({"name":"city","type":"string"},)" +
                     feature + "]}");
  const auto view = decode_feature_view(object);
  return view.ok() ? "" : view.error().message;
}

std::string aggregate(const std::string& what, const std::string& type = "float64") {
  return refused(R"({"name":"a","type":")" + type + R"(","aggregate":)" + what + "}");
}

TEST(WindowDeclarations, are_taken_or_refused_with_a_reason) {
  EXPECT_EQ(aggregate(R"({"sum":"amount","window":"7d"})"), "");
  EXPECT_EQ(aggregate(R"({"count":"*","window":"7d"})", "int64"), "");
  EXPECT_EQ(aggregate(R"({"last":"city","window":"7d"})", "string"), "");
  EXPECT_EQ(aggregate(R"({"quantile":"amount","q":0.5,"window":"7d"})"), "");
  EXPECT_THAT(aggregate(R"({"sum":"amount","window":"0s"})"), HasSubstr("above 0"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","window":"-1d"})"), HasSubstr("window"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","window":7})"), HasSubstr("window"));
  EXPECT_THAT(aggregate(R"({"sum":"amount"})"), HasSubstr("needs a 'window'"));
  EXPECT_THAT(aggregate(R"({"avg":"amount","window":"7d"})"), HasSubstr("one of count, sum, mean"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","min":"amount","window":"7d"})"),
              HasSubstr("one function"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","window":"7d","slide":"1h"})"), HasSubstr("slide"));
  EXPECT_THAT(aggregate(R"({"sum":"amounts","window":"7d"})"),
              HasSubstr("they bring amount, city"));
  EXPECT_THAT(aggregate(R"({"sum":"*","window":"7d"})"), HasSubstr("only count"));
  EXPECT_THAT(aggregate(R"({"sum":"city","window":"7d"})"), HasSubstr("take a number"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","window":"7d"})", "int64"),
              HasSubstr("declared as int64, but sum of \"amount\" is float64"));
  EXPECT_THAT(aggregate(R"({"quantile":"amount","window":"7d"})"), HasSubstr("needs 'q'"));
  EXPECT_THAT(aggregate(R"({"quantile":"amount","q":1.5,"window":"7d"})"), HasSubstr("0 to 1"));
  EXPECT_THAT(aggregate(R"({"sum":"amount","q":0.5,"window":"7d"})"), HasSubstr("q"));
  EXPECT_THAT(aggregate(R"("sum")"), HasSubstr("{sum: amount, window: 7d}"));
  const std::string good = R"({"name":"a","type":"int64","aggregate":{"count":"*","window":"7d"}})";
  EXPECT_EQ(refused(good, R"("event_id":"city",)"), "");
  EXPECT_THAT(refused(good, R"("event_id":"amount",)"), HasSubstr("int64 or string"));
  EXPECT_THAT(refused(good, R"("event_id":"nothing",)"), HasSubstr("they bring"));
  EXPECT_THAT(refused(good, R"("events_max":0,)"), HasSubstr("events_max"));
  EXPECT_THAT(
      refused(R"({"name":"amount","type":"int64","aggregate":{"count":"*","window":"1d"}})"),
      HasSubstr("named twice"));
}

}  // namespace
}  // namespace falaj::features
