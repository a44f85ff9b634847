#include "features/feast/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace falaj::features::feast {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::int64_t kSecond = 1'000'000'000;

struct SourceRow {
  std::int64_t a;
  std::int64_t b;
  std::int64_t event;  // Seconds, as all times here.
  std::int64_t created;
  double score;
  std::int64_t trips;
};

ViewPlan plan_of(std::int64_t ttl) {
  ViewPlan view;
  view.feast_name = view.name = "pair";
  view.keys = {{"a", Type::kInt64}, {"b", Type::kInt64}};
  view.features = {{"score", Type::kFloat64}, {"trips", Type::kInt64}};
  view.ttl = Duration::seconds(ttl);
  view.event_time = "at";
  view.created_time = "created";
  return view;
}

Batch source_of(const std::vector<SourceRow>& rows) {
  Batch out(table::Schema{{{"a", Type::kInt64},
                           {"b", Type::kInt64},
                           {"at", Type::kTimestamp},
                           {"created", Type::kTimestamp},
                           {"score", Type::kFloat64},
                           {"trips", Type::kInt64}}});
  for (const SourceRow& row : rows) {
    out.columns[0].push_int(row.a);
    out.columns[1].push_int(row.b);
    out.columns[2].push_int(row.event * kSecond);
    out.columns[3].push_int(row.created * kSecond);
    out.columns[4].push_double(row.score);
    out.columns[5].push_int(row.trips);
  }
  return out;
}

struct Asked {
  std::int64_t a;
  std::int64_t b;
  std::int64_t at;
};

