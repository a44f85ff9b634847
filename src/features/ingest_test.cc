#include "features/ingest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "features/internal/segment_file.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using testing::HasSubstr;

TEST(Ingest, accepts_good_rows_and_quarantines_each_bad_one_with_its_line) {
  FeatureWorld world;
  world.apply_activity();
  const auto report = world.append("activity",
                                   "customer_id,at,loaded_at,amount,city\n"
                                   "1,2026-01-01,2026-01-02,10.5,Dubai\n"
                                   "2,2026-01-01,2026-01-02,oops,Dubai\n"
                                   ",2026-01-01,2026-01-02,1,Dubai\n"
                                   "3,,2026-01-02,1,Dubai\n"
                                   "4,2026-01-01,2026-01-02,-1,\"a \"\"b\"\"\"\n"
                                   "5,2026-01-01,,,\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_read, 6u);
  EXPECT_EQ(report->rows_accepted, 2u);
  EXPECT_EQ(report->rows_quarantined, 4u);
  EXPECT_EQ(report->commit, 1u);
  EXPECT_EQ(report->online_newer, 2u);
  ASSERT_EQ(report->examples.size(), 4u);
  std::map<std::uint64_t, std::string> reasons;
  for (const QuarantinedRow& row : report->examples) reasons[row.line] = row.reason;
  EXPECT_THAT(reasons[3], HasSubstr("\"amount\": \"oops\" is not a valid float64"));
  EXPECT_THAT(reasons[4], HasSubstr("\"customer_id\" is empty, but it is part of the key"));
  EXPECT_THAT(reasons[5], HasSubstr("\"at\" is empty"));
  EXPECT_THAT(reasons[6], HasSubstr("\"amount\" is -1, below the least expected, 0"));
  const std::string file =
      world.blobs->get(world.owner_of_view("activity"), report->quarantine).value();
  EXPECT_THAT(file, testing::StartsWith("line,reason,raw\n"));
  EXPECT_THAT(file, HasSubstr("\"2,2026-01-01,2026-01-02,oops,Dubai\""));
  EXPECT_THAT(file, HasSubstr("-1,a \"\"b\"\""));
}

TEST(Ingest, pushes_go_on_while_a_file_is_read) {
  FeatureWorld world;
  world.apply_activity();
  std::promise<Result<PushReport>> pushed;
  std::future<Result<PushReport>> report = pushed.get_future();
  bool in_time = false;
  const auto push = [&](std::uint64_t) {
    if (in_time) return;
    world.pushes->push(
        world.context, "activity",
        {PushedRows::Form::kRows, json(R"([{"customer_id":1,"at":"2026-05-20","amount":5}])")},
        Reach::kBoth, [&](Result<PushReport> done) { pushed.set_value(std::move(done)); });
    in_time = report.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  };
  const auto ingested =
      world.ingest->append(world.context, "activity",
                           {TextReader("customer_id,at,loaded_at,amount,city\n1,2026-05-21,,6,x\n"),
                            table::Format::kCsv, push});
  ASSERT_TRUE(ingested.ok()) << ingested.error().message;
  EXPECT_TRUE(in_time) << "it waited for the file";
  EXPECT_EQ(report.get()->commit, 1u);
  EXPECT_EQ(ingested->commit, 2u);
  EXPECT_EQ(world.read({1}).numbers[0], 6.0);
}

TEST(Ingest, segments_are_sorted_and_the_same_file_gives_the_same_bytes) {
  FeatureWorld world;
  world.apply_activity();
  const char* csv =
      "customer_id,at,loaded_at,amount,city\n"
      "2,2026-01-03,,1,a\n-7,2026-01-03,,2,b\n2,2026-01-01,,3,c\n2,2026-01-03,,4,d\n";
  const auto first = world.append("activity", csv);
  const auto second = world.append("activity", csv);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(second->duplicate_of, 1u);
  EXPECT_EQ(second->commit, 2u);
  auto bytes = world.blobs->open(world.owner_of_view("activity"), first->segments.at(0));
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const auto file = SegmentFile::open(std::move(bytes).value());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto rows = file->read(file->schema());
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_EQ(rows->find("customer_id")->ints(), (std::vector<std::int64_t>{-7, 2, 2, 2}));
  EXPECT_EQ(rows->find("amount")->doubles(), (std::vector<double>{2, 3, 1, 4}));
  EXPECT_EQ(rows->find("__row")->ints(), (std::vector<std::int64_t>{1, 2, 0, 3}));
}

TEST(Ingest, when_no_row_is_accepted_the_quarantine_is_kept_and_nothing_is_committed) {
  FeatureWorld world;
  world.apply_activity();
  const auto report =
      world.append("activity", "customer_id,at,loaded_at,amount,city\nx,2026-01-01,,1,a\n");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().id, ErrorId::kAllRowsRejected);
  const auto stats = view_stats(*world.sql, world.online.get(), world.context.project);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->at(0).rows, 0u);
  EXPECT_EQ(stats->at(0).quarantined, 1u);
  // The message ends in the id under which it can be fetched.
  const std::string id = report.error().message.substr(report.error().message.size() - 64);
  EXPECT_TRUE(world.blobs->get(world.owner_of_view("activity"), BlobId(id)).ok());
  EXPECT_EQ(world.audit.head()->sequence, 1);
}

