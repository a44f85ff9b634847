#include "features/point_in_time_join.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "features/testing/join_oracle.h"
#include "table/io.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

// --- By hand -------------------------------------------------------------------------------------

// A view of one integer key with one feature "v" that says which row it was.
PlainView numbered(std::vector<PlainRow> rows, std::int64_t ttl = 0) {
  PlainView out;
  out.name = "view";
  out.keys = {{"id", Type::kInt64}};
  out.features = {{"v", Type::kInt64}};
  out.ttl = ttl;
  std::int64_t number = 0;
  for (PlainRow& row : rows) {
    row.position = number;
    row.features = {number++};
  }
  out.rows = std::move(rows);
  return out;
}
PlainRow row(std::int64_t key, std::int64_t event, std::optional<std::int64_t> created = {},
             std::uint64_t commit = 1) {
  return {{key}, event, created, commit, 0, {}};
}

struct At {
  std::int64_t key;
  std::int64_t time;
};
Batch spine_of(const std::vector<At>& asked) {
  Batch out(table::Schema{{{"id", Type::kInt64}, {"at", Type::kTimestamp}}});
  for (const At& one : asked) {
    out.columns[0].push_int(one.key);
    out.columns[1].push_int(one.time);
  }
  return out;
}

JoinOptions options(std::uint64_t known_at = kAll) {
  JoinOptions out;
  out.time_column = "at";
  out.known_at = known_at;
  return out;
}

constexpr std::int64_t kNull = -1;
using Winners = std::vector<std::int64_t>;
Winners winners(const Batch& spine, const PlainView& view, std::uint64_t known_at = kAll) {
  Winners out;
  for (const std::size_t block_rows : {std::size_t{1}, std::size_t{2}, kBlockRows}) {
    const auto joined = point_in_time_join(spine, {stored(view, block_rows)}, options(known_at));
    EXPECT_TRUE(joined.ok()) << joined.error().message;
    if (!joined.ok()) return {};
    Winners found;
    for (std::size_t i = 0; i < joined->rows(); ++i) {
      const Column& column = joined->columns[0];
      found.push_back(column.is_null(i) ? kNull : column.ints()[i]);
    }
    if (block_rows > 1) {
      EXPECT_EQ(found, out) << "blocks of " << block_rows;
    }
    out = std::move(found);
  }
  return out;
}

TEST(PointInTimeJoin, takes_the_newest_row_already_known) {
  const PlainView view = numbered({row(1, 10), row(1, 20), row(2, 15)});
  EXPECT_EQ(winners(spine_of({{1, 9}, {1, 10}, {1, 19}, {1, 20}, {2, 99}, {3, 99}}), view),
            (Winners{kNull, 0, 0, 1, 2, kNull}));
}

TEST(PointInTimeJoin, both_bounds_of_the_time_to_live_are_inclusive) {
  EXPECT_EQ(winners(spine_of({{1, 10}, {1, 15}, {1, 16}}), numbered({row(1, 10)}, 5)),
            (Winners{0, 0, kNull}));
}

TEST(PointInTimeJoin, of_equal_event_times_the_later_creation_then_the_later_arrival_wins) {
  const Batch spine = spine_of({{1, 10}});
  EXPECT_EQ(winners(spine, numbered({row(1, 10, 1, 9), row(1, 10, 2, 3), row(1, 10, 2, 4)})),
            (Winners{2}));
  EXPECT_EQ(winners(spine, numbered({row(1, 10, {}, 9), row(1, 10, 2, 3)})), (Winners{1}));
  EXPECT_EQ(winners(spine, numbered({row(1, 10, {}, 9), row(1, 10, {}, 3)})), (Winners{0}));
  EXPECT_EQ(winners(spine, numbered({row(1, 10), row(1, 10)})), (Winners{1}));
}

