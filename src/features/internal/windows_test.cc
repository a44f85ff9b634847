// The rules of windows.h, each by name, and a brute-force oracle over random cases. All go through
// the point-in-time join, so that reading the events is tried too.
#include "features/internal/windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "features/testing/join_oracle.h"

namespace falaj::features {
namespace {

using enum AggregateFunction;
using table::Type;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A view of one key column "id" with the features v (float64), i (int64), s (string), t and b.
PlainView plain() {
  PlainView out;
  out.name = "w";
  out.keys = {{"id", Type::kInt64}};
  out.features = {{"v", Type::kFloat64},
                  {"i", Type::kInt64},
                  {"s", Type::kString},
                  {"t", Type::kTimestamp},
                  {"b", Type::kBool}};
  return out;
}

PlainRow event(std::int64_t at, Cell v, std::int64_t position = 0) {
  PlainRow out;
  out.key = {std::int64_t{1}};
  out.event = at;
  out.position = position;
  out.features = {std::move(v), Cell(), Cell(), Cell(), Cell()};
  return out;
}

struct Asked {
  Aggregate aggregate;
  Type type;
};

Asked ask(AggregateFunction function, std::int64_t window, const std::string& of = "v",
          double q = 0) {
  Aggregate out{function, {}, Duration{window}, q};
  for (const table::Field& field : plain().features) {
    if (field.name == of) out.of = field;
  }
  Type type = out.of.type;
  if (function == kCount || function == kDistinct) type = Type::kInt64;
  if (function == kMean || function == kVar || function == kQuantile) type = Type::kFloat64;
  return {out, type};
}

// The aggregates of spine rows (id, at), as the join gives them.
table::Batch join(const PlainView& view, const std::vector<Asked>& asked,
                  const std::vector<std::pair<std::int64_t, std::int64_t>>& spine_rows,
                  const std::optional<table::Field>& event_id = {},
                  std::uint64_t known_at = std::numeric_limits<std::uint64_t>::max(),
                  std::size_t block_rows = 3, std::size_t parts = 1) {
  table::Batch spine(table::Schema{{{"id", Type::kInt64}, {"at", Type::kTimestamp}}});
  for (const auto& [id, at] : spine_rows) {
    spine.columns[0].push_int(id);
    spine.columns[1].push_int(at);
  }
  JoinView stored_view = stored(view, block_rows, parts);
  stored_view.features.clear();
  stored_view.event_id = event_id;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::string name = "a" + std::to_string(i);
    stored_view.features.push_back({{name, asked[i].type}, name, asked[i].aggregate});
  }
  JoinOptions options;
  options.time_column = "at";
  options.known_at = known_at;
  const auto out = point_in_time_join(spine, {stored_view}, options);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? *out : table::Batch();
}

Cell one(const PlainView& view, const Asked& asked, std::int64_t at,
         const std::optional<table::Field>& event_id = {}) {
  return cell_of(join(view, {asked}, {{1, at}}, event_id).columns.at(0), 0);
}

TEST(Windows, begin_behind_their_length_and_end_with_the_row) {
  PlainView view = plain();
  for (const std::int64_t at : {90, 91, 100, 101}) view.rows.push_back(event(at, 1.0));
  EXPECT_EQ(one(view, ask(kCount, 10, "*"), 100), Cell(std::int64_t{2}));  // 91 and 100.
  EXPECT_EQ(one(view, ask(kCount, 11, "*"), 100), Cell(std::int64_t{3}));
  EXPECT_EQ(one(view, ask(kCount, 1, "*"), 101), Cell(std::int64_t{1}));
}

TEST(Windows, without_events_count_zero_and_know_nothing_else) {
  PlainView view = plain();
  view.rows.push_back(event(10, 1.0));
  EXPECT_EQ(one(view, ask(kCount, 5, "*"), 100), Cell(std::int64_t{0}));
  EXPECT_EQ(one(view, ask(kDistinct, 5), 100), Cell(std::int64_t{0}));
  for (const auto function : {kSum, kMean, kVar, kMin, kMax, kFirst, kLast, kQuantile}) {
    EXPECT_EQ(one(view, ask(function, 5), 100), Cell());
  }
  // A key that never came, and rows without a key or a time.
  table::Batch spine(table::Schema{{{"id", Type::kInt64}, {"at", Type::kTimestamp}}});
  const table::Batch unknown = join(view, {ask(kCount, 5, "*"), ask(kSum, 5)}, {{7, 100}});
  EXPECT_EQ(cell_of(unknown.columns[0], 0), Cell(std::int64_t{0}));
  EXPECT_EQ(cell_of(unknown.columns[1], 0), Cell());
}

TEST(Windows, leave_nulls_out_except_where_rows_are_counted) {
  PlainView view = plain();
  view.rows = {event(1, Cell()), event(2, 5.0), event(3, Cell()), event(4, 7.0), event(5, Cell())};
  EXPECT_EQ(one(view, ask(kCount, 9, "*"), 5), Cell(std::int64_t{5}));
  EXPECT_EQ(one(view, ask(kCount, 9), 5), Cell(std::int64_t{2}));
  EXPECT_EQ(one(view, ask(kFirst, 9), 5), Cell(5.0));
  EXPECT_EQ(one(view, ask(kLast, 9), 5), Cell(7.0));
  EXPECT_EQ(one(view, ask(kMean, 9), 5), Cell(6.0));
  EXPECT_EQ(one(view, ask(kVar, 9), 5), Cell(2.0));  // Of a sample.
  EXPECT_EQ(one(view, ask(kVar, 2), 5), Cell());     // One value only.
  EXPECT_EQ(one(view, ask(kSum, 1), 5), Cell());     // All are null.
  EXPECT_EQ(one(view, ask(kDistinct, 9), 5), Cell(std::int64_t{2}));
}

TEST(Windows, count_the_newest_version_of_an_event) {
  PlainView view = plain();
  PlainRow first = event(10, 1.0);
  PlainRow later = event(10, 2.0, 1);    // The same time: it corrects the first.
  PlainRow created = event(10, 3.0, 0);  // Created last, though it came before.
  created.created = 20;
  view.rows = {first, later};
  EXPECT_EQ(one(view, ask(kSum, 5), 10), Cell(2.0));
  created.commit = 0;
  view.rows.push_back(created);
  EXPECT_EQ(one(view, ask(kSum, 5), 10), Cell(3.0));
  EXPECT_EQ(one(view, ask(kCount, 5, "*"), 10), Cell(std::int64_t{1}));
}

TEST(Windows, an_event_id_tells_events_of_one_moment_apart) {
  PlainView view = plain();
  const auto with_id = [](Cell id, double v, std::int64_t position) {
    PlainRow out = event(10, v, position);
    out.features[1] = std::move(id);
    return out;
  };
  view.rows = {with_id(std::int64_t{7}, 1, 0), with_id(std::int64_t{8}, 10, 1),
               with_id(std::int64_t{7}, 2, 2), with_id(Cell(), 100, 3), with_id(Cell(), 200, 4)};
  const table::Field id{"i", Type::kInt64};
  EXPECT_EQ(one(view, ask(kSum, 5), 10, id), Cell(212.0));
  EXPECT_EQ(one(view, ask(kCount, 5, "*"), 10, id), Cell(std::int64_t{3}));
  EXPECT_EQ(one(view, ask(kFirst, 5), 10, id), Cell(10.0));  // Of equal times by arrival.
  EXPECT_EQ(one(view, ask(kSum, 5), 10), Cell(200.0));
}

TEST(Windows, know_only_what_had_arrived) {
  PlainView view = plain();
  PlainRow late = event(9, 5.0);
  late.commit = 2;
  PlainRow correction = event(10, 4.0);
  correction.commit = 3;
  view.rows = {event(10, 1.0), late, correction};
  const auto sum = [&](std::uint64_t commit) {
    return cell_of(join(view, {ask(kSum, 5)}, {{1, 10}}, {}, commit).columns[0], 0);
  };
  EXPECT_EQ(sum(0), Cell());
  EXPECT_EQ(sum(1), Cell(1.0));
  EXPECT_EQ(sum(2), Cell(6.0));
  EXPECT_EQ(sum(3), Cell(9.0));
}

TEST(Windows, take_what_was_created_by_then_where_that_is_asked) {
  PlainView view = plain();
  view.created = CreatedRule::kKnownByRow;
  PlainRow early = event(10, 1.0);
  early.created = 11;
  PlainRow corrected = event(10, 5.0, 1);
  corrected.created = 15;
  view.rows = {early, corrected, event(10, 9.0, 2)};  // The last says nothing: it never counts.
  EXPECT_EQ(one(view, ask(kSum, 100), 10), Cell());
  EXPECT_EQ(one(view, ask(kSum, 100), 14), Cell(1.0));
  EXPECT_EQ(one(view, ask(kSum, 100), 15), Cell(5.0));
}

TEST(Windows, are_not_shortened_by_the_ttl) {
  PlainView view = plain();
  view.ttl = 2;
  view.rows = {event(1, 1.0), event(2, 2.0)};
  EXPECT_EQ(one(view, ask(kSum, 100), 50), Cell(3.0));
}

TEST(Windows, sum_exactly_and_round_once) {
  PlainView view = plain();
  view.rows = {event(1, 1e16), event(2, 1.0), event(3, 1.0), event(4, -1e16)};
  EXPECT_EQ(one(view, ask(kSum, 100), 4), Cell(2.0));
  EXPECT_EQ(one(view, ask(kMean, 100), 4), Cell(0.5));
  for (PlainRow& row : view.rows) row.features[1] = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(one(view, ask(kSum, 1, "i"), 4), Cell(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(one(view, ask(kSum, 100, "i"), 4), Cell()) << "past int64 is null";
}

TEST(Windows, nan_goes_through_numbers_and_is_one_value) {
  PlainView view = plain();
  view.rows = {event(1, kNan), event(2, 1.0), event(3, -kNan), event(4, 0.0), event(5, -0.0)};
  for (const auto function : {kSum, kMean, kVar, kMin, kMax, kQuantile}) {
    const Cell cell = one(view, ask(function, 100), 5);
    ASSERT_TRUE(std::holds_alternative<double>(cell));
    EXPECT_TRUE(std::isnan(std::get<double>(cell)));
    EXPECT_FALSE(std::isnan(std::get<double>(one(view, ask(function, 2), 5)))) << "it has left";
  }
  EXPECT_EQ(one(view, ask(kDistinct, 100), 5), Cell(std::int64_t{3}));
}

TEST(Windows, quantiles_lie_between_two_values) {
  PlainView view = plain();
  view.rows = {event(1, 4.0), event(2, 1.0), event(3, 2.0), event(4, 3.0)};
  EXPECT_EQ(one(view, ask(kQuantile, 100, "v", 0.5), 4), Cell(2.5));
  EXPECT_EQ(one(view, ask(kQuantile, 100, "v", 0), 4), Cell(1.0));
  EXPECT_EQ(one(view, ask(kQuantile, 100, "v", 1), 4), Cell(4.0));
  EXPECT_EQ(one(view, ask(kQuantile, 100, "v", 0.25), 4), Cell(1.75));
}

TEST(Windows, reach_back_to_the_beginning_of_time) {
  PlainView view = plain();
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  view.rows = {event(kFirst, 1.0), event(kFirst + 5, 2.0)};
  EXPECT_EQ(one(view, ask(kSum, std::numeric_limits<std::int64_t>::max()), kFirst + 5), Cell(3.0));
  EXPECT_EQ(one(view, ask(kSum, 5), kFirst + 5), Cell(2.0));
}

// What a window is, as plainly as it can be said.
std::vector<const PlainRow*> oracle_window(const PlainView& view, const Aggregate& aggregate,
                                           std::int64_t id, std::int64_t at, std::uint64_t known_at,
                                           bool by_id) {
  const auto rank = [](const PlainRow& row) {
    return std::tuple(*row.event, row.created.has_value(), row.created.value_or(0), row.commit,
                      row.position);
  };
  std::map<std::pair<std::int64_t, Cell>, const PlainRow*> events;
  for (const PlainRow& row : view.rows) {
    if (row.commit > known_at || row.key[0] != Cell(id)) continue;
    if (*row.event > at || *row.event <= at - aggregate.window.nanos) continue;
    if (view.created == CreatedRule::kKnownByRow && (!row.created || *row.created > at)) continue;
    const PlainRow*& newest = events[{*row.event, by_id ? row.features[1] : Cell()}];
    if (newest == nullptr || rank(row) > rank(*newest)) newest = &row;
  }
  std::vector<const PlainRow*> out;
  for (const auto& each : events) out.push_back(each.second);
  std::sort(out.begin(), out.end(), [&](auto* a, auto* b) { return rank(*a) < rank(*b); });
  return out;
}

double number(const Cell& cell) {
  const auto* integer = std::get_if<std::int64_t>(&cell);
  return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(cell);
}

// Values are so small that plain sums are exact.
Cell oracle_value(const Aggregate& aggregate, const std::vector<const PlainRow*>& window) {
  const auto count = static_cast<std::int64_t>(window.size());
  if (aggregate.of.name.empty()) return count;
  std::size_t column = 0;
  while (plain().features[column].name != aggregate.of.name) ++column;
  std::vector<Cell> values;
  for (const PlainRow* row : window) {
    if (row->features[column] != Cell()) values.push_back(row->features[column]);
  }
  const auto n = static_cast<std::int64_t>(values.size());
  if (aggregate.function == kCount) return n;
  if (aggregate.function == kDistinct) {
    return static_cast<std::int64_t>(std::set<Cell>(values.begin(), values.end()).size());
  }
  if (n == 0) return {};
  if (aggregate.function == kFirst) return values.front();
  if (aggregate.function == kLast) return values.back();
  if (aggregate.function == kMin) return *std::min_element(values.begin(), values.end());
  if (aggregate.function == kMax) return *std::max_element(values.begin(), values.end());
  double sum = 0;
  std::vector<double> sorted;
  for (const Cell& value : values) {
    sum += number(value);
    sorted.push_back(number(value));
  }
  std::sort(sorted.begin(), sorted.end());
  if (aggregate.function == kSum) {
    if (aggregate.of.type == Type::kInt64) return static_cast<std::int64_t>(sum);
    return sum;
  }
  const double mean = sum / static_cast<double>(n);
  if (aggregate.function == kMean) return mean;
  if (aggregate.function == kVar) {
    if (n < 2) return {};
    double squares = 0;
    for (const Cell& value : values) squares += (number(value) - mean) * (number(value) - mean);
    return squares / static_cast<double>(n - 1);
  }
  const double place = static_cast<double>(n - 1) * aggregate.q;
  const auto below = static_cast<std::size_t>(place);
  const double share = place - static_cast<double>(below);
  if (share == 0) return sorted[below];
  return sorted[below] + (sorted[below + 1] - sorted[below]) * share;
}

class WindowsOracle : public testing::Test {
 protected:
  std::int64_t any(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(random_);
  }
  Cell maybe(Cell cell) { return any(6) == 0 ? Cell() : cell; }

  PlainView random_view() {
    PlainView view = plain();
    if (any(4) == 0) view.created = CreatedRule::kKnownByRow;
    if (any(2) == 0) view.available_as = "known";
    view.ttl = any(2) * 7;
    const std::int64_t rows = any(120);
    const std::int64_t keys = 1 + any(5);
    const std::int64_t span = 1 + any(80);
    for (std::int64_t i = 0; i < rows; ++i) {
      PlainRow row;
      row.key = {any(keys)};
      row.event = any(span);
      if (any(3) > 0) row.created = *row.event + any(9);
      row.commit = static_cast<std::uint64_t>(1 + any(4));
      row.position = i;
      row.features = {maybe(static_cast<double>(any(200) - 100) * 0.25), maybe(any(40) - 20),
                      maybe("t" + std::to_string(any(9))), maybe(any(1000)), maybe(any(2) == 0)};
      view.rows.push_back(std::move(row));
    }
    return view;
  }

  std::vector<Asked> random_asks() {
    constexpr AggregateFunction kAll[] = {kCount, kSum,   kMean, kVar,      kMin,
                                          kMax,   kFirst, kLast, kDistinct, kQuantile};
    std::vector<Asked> out;
    for (std::int64_t i = any(8); i >= 0; --i) {
      const AggregateFunction function = kAll[any(10)];
      const bool any_type = function == kFirst || function == kLast || function == kDistinct;
      const bool ordered = function == kMin || function == kMax;
      std::string of = any(2) == 0 ? "v" : "i";
      if (any_type) of = std::string(1, "vistb"[any(5)]);
      if (ordered && any(3) == 0) of = "t";
      if (function == kCount) of = std::string(1, "v*s"[any(3)]);
      out.push_back(ask(function, 1 + any(60), of, static_cast<double>(any(9)) / 8));
    }
    return out;
  }

  std::mt19937_64 random_;
};

TEST_F(WindowsOracle, agrees_over_two_thousand_random_cases) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    random_.seed(seed);
    const PlainView view = random_view();
    const std::vector<Asked> asked = random_asks();
    const bool by_id = any(2) == 0;
    const auto known_at = static_cast<std::uint64_t>(any(6));
    std::vector<std::pair<std::int64_t, std::int64_t>> spine;
    for (std::int64_t i = any(60); i >= 0; --i) spine.emplace_back(any(6), any(90));
    std::optional<table::Field> id;
    if (by_id) id = table::Field{"i", Type::kInt64};
    const table::Batch got =
        join(view, asked, spine, id, known_at, static_cast<std::size_t>(1 + any(7)),
             static_cast<std::size_t>(1 + any(3)));
    for (std::size_t a = 0; a < asked.size(); ++a) {
      for (std::size_t row = 0; row < spine.size(); ++row) {
        const auto [key, at] = spine[row];
        const Cell want = oracle_value(
            asked[a].aggregate, oracle_window(view, asked[a].aggregate, key, at, known_at, by_id));
        ASSERT_EQ(cell_of(got.columns[a], row), want)
            << "seed " << seed << ", aggregate " << a << ", row " << row;
      }
    }
  }
}

// When the newest of what went into a row was available.
TEST_F(WindowsOracle, availability_is_that_of_the_latest_event_that_counts) {
  for (std::uint64_t seed = 5001; seed <= 5400; ++seed) {
    random_.seed(seed);
    PlainView view = random_view();
    view.available_as = "known";
    const std::vector<Asked> asked = random_asks();
    Aggregate longest;
    for (const Asked& each : asked)
      longest.window = std::max(longest.window, each.aggregate.window);
    std::vector<std::pair<std::int64_t, std::int64_t>> spine;
    for (std::int64_t i = any(40); i >= 0; --i) spine.emplace_back(any(6), any(90));
    const table::Batch got = join(view, asked, spine);
    for (std::size_t row = 0; row < spine.size(); ++row) {
      const auto [key, at] = spine[row];
      std::vector<const PlainRow*> rows = oracle_window(view, longest, key, at, 9, false);
      if (const PlainRow* winner = oracle_winner(view, {key}, at, 9)) rows.push_back(winner);
      Cell want;
      for (const PlainRow* each : rows)
        want = std::max(want, Cell(each->created.value_or(*each->event)));
      ASSERT_EQ(cell_of(got.columns.back(), row), want) << "seed " << seed << ", row " << row;
    }
  }
}

// A reader that slides and one that begins anew give the same bits, whatever the values.
TEST_F(WindowsOracle, sliding_and_beginning_anew_are_equal_to_the_bit) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    random_.seed(seed);
    const std::vector<Aggregate> aggregates{
        ask(kSum, 20).aggregate, ask(kMean, 35).aggregate, ask(kVar, 30).aggregate,
        ask(kMin, 25).aggregate, ask(kMax, 15).aggregate,  ask(kQuantile, 40, "v", 0.3).aggregate};
    const WindowPlan plan = plan_windows({}, aggregates);
    EventRows rows;
    rows.columns.emplace_back(Type::kFloat64);
    for (std::int64_t time = 0; time < 200; time += 1 + any(4)) {
      rows.event.push_back(time);
      rows.created.push_back(EventRows::kNoCreation);
      rows.sequence.push_back(sequence_of(1, time));
      rows.columns[0].push_double(std::ldexp(static_cast<double>(any(1 << 30)) - (1 << 29),
                                             static_cast<int>(any(90)) - 60));
    }
    std::vector<std::uint32_t> counted;
    counted_events(plan, rows, 0, rows.size(), {}, counted);
    WindowReader sliding(plan);
    sliding.begin(rows, counted);
    for (std::int64_t at = 0; at < 240; at += 1 + any(11)) {
      sliding.move_to(at);
      WindowReader anew(plan);
      anew.begin(rows, counted);
      anew.move_to(at);
      for (std::size_t i = 0; i < aggregates.size(); ++i) {
        const expression::Cell a = sliding.value(i);
        const expression::Cell b = anew.value(i);
        ASSERT_EQ(a.is_null, b.is_null);
        ASSERT_EQ(std::memcmp(&a.number, &b.number, sizeof(double)), 0)
            << "seed " << seed << ", aggregate " << i << " at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace falaj::features