TEST(Ingest, an_empty_file_is_refused) {
  FeatureWorld world;
  world.apply_activity();
  const auto report = world.append("activity", "customer_id,at,loaded_at,amount,city\n");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().id, ErrorId::kAllRowsRejected);
}

TEST(Ingest, too_many_nulls_commit_nothing) {
  FeatureWorld world;
  world.apply_activity();
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"amount","type":"float64","expect":{"nulls_max":"50%"}}]})");
  const auto half = world.append("activity",
                                 "customer_id,at,loaded_at,amount\n1,2026-01-01,,\n"
                                 "2,2026-01-01,,1\n");
  EXPECT_TRUE(half.ok());
  const auto most = world.append("activity",
                                 "customer_id,at,loaded_at,amount\n1,2026-01-01,,\n"
                                 "2,2026-01-01,,nan\n3,2026-01-01,,1\n");
  ASSERT_FALSE(most.ok());
  EXPECT_EQ(most.error().id, ErrorId::kSchemaMismatch);
  EXPECT_THAT(most.error().message, HasSubstr("2 of 3"));
  EXPECT_EQ(view_stats(*world.sql, world.online.get(), world.context.project)->at(0).rows, 2u);
}

// customer → activity with expectations in the language of expressions.
void apply_expecting(FeatureWorld& world, const std::string& expect) {
  world.apply_activity();
  world.apply(
      "FeatureView", "activity",
      R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64"},)"
      R"({"name":"city","type":"string"}],"expect":[)" +
          expect + "]}");
}
constexpr const char* kFourRows =
    "customer_id,at,loaded_at,amount,city\n"
    "1,2026-01-01,2026-01-02,10.5,Dubai\n"
    "2,2026-01-01,2026-01-02,-4,Dubai\n"
    "3,2026-01-03,2026-01-02,1,\n"
    "4,2026-01-01,,,Doha\n";

TEST(Ingest, rows_that_break_an_expectation_are_quarantined_with_it) {
  FeatureWorld world;
  apply_expecting(world, R"j({"name":"loaded later","expr":"loaded_at >= row_time()"},)j"
                         R"({"expr":"amount >= 0 or city == 'Doha'"})");
  const auto report = world.append("activity", kFourRows);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 2u);  // Null is no break: row 4 comes in.
  ASSERT_EQ(report->examples.size(), 2u);
  EXPECT_EQ(report->examples[0].line, 3u);
  EXPECT_EQ(report->examples[0].reason,
            "the row breaks the expectation amount >= 0 or city == 'Doha'");
  EXPECT_EQ(report->examples[1].reason,
            "the row breaks the expectation \"loaded later\", loaded_at >= row_time()");
  EXPECT_TRUE(report->warnings.empty());
}

TEST(Ingest, a_row_like_one_before_it_breaks_uniqueness) {
  FeatureWorld world;
  apply_expecting(world, R"({"unique":["customer_id","at"]})");
  const std::string header = "customer_id,at,loaded_at,amount,city\n";
  const auto report =
      world.append("activity", header +
                                   "1,2026-01-01,,1,a\n1,2026-01-02,,1,a\n"
                                   "1,2026-01-01T00:00:00Z,,2,b\n2,2026-01-01,,1,a\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 3u);
  ASSERT_EQ(report->examples.size(), 1u);
  EXPECT_EQ(report->examples[0].line, 4u);
  EXPECT_EQ(
      report->examples[0].reason,
      "the row breaks the expectation \"unique customer_id, at\": a row before it has the same "
      "values");
  // Another file is another matter; nulls are like nothing.
  EXPECT_EQ(world.append("activity", header + "1,2026-01-01,,1,a\n")->rows_quarantined, 0u);
  apply_expecting(world, R"({"unique":["city"],"name":"one each","severity":"warn"})");
  const auto nulls = world.append("activity", header +
                                                  "1,2026-01-01,,1,\n2,2026-01-01,,1,\n"
                                                  "3,2026-01-01,,1,a\n4,2026-01-01,,1,a\n");
  ASSERT_TRUE(nulls.ok());
  EXPECT_EQ(nulls->rows_accepted, 4u);
  ASSERT_EQ(nulls->warnings.size(), 1u);
  EXPECT_EQ(nulls->warnings[0].expectation, "one each");
  EXPECT_EQ(nulls->warnings[0].rows, 1u);
}

TEST(Ingest, a_push_with_the_same_row_twice_breaks_uniqueness) {
  FeatureWorld world;
  apply_expecting(world, R"({"unique":["city","amount"]})");
  const auto twice =
      world.push("activity", R"([{"customer_id":1,"at":"2026-01-01","amount":0.0,"city":"x"},)"
                             R"({"customer_id":2,"at":"2026-01-01","amount":-0.0,"city":"x"}])");
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().message, HasSubstr("unique city, amount"));
}