TEST(PointInTimeJoin, sees_only_what_had_arrived_by_the_commit_that_is_asked_for) {
  const PlainView view = numbered({row(1, 10, {}, 1), row(1, 10, {}, 2), row(1, 12, {}, 3)});
  const Batch spine = spine_of({{1, 20}});
  EXPECT_EQ(winners(spine, view, 0), (Winners{kNull}));
  EXPECT_EQ(winners(spine, view, 1), (Winners{0}));
  EXPECT_EQ(winners(spine, view, 2), (Winners{1}));
  EXPECT_EQ(winners(spine, view), (Winners{2}));
}

TEST(PointInTimeJoin, may_leave_out_what_was_created_after_the_row) {
  PlainView view = numbered({row(1, 10, 10), row(1, 11, 30), row(1, 12), row(2, 5, 6)});
  view.created = CreatedRule::kKnownByRow;
  EXPECT_EQ(winners(spine_of({{1, 20}, {1, 30}, {2, 5}, {2, 6}}), view), (Winners{0, 1, kNull, 3}));
  view.ttl = 9;
  EXPECT_EQ(winners(spine_of({{1, 19}, {1, 20}}), view), (Winners{0, kNull}));
}

// What other stores get wrong, case by case.
TEST(PointInTimeJoin, case_1_a_spine_row_survives_when_no_row_is_in_the_window) {
  EXPECT_EQ(winners(spine_of({{1, 50}}), numbered({row(1, 10), row(1, 100)}, 5)), (Winners{kNull}));
}

TEST(PointInTimeJoin, case_2_equal_spine_rows_each_get_their_answer) {
  EXPECT_EQ(winners(spine_of({{1, 12}, {1, 12}, {1, 12}}), numbered({row(1, 10)})),
            (Winners{0, 0, 0}));
}

TEST(PointInTimeJoin, case_3_composite_keys_are_not_concatenated) {
  PlainView view = numbered({row(1, 10), row(12, 10)});
  view.keys = {{"a", Type::kInt64}, {"b", Type::kInt64}};
  view.rows[0].key = {std::int64_t{1}, std::int64_t{23}};
  view.rows[1].key = {std::int64_t{12}, std::int64_t{3}};
  Batch spine(table::Schema{{{"a", Type::kInt64}, {"b", Type::kInt64}, {"at", Type::kTimestamp}}});
  for (const auto& [a, b] : {std::pair{12, 3}, std::pair{1, 23}, std::pair{1, 3}}) {
    spine.columns[0].push_int(a);
    spine.columns[1].push_int(b);
    spine.columns[2].push_int(10);
  }
  EXPECT_EQ(winners(spine, view), (Winners{1, 0, kNull}));
}

TEST(PointInTimeJoin, case_3_texts_that_run_together_stay_apart) {
  PlainView view = numbered({row(0, 10), row(0, 10), row(0, 10)});
  view.keys = {{"a", Type::kString}, {"b", Type::kString}};
  const std::string nul("x\0", 2);
  const std::vector<std::pair<std::string, std::string>> keys{{"x", "yz"}, {"xy", "z"}, {nul, "z"}};
  Batch spine(
      table::Schema{{{"a", Type::kString}, {"b", Type::kString}, {"at", Type::kTimestamp}}});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    view.rows[i].key = {keys[i].first, keys[i].second};
    spine.columns[0].push_string(keys[i].first);
    spine.columns[1].push_string(keys[i].second);
    spine.columns[2].push_int(10);
  }
  EXPECT_EQ(winners(spine, view), (Winners{0, 1, 2}));
}

TEST(PointInTimeJoin, case_3_rows_of_one_moment_do_not_multiply_the_spine) {
  EXPECT_EQ(winners(spine_of({{1, 12}}), numbered({row(1, 10), row(1, 10), row(1, 10)})).size(),
            1u);
}

TEST(PointInTimeJoin, case_4_without_a_time_to_live_the_oldest_row_counts) {
  EXPECT_EQ(winners(spine_of({{1, 400 * 24 * kHour}}), numbered({row(1, 0)}, 0)), (Winners{0}));
}