Batch spine_of(const std::vector<Asked>& rows) {
  Batch out(table::Schema{{{"a", Type::kInt64},
                           {"b", Type::kInt64},
                           {"event_timestamp", Type::kTimestamp},
                           {std::string(kRowNumber), Type::kInt64}}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.columns[0].push_int(rows[i].a);
    out.columns[1].push_int(rows[i].b);
    out.columns[2].push_int(rows[i].at * kSecond);
    out.columns[3].push_int(static_cast<std::int64_t>(i));
  }
  return out;
}

// Answers as pandas gives them: everything is a float, and null is NaN.
struct Answer {
  double row;
  double score;
  double trips;
};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Batch answers_of(const std::vector<Answer>& rows) {
  Batch out(table::Schema{{{std::string(kRowNumber), Type::kFloat64},
                           {"pair__score", Type::kFloat64},
                           {"trips", Type::kFloat64}}});
  for (const Answer& row : rows) {
    out.columns[0].push_double(row.row);
    out.columns[1].push_double(row.score);
    out.columns[2].push_double(row.trips);
  }
  return out;
}

Comparison compared(const ViewPlan& view, const Batch& rows, const Batch& spine,
                    const Batch& answers) {
  const auto out = compare_answers({view, rows, spine, "event_timestamp", answers});
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? *out : Comparison{};
}

std::map<Fault, std::uint64_t> faults_of(const std::vector<Asked>& spine,
                                         const std::vector<Answer>& answers) {
  static const Batch kRows = source_of({{1, 23, 100, 100, 0.5, 5},
                                        {1, 23, 200, 200, 0.75, 7},
                                        {12, 3, 100, 100, 9.5, 95},
                                        {7, 7, 100, 300, 1.5, 15},
                                        {7, 7, 100, 200, 2.5, 25},
                                        {8, 8, 100, 100, 3.5, 35},
                                        {8, 8, 100, 100, 4.5, 45},
                                        {9, 9, 100, 100, 1, (std::int64_t{1} << 53) + 1}});
  return compared(plan_of(50), kRows, spine_of(spine), answers_of(answers)).counts;
}

using Counts = std::map<Fault, std::uint64_t>;

TEST(FeastVerify, right_answers_have_no_fault) {
  const std::vector<Asked> spine{{1, 23, 150}, {1, 23, 151}, {12, 3, 100}, {5, 5, 100}};
  const std::vector<Answer> answers{
      {0, 0.5, 5}, {1, kNone, kNone}, {2, 9.5, 95}, {3, kNone, kNone}};
  EXPECT_EQ(faults_of(spine, answers), Counts{});
}

TEST(FeastVerify, rows_that_are_lost_or_there_twice) {
  EXPECT_EQ(faults_of({{1, 23, 100}, {1, 23, 300}}, {{0, 0.5, 5}}),
            (Counts{{Fault::kDroppedRow, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}, {1, 23, 100}}, {{0, 0.5, 5}}),
            (Counts{{Fault::kCollapsedRow, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}}, {{0, 0.5, 5}, {0, 0.5, 5}, {4, 1, 1}}),
            (Counts{{Fault::kMultipliedRow, 1}, {Fault::kForeignRow, 1}}));
}

TEST(FeastVerify, values_are_traced_to_the_row_they_are_of) {
  EXPECT_EQ(faults_of({{1, 23, 151}}, {{0, 0.5, 5}}), (Counts{{Fault::kTtlIgnored, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 120}}, {{0, 0.75, 7}}), (Counts{{Fault::kFutureValue, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}}, {{0, 9.5, 95}}), (Counts{{Fault::kWrongEntity, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}}, {{0, 9.5, 5}}), (Counts{{Fault::kUnknownValue, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}}, {{0, kNone, kNone}}), (Counts{{Fault::kMissingValue, 1}}));
  EXPECT_EQ(faults_of({{1, 23, 100}}, {{0, 0.5, kNone}}), (Counts{{Fault::kMissingValue, 1}}));
  EXPECT_EQ(faults_of({{7, 7, 100}}, {{0, 2.5, 25}}), (Counts{{Fault::kCreatedIgnored, 1}}));
  EXPECT_EQ(faults_of({{9, 9, 100}}, {{0, 1, 0x1p53}}), (Counts{{Fault::kRoundedInteger, 1}}));
}

TEST(FeastVerify, a_stale_row_is_told_from_a_right_one) {
  const Batch rows = source_of({{1, 1, 100, 0, 1, 1}, {1, 1, 110, 0, 2, 2}});
  const Comparison out =
      compared(plan_of(0), rows, spine_of({{1, 1, 500}}), answers_of({{0, 1, 1}}));
  EXPECT_EQ(out.counts, (Counts{{Fault::kStaleValue, 1}}));
  const Example& example = out.examples.at(Fault::kStaleValue)[0];
  EXPECT_EQ(example.key, "a=1 b=1");
  EXPECT_EQ(example.feature, "score");
  EXPECT_EQ(example.exact, "2");
  EXPECT_EQ(example.theirs, "1");
  EXPECT_EQ(example.at, "1970-01-01T00:08:20Z");
}

TEST(FeastVerify, what_feast_leaves_open_is_no_fault) {
  const Batch rows = source_of({{8, 8, 100, 100, 3.5, 35}, {8, 8, 100, 100, 4.5, 45}});
  const Comparison out =
      compared(plan_of(0), rows, spine_of({{8, 8, 100}}), answers_of({{0, 3.5, 35}}));
  EXPECT_EQ(out.counts, (Counts{{Fault::kOpenTie, 1}}));
  EXPECT_EQ(out.faults(), 0u);
  for (int fault = 0; fault <= static_cast<int>(Fault::kOpenTie); ++fault) {
    EXPECT_FALSE(fault_text(static_cast<Fault>(fault)).empty());
  }
}

TEST(FeastVerify, answers_without_numbers_are_found_by_key_and_time) {
  const Batch rows = source_of({{1, 23, 100, 0, 0.5, 5}, {12, 3, 100, 0, 9.5, 95}});
  Batch spine = spine_of({{12, 3, 100}, {1, 23, 100}, {1, 23, 100}, {1, 23, 50}});
  Batch answers(table::Schema{{{"a", Type::kFloat64},
                               {"b", Type::kInt64},
                               {"event_timestamp", Type::kTimestamp},
                               {"score", Type::kFloat64},
                               {"trips", Type::kInt64}}});
  const auto add = [&](double a, std::int64_t b, double score, std::int64_t trips) {
    answers.columns[0].push_double(a);
    answers.columns[1].push_int(b);
    answers.columns[2].push_int(100 * kSecond);
    answers.columns[3].push_double(score);
    answers.columns[4].push_int(trips);
  };
  add(1, 23, 0.5, 5);
  add(12, 3, 9.5, 95);
  const Comparison out = compared(plan_of(0), rows, spine, answers);
  EXPECT_EQ(out.counts, (Counts{{Fault::kDroppedRow, 1}, {Fault::kCollapsedRow, 1}}));
  EXPECT_EQ(out.right_rows, 2u);
  EXPECT_FALSE(out.order_kept);
}

TEST(FeastVerify, says_which_column_is_missing) {
  const ViewPlan view = plan_of(0);
  const Batch rows = source_of({{1, 1, 1, 1, 1, 1}});
  const Batch spine = spine_of({{1, 1, 1}});
  Batch answers(table::Schema{{{"pair__score", Type::kFloat64}}});
  const auto out = compare_answers({view, rows, spine, "event_timestamp", answers});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(out.error().message.find("pair__trips"), std::string::npos);
}

TEST(FeastVerify, a_sample_asks_at_the_edges) {
  const ViewPlan view = plan_of(50);
  const Batch rows = source_of({{1, 23, 100, 0, 0.5, 5}, {12, 3, 100, 0, 9.5, 95}});
  const Batch spine = sample_spine(view, rows, {11});
  ASSERT_EQ(spine.rows(), 11u);
  const std::vector<std::int64_t> seconds{100, 99, 150, 151, 100};
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(spine.find("event_timestamp")->ints()[i], seconds[i % 5] * kSecond);
  }
  EXPECT_EQ(spine.find("a")->ints()[10], 13);
  EXPECT_EQ(sample_spine(view, source_of({}), {11}).rows(), 0u);
  EXPECT_EQ(spine, sample_spine(view, rows, {11}));
}

// The join is held to the plain rule for each of them: seed 7.
TEST(FeastVerify, the_exact_answers_compare_as_right_for_random_rows) {
  std::mt19937 random(7);
  const auto any = [&](int below) { return static_cast<std::int64_t>(random() % below); };
  for (int round = 0; round < 200; ++round) {
    std::vector<SourceRow> rows;
    for (int i = 0; i < 40; ++i) {
      rows.push_back({any(3), any(3), any(60), any(4), static_cast<double>(i), i});
    }
    const ViewPlan view = plan_of(any(3) * 10);
    const Batch source = source_of(rows);
    const Batch spine = sample_spine(view, source, {200});
    Batch nothing(table::Schema{{{std::string(kRowNumber), Type::kInt64},
                                 {"score", Type::kFloat64},
                                 {"trips", Type::kInt64}}});
    const Comparison out = compared(view, source, spine, nothing);
    EXPECT_EQ(out.counts.at(Fault::kDroppedRow), spine.rows());
  }
}

}  // namespace
}  // namespace falaj::features::feast