TEST(Ingest, a_warning_lets_rows_in_and_counts_them) {
  FeatureWorld world;
  apply_expecting(world, R"({"name":"known city","expr":"city is not null","severity":"warn"},)"
                         R"({"expr":"amount > -100","severity":"warn"})");
  const auto report = world.append("activity", kFourRows);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 4u);
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_EQ(report->warnings[0].expectation, "known city");
  EXPECT_EQ(report->warnings[0].rows, 1u);
  EXPECT_EQ(report->warnings[0].first_line, 4u);
  const Value shown = to_value(*report);
  EXPECT_EQ(shown["warnings"].as_array().at(0).text("expectation"), "known city");
}

TEST(Ingest, a_features_own_expectation_may_warn_too) {
  FeatureWorld world;
  world.apply_activity();
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64",)"
              R"("expect":{"min":0,"severity":"warn"}},{"name":"city","type":"string",)"
              R"("expect":{"nulls_max":"10%","severity":"warn"}}]})");
  const auto report = world.append("activity", kFourRows);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 4u);
  ASSERT_EQ(report->warnings.size(), 2u);
  EXPECT_EQ(report->warnings[0].first_line, 3u);
  EXPECT_THAT(report->warnings[0].expectation, HasSubstr("\"amount\" is -4, below"));
  EXPECT_THAT(report->warnings[1].expectation, HasSubstr("\"city\" is empty in 25%"));
}

TEST(Ingest, too_many_broken_rows_commit_nothing) {
  FeatureWorld world;
  apply_expecting(world, R"({"expr":"amount >= 0","broken_max":"20%"})");
  const auto refused = world.append("activity", kFourRows);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kExpectationBroken);
  EXPECT_THAT(refused.error().message, HasSubstr("1 of 4 rows (25%), the first at line 3"));
  apply_expecting(world, R"({"expr":"amount >= 0","broken_max":"25%"})");
  const auto taken = world.append("activity", kFourRows);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_EQ(taken->rows_accepted, 3u);
}

TEST(Ingest, nulls_max_of_zero_quarantines_the_row) {
  FeatureWorld world;
  world.apply_activity();
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"amount","type":"float64","expect":{"nulls_max":"0%"}}]})");
  const auto report = world.append("activity",
                                   "customer_id,at,loaded_at,amount\n1,2026-01-01,,\n"
                                   "2,2026-01-01,,1\n");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->rows_quarantined, 1u);
}

TEST(Ingest, unknown_view_missing_column_and_unreadable_file_have_their_codes) {
  FeatureWorld world;
  world.apply_activity();
  EXPECT_EQ(world.append("activty", "a\n1\n").error().id, ErrorId::kObjectNotFound);
  const auto missing = world.append("activity", "customer_id,at,amount,city\n1,2026-01-01,1,a\n");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().id, ErrorId::kSchemaMismatch);
  EXPECT_THAT(missing.error().message, HasSubstr("loaded_at"));
  const TextReader nonsense("PAR1 nonsense PAR1");
  const auto broken =
      world.ingest->append(world.context, "activity", {nonsense, table::Format::kParquet, {}});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().id, ErrorId::kMalformedTable);
}

TEST(Ingest, errors_say_the_file) {
  FeatureWorld world;
  world.apply_activity();
  TextWriter text_key;
  table::StringColumn names;
  names.push("x");
  table::Batch rows;
  ASSERT_TRUE(
      rows.add({"customer_id", table::Type::kString}, table::Column::of_strings(names)).ok());
  ASSERT_TRUE(table::write_table(text_key, table::Format::kParquet, rows).ok());
  const struct {
    std::string bytes;
    table::Format format;
  } cases[] = {
      {"customer_id,at\n1,2026-01-01\n", table::Format::kCsv},
      {"PAR1 nonsense PAR1", table::Format::kParquet},
      {"ARROW1 nonsense", table::Format::kArrowIpc},
      {text_key.bytes(), table::Format::kParquet},
  };
  for (const auto& c : cases) {
    const auto report =
        world.ingest->append(world.context, "activity", {TextReader(c.bytes), c.format, {}});
    ASSERT_FALSE(report.ok()) << c.bytes;
    EXPECT_THAT(report.error().message, HasSubstr("the file"));
  }
}