TEST(PointInTimeJoin, case_4_the_row_at_the_end_of_the_window_counts) {
  EXPECT_EQ(winners(spine_of({{1, kHour}}), numbered({row(1, 0), row(1, kHour)}, kHour)),
            (Winners{1}));
}

TEST(PointInTimeJoin, case_5_nanoseconds_are_kept) {
  const std::int64_t second = 1'700'000'000'000'000'000;
  EXPECT_EQ(winners(spine_of({{1, second + 1}, {1, second + 2}}),
                    numbered({row(1, second), row(1, second + 2)})),
            (Winners{0, 1}));
}

TEST(PointInTimeJoin, case_5_a_time_means_the_same_moment_in_every_zone) {
  const PlainView view = numbered({row(1, 1'700'000'000'000'000'000)});
  for (const char* at :
       {"2023-11-14T22:13:20Z", "2023-11-15T02:13:20+04:00", "2023-11-14 22:13:20"}) {
    const TextReader file("id,at\n1," + std::string(at) + "\n");
    table::ReadOptions read;
    read.schema.fields = {{"id", Type::kInt64}, {"at", Type::kTimestamp}};
    const auto spine = table::read_all(file, table::Format::kCsv, read);
    ASSERT_TRUE(spine.ok()) << spine.error().message;
    EXPECT_EQ(winners(*spine, view), (Winners{0})) << at;
  }
}

TEST(PointInTimeJoin, a_null_key_or_time_matches_nothing) {
  Batch spine = spine_of({{1, 10}});
  spine.columns[0].push_null();
  spine.columns[1].push_int(10);
  spine.columns[0].push_int(1);
  spine.columns[1].push_null();
  EXPECT_EQ(winners(spine, numbered({row(1, 10), row(0, 0)})), (Winners{0, kNull, kNull}));
}

TEST(PointInTimeJoin, extreme_times_do_not_wrap_around) {
  const std::int64_t first = std::numeric_limits<std::int64_t>::min();
  const PlainView view = numbered({row(1, first), row(1, 5), row(-1, kLast)}, kLast);
  EXPECT_EQ(winners(spine_of({{1, first}, {1, kLast - 1}, {1, -2}, {-1, kLast}}), view),
            (Winners{0, 1, 0, 2}));
}

TEST(PointInTimeJoin, views_without_rows_and_spines_without_rows_are_fine) {
  EXPECT_EQ(winners(spine_of({{1, 1}}), numbered({})), (Winners{kNull}));
  EXPECT_EQ(winners(spine_of({}), numbered({row(1, 1)})), Winners{});
}

TEST(PointInTimeJoin, one_view_may_be_joined_twice_under_two_keys) {
  PlainView view = numbered({row(1, 10), row(2, 10)});
  PlainView origin = view;
  origin.name = "origin";
  origin.columns = {"origin_id"};
  PlainView target = view;
  target.name = "target";
  target.columns = {"target_id"};
  Batch spine(table::Schema{
      {{"origin_id", Type::kInt64}, {"target_id", Type::kInt64}, {"at", Type::kTimestamp}}});
  spine.columns[0].push_int(1);
  spine.columns[1].push_int(2);
  spine.columns[2].push_int(10);
  const auto joined = point_in_time_join(spine, {stored(origin, 4), stored(target, 4)}, options());
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(joined->find("origin__v")->ints()[0], 0);
  EXPECT_EQ(joined->find("target__v")->ints()[0], 1);
}

TEST(PointInTimeJoin, a_feature_that_the_view_got_later_is_null_in_old_rows) {
  PlainView old = numbered({row(1, 10)});
  PlainView now = numbered({row(1, 20, {}, 2)});
  now.features.push_back({"w", Type::kString});
  now.rows[0].features.push_back(std::string("new"));
  JoinView both = stored(now, 4);
  both.segments.push_back(stored(old, 4).segments[0]);
  const auto joined = point_in_time_join(spine_of({{1, 15}, {1, 25}}), {both}, options());
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_TRUE(joined->find("view__w")->is_null(0));
  EXPECT_EQ(joined->find("view__w")->strings()[1], "new");
}

TEST(PointInTimeJoin, names_are_bare_or_full_and_never_two_of_a_kind) {
  std::vector<JoinView> views(2);
  views[0].name = "a";
  views[1].name = "b";
  for (JoinView& view : views) view.features = {{{"v", Type::kInt64}, {}}};
  const Status collision = name_features(NameStyle::kBare, {"id"}, views);
  ASSERT_FALSE(collision.ok());
  EXPECT_EQ(collision.error().id, ErrorId::kFeatureNameCollision);
  ASSERT_TRUE(name_features(NameStyle::kFull, {"id", "at"}, views).ok());
  EXPECT_EQ(views[0].features[0].as, "a__v");
  EXPECT_EQ(views[1].features[0].as, "b__v");
  EXPECT_FALSE(name_features(NameStyle::kFull, {"a__v"}, views).ok());
  EXPECT_FALSE(name_features(NameStyle::kFull, {"id", "id"}, views).ok());
}

TEST(PointInTimeJoin, wrong_spines_are_errors_and_never_nulls) {
  const JoinView view = stored(numbered({row(1, 10)}), 4);
  const auto error_of = [&](const Batch& spine, const JoinView& asked) {
    const auto joined = point_in_time_join(spine, {asked}, options());
    EXPECT_FALSE(joined.ok());
    return joined.ok() ? ErrorId{} : joined.error().id;
  };
  Batch texts(table::Schema{{{"id", Type::kString}, {"at", Type::kTimestamp}}});
  texts.columns[0].push_string("1");
  texts.columns[1].push_int(10);
  EXPECT_EQ(error_of(texts, view), ErrorId::kSpineInvalid);
  EXPECT_EQ(error_of(Batch(table::Schema{{{"id", Type::kInt64}}}), view), ErrorId::kSpineInvalid);
  EXPECT_EQ(error_of(Batch(table::Schema{{{"at", Type::kTimestamp}}}), view),
            ErrorId::kEntityKeyMissing);
  JoinView retyped = view;
  retyped.features[0].stored.type = Type::kString;
  EXPECT_EQ(error_of(spine_of({{1, 10}}), retyped), ErrorId::kSchemaMismatch);
  JoinView of_a_key = view;
  of_a_key.features[0].stored.name = "id";
  EXPECT_EQ(error_of(spine_of({{1, 10}}), of_a_key), ErrorId::kSchemaMismatch);
}

// --- Against the oracle --------------------------------------------------------------------------

// The shapes of data that joins meet; a case is a shape and a seed.
enum class Shape : std::uint8_t {
  kUniform,
  kZipf,
  kHotKey,
  kComposite,
  kUntidy,
  kMixedTypes,
  kManyZones,
  kTinySpine,
};
constexpr std::uint32_t kShapes = 8;

class Generator {
 public:
  explicit Generator(std::uint32_t seed)
      : random_(seed), shape_(static_cast<Shape>(seed % kShapes)) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  std::vector<PlainView> views() {
    std::vector<PlainView> out(static_cast<std::size_t>(1 + below(3)));
    for (std::size_t i = 0; i < out.size(); ++i) {
      PlainView& view = out[i];
      view.name = "v" + std::to_string(i);
      view.keys = {{"id", Type::kInt64}};
      if (shape_ == Shape::kComposite) view.keys.insert(view.keys.begin(), {"name", Type::kString});
      if (shape_ == Shape::kComposite && one_in(3)) view.keys.pop_back();
      // Another column with keys: the same entity in two roles.
      if (shape_ != Shape::kComposite && one_in(4)) view.columns = {"other_id"};
      view.ttl = std::vector<std::int64_t>{0, 0, kHour,
                                           30 * 24 * kHour}[static_cast<std::size_t>(below(4))];
      if (one_in(5)) view.created = CreatedRule::kKnownByRow;
      if (one_in(3)) view.available_as = view.name + "__available";
      view.features = {{"a", Type::kFloat64}};
      if (shape_ == Shape::kMixedTypes) {
        view.features = {{"i", Type::kInt64},
                         {"f", Type::kFloat64},
                         {"s", Type::kString},
                         {"b", Type::kBool},
                         {"t", Type::kTimestamp}};
      }
      fill(view);
    }
    return out;
  }