TEST(Ingest, the_same_rows_again_are_appended_and_reported) {
  FeatureWorld world;
  world.apply_activity();
  const std::string header = "customer_id,at,loaded_at,amount,city\n";
  const std::string csv = header + "1,2026-01-01,,1,a\n2,2026-01-01,,2,b\n";
  EXPECT_EQ(world.append("activity", csv)->duplicate_of, 0u);
  EXPECT_EQ(world.append("activity", header + "1,2026-01-01,,1,a\n")->duplicate_of, 0u);
  for (int again = 0; again < 2; ++again) {
    const auto report = world.append("activity", csv);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->duplicate_of, 1u);
    EXPECT_EQ(to_value(*report)["duplicate_of"].as_int(), 1);
    EXPECT_EQ(world.audit.get(3 + again)->detail.integer("duplicate_of"), 1);
  }
  EXPECT_EQ(view_stats(*world.sql, world.online.get(), world.context.project)->at(0).rows, 7u);
  // The same file for another view is no duplicate.
  world.apply("FeatureView", "other",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"amount","type":"float64"},{"name":"city","type":"string"}]})");
  const auto other = world.append("other", csv);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->duplicate_of, 0u);
}

TEST(Ingest, a_project_without_a_zone_may_not_store) {
  FeatureWorld world;
  world.apply_activity();
  world.context.zone = Zone();
  const auto report =
      world.append("activity", "customer_id,at,loaded_at,amount,city\n1,2026-01-01,,1,a\n");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kPermissionDenied);
}

TEST(Ingest, a_passed_deadline_stops_it_before_anything_is_committed) {
  FeatureWorld world;
  world.apply_activity();
  world.context.deadline = world.clock.now() - Duration::seconds(1);
  const auto report =
      world.append("activity", "customer_id,at,loaded_at,amount,city\n1,2026-01-01,,1,a\n");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(view_stats(*world.sql, world.online.get(), world.context.project)->at(0).rows, 0u);
}

TEST(Ingest, leaves_one_audit_entry_with_the_hashes_and_counts_rows) {
  FeatureWorld world;
  world.apply_activity();
  const auto report =
      world.append("activity", "customer_id,at,loaded_at,amount,city\n1,2026-01-01,,1,a\n");
  ASSERT_TRUE(report.ok());
  const auto entry = world.audit.get(1);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->action, "features.ingest");
  EXPECT_EQ(entry->object, "FeatureView/pay/activity");
  EXPECT_EQ(entry->detail["segments"].as_array().at(0).as_string(), report->segments.at(0).str());
  EXPECT_THAT(world.metrics.exposition(),
              HasSubstr("falaj_features_rows_total{project=\"pay\",view=\"activity\","
                        "outcome=\"accepted\"} 1"));
  EXPECT_EQ(to_value(*report)["rows_accepted"].as_int(), 1);
}

TEST(Ingest, stats_add_up_over_ingests) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world
                  .append("activity",
                          "customer_id,at,loaded_at,amount,city\n1,2026-01-01,,1,a\n"
                          "2,2026-01-02,,-1,a\n")
                  .ok());
  ASSERT_TRUE(world
                  .append("activity",
                          "customer_id,at,loaded_at,amount,city\n1,2026-02-01,,1,a\n"
                          "9,2026-01-02,,1,a\n")
                  .ok());
  const auto stats = view_stats(*world.sql, world.online.get(), world.context.project);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->at(0).rows, 3u);
  EXPECT_EQ(stats->at(0).quarantined, 1u);
  EXPECT_EQ(stats->at(0).segments, 2u);
  EXPECT_EQ(stats->at(0).keys_online, 2u);
  EXPECT_EQ(to_rfc3339(stats->at(0).newest_event), "2026-02-01T00:00:00Z");
}

TEST(Ingest, takes_no_event_of_the_future_for_the_newest) {
  FeatureWorld world;
  world.apply_activity();
  const auto newest = [&] {
    return to_rfc3339(
        view_stats(*world.sql, world.online.get(), world.context.project)->at(0).newest_event);
  };
  const std::string head = "customer_id,at,loaded_at,amount,city\n";
  ASSERT_TRUE(world.append("activity", head + "1,2026-01-01,,1,a\n2,2099-01-01,,1,a\n").ok());
  EXPECT_EQ(newest(), "2026-01-01T00:00:00Z");
  ASSERT_TRUE(world.append("activity", head + "1,2098-01-01,,1,a\n").ok());
  EXPECT_EQ(newest(), "2026-01-01T00:00:00Z");
}

}  // namespace
}  // namespace falaj::features