  Batch spine() {
    Batch out(table::Schema{{{"id", Type::kInt64},
                             {"other_id", Type::kInt64},
                             {"name", Type::kString},
                             {"at", Type::kTimestamp}}});
    for (std::int64_t i = shape_ == Shape::kTinySpine ? 1 + below(3) : below(80); i > 0; --i) {
      push(out.columns[0], untidy(key_number()));
      push(out.columns[1], untidy(key_number()));
      push(out.columns[2], untidy(key_text()));
      push(out.columns[3], untidy(time() + (shape_ == Shape::kManyZones ? zone() : 0)));
    }
    return out;
  }

 private:
  std::int64_t key_number() {
    switch (shape_) {
      case Shape::kZipf: {
        // Key k about as often as 1 / k.
        const double u = static_cast<double>(below(1'000'000)) / 1e6;
        return static_cast<std::int64_t>(std::exp(u * std::log(20.0))) - 3;
      }
      case Shape::kHotKey:
        return one_in(5) ? 0 : below(30) - 15;
      default:
        return below(12) - 6;
    }
  }
  std::string key_text() {
    // 24 bytes that differ only at the end, or hardly anything.
    static const std::string kLong(23, 'k');
    const std::int64_t n = below(6);
    return n < 3 ? kLong + static_cast<char>('a' + n)
                 : std::string(static_cast<std::size_t>(n - 3), 'k');
  }
  std::int64_t time() { return (below(60) - 20) * kHour / 2; }
  std::int64_t zone() { return (below(3) - 1) * 4 * kHour; }
  Cell untidy(Cell cell) {
    const bool null = (shape_ == Shape::kUntidy || shape_ == Shape::kComposite) && one_in(20);
    return null ? Cell() : cell;
  }

  Cell value(Type type) {
    if (one_in(7)) return {};
    switch (type) {
      case Type::kBool:
        return one_in(2);
      case Type::kString:
        return one_in(5) ? std::string() : "text " + std::to_string(below(9));
      case Type::kFloat64: {
        const std::vector<double> odd{0.1, -0.0, std::nan(""), INFINITY, 1e300, 3.0};
        return odd[static_cast<std::size_t>(below(6))];
      }
      case Type::kInt64:
      case Type::kTimestamp:
        break;
    }
    return one_in(9) ? kLast : below(one_in(2) ? 100 : 100'000);
  }

  void fill(PlainView& view) {
    const std::int64_t commits = 1 + below(4);
    const bool creation_times = !one_in(3);
    const std::int64_t rows = shape_ == Shape::kTinySpine ? 200 + below(400) : below(160);
    for (std::int64_t i = 0; i < rows; ++i) {
      PlainRow row;
      for (const table::Field& key : view.keys) {
        row.key.push_back(
            untidy(key.type == Type::kString ? Cell(key_text()) : Cell(key_number())));
      }
      row.event = time() + (shape_ == Shape::kManyZones ? zone() : 0);
      if (creation_times && !one_in(4)) row.created = *row.event + below(4) * kHour;
      if (shape_ == Shape::kUntidy && one_in(100)) row.event.reset();
      if (row.event && one_in(20) && !view.rows.empty()) {
        row.key = view.rows.back().key;
        row.event = view.rows.back().event;
      }
      row.commit = static_cast<std::uint64_t>(1 + below(commits));
      row.position = i;
      for (const table::Field& feature : view.features) row.features.push_back(value(feature.type));
      view.rows.push_back(std::move(row));
    }
  }

  std::mt19937_64 random_;
  Shape shape_;
};

std::uint32_t cases() {
  // FALAJ_JOIN_CASES=20000 features_test --gtest_filter='PointInTimeJoin.*' makes a long run.
  const char* wanted = std::getenv("FALAJ_JOIN_CASES");
  return wanted == nullptr ? 5'000 : static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10));
}

std::vector<JoinView> stored(const std::vector<PlainView>& views, std::size_t block_rows,
                             std::size_t parts = 1) {
  std::vector<JoinView> out;
  for (const PlainView& view : views) out.push_back(stored(view, block_rows, parts));
  return out;
}

TEST(PointInTimeJoin, agrees_with_the_oracle_on_every_shape) {
  for (std::uint32_t seed = 0; seed < cases(); ++seed) {
    SCOPED_TRACE(seed);
    Generator generator(seed);
    const std::vector<PlainView> views = generator.views();
    const Batch spine = generator.spine();
    const auto known_at =
        generator.one_in(3) ? static_cast<std::uint64_t>(generator.below(5)) : kAll;
    const auto block_rows = static_cast<std::size_t>(1 + generator.below(40));
    const auto parts = static_cast<std::size_t>(1 + generator.below(3));
    const auto joined =
        point_in_time_join(spine, stored(views, block_rows, parts), options(known_at));
    ASSERT_TRUE(joined.ok()) << joined.error().message;
    ASSERT_EQ(difference(*joined, oracle_join(spine, "at", views, known_at)), "");
  }
}

// --- What must not matter ------------------------------------------------------------------------

class Unmoved : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  Unmoved() : generator_(GetParam()), views_(generator_.views()), spine_(generator_.spine()) {
    while (spine_.rows() < 20) spine_.append(generator_.spine());
  }
  Batch join(const Batch& spine, const std::vector<JoinView>& views,
             JoinOptions how = options()) const {
    auto joined = point_in_time_join(spine, views, how);
    EXPECT_TRUE(joined.ok()) << joined.error().message;
    return joined.ok() ? std::move(joined).value() : Batch();
  }
  Batch join(const Batch& spine) const { return join(spine, stored(views_, 5)); }

  Generator generator_;
  std::vector<PlainView> views_;
  Batch spine_;
};

TEST_P(Unmoved, by_the_order_of_the_spine) {
  std::vector<std::uint32_t> order(spine_.rows());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(GetParam()));
  EXPECT_EQ(difference(join(spine_.take(order)), join(spine_).take(order)), "");
}

TEST_P(Unmoved, by_splitting_the_spine) {
  std::vector<std::uint32_t> head;
  std::vector<std::uint32_t> tail;
  for (std::uint32_t i = 0; i < spine_.rows(); ++i) (i < 7 ? head : tail).push_back(i);
  Batch both = join(spine_.take(head));
  both.append(join(spine_.take(tail)));
  EXPECT_EQ(difference(both, join(spine_)), "");
}

TEST_P(Unmoved, by_rows_that_stand_twice) {
  std::vector<std::uint32_t> twice;
  for (std::uint32_t i = 0; i < spine_.rows(); ++i) twice.insert(twice.end(), 2, i);
  EXPECT_EQ(difference(join(spine_.take(twice)), join(spine_).take(twice)), "");
}

TEST_P(Unmoved, by_moving_all_times) {
  const std::int64_t shift = 4 * kHour;
  for (PlainView& view : views_) view.available_as.clear();  // That column is a time, and moves.
  std::vector<PlainView> moved = views_;
  for (PlainView& view : moved) {
    for (PlainRow& row : view.rows) {
      if (row.event) *row.event += shift;
      if (row.created) *row.created += shift;
    }
  }
  Batch spine = spine_;
  Column time(Type::kTimestamp);
  for (std::size_t i = 0; i < spine.rows(); ++i) {
    const Cell cell = cell_of(spine.columns[3], i);
    const auto* nanos = std::get_if<std::int64_t>(&cell);
    push(time, nanos == nullptr ? Cell() : Cell(*nanos + shift));
  }
  spine.columns[3] = std::move(time);
  EXPECT_EQ(difference(join(spine, stored(moved, 5)), join(spine_)), "");
}

TEST_P(Unmoved, by_how_rows_are_spread_over_segments_and_blocks) {
  const Batch want = join(spine_);
  for (const std::size_t block_rows : {std::size_t{1}, std::size_t{3}, kBlockRows}) {
    EXPECT_EQ(difference(join(spine_, stored(views_, block_rows, 3)), want), "") << block_rows;
  }
}

TEST_P(Unmoved, by_threads_and_by_passes) {
  std::vector<std::uint32_t> many;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    many.push_back(i % static_cast<std::uint32_t>(spine_.rows()));
  }
  const Batch large = spine_.take(many);
  const std::vector<JoinView> views = stored(views_, 5);
  const Batch want = join(spine_).take(many);
  for (const std::size_t threads : {1u, 2u, 5u}) {
    JoinOptions how = options();
    how.threads = threads;
    EXPECT_EQ(difference(join(large, views, how), want), "") << threads;
  }
  JoinOptions how = options();
  how.memory_max = 1;
  Batch pieces;
  int calls = 0;
  const Status done = point_in_time_join(large, views, how, [&](Batch rows) -> Status {
    pieces.append(std::move(rows));
    ++calls;
    return {};
  });
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_GT(calls, 1);
  EXPECT_EQ(difference(pieces, want), "");
}

INSTANTIATE_TEST_SUITE_P(PointInTimeJoin, Unmoved, ::testing::Range(1'000'000u, 1'000'016u));

// --- What is read --------------------------------------------------------------------------------

// Counts the bytes that are asked for.
class CountingReader final : public ByteReader {
 public:
  explicit CountingReader(std::string bytes) : inner_(std::move(bytes)) {}
  std::int64_t size() const override { return inner_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    bytes_read += out.size();
    return inner_.read_at(offset, out);
  }
  mutable std::atomic<std::size_t> bytes_read{0};

 private:
  TextReader inner_;
};

TEST(PointInTimeJoin, a_small_spine_reads_only_the_blocks_that_it_touches) {
  FeatureView declared;
  declared.features = {{"v", Type::kFloat64, {}}, {"w", Type::kFloat64, {}}};
  Entity entity;
  entity.keys = {{"id", Type::kInt64}};
  Batch rows(segment_schema(declared, entity));
  std::mt19937 random(7);
  for (std::int64_t i = 0; i < 400'000; ++i) {
    rows.columns[0].push_int(i / 40);
    rows.columns[1].push_int(i % 40 * kHour);
    rows.columns[2].push_null();
    rows.columns[3].push_int(i);
    rows.columns[4].push_double(static_cast<double>(random()) / 3);
    rows.columns[5].push_double(static_cast<double>(random()) / 3);
  }
  TextWriter writer;
  ASSERT_TRUE(write_segment_file(writer, rows, 1).ok());
  const auto bytes = std::make_shared<CountingReader>(writer.take());
  JoinView view;
  view.keys = entity.keys;
  view.features = {{{"w", Type::kFloat64}, "w"}};
  view.segments = {{std::make_shared<SegmentFile>(SegmentFile::open(bytes).value()), 1}};
  const auto joined =
      point_in_time_join(spine_of({{17, 5 * kHour}, {9'000, kHour / 2}}), {view}, options());
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(joined->columns[0].doubles()[0], rows.columns[5].doubles()[17 * 40 + 5]);
  EXPECT_EQ(joined->columns[0].doubles()[1], rows.columns[5].doubles()[9'000 * 40]);
  // Two blocks of 98, one of two features, and the footer.
  EXPECT_LT(bytes->bytes_read * 20, static_cast<std::size_t>(bytes->size()));
}

}  // namespace
}  // namespace falaj::features
