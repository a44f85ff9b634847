#include "features/point_in_time_join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "features/key.h"

namespace falaj::features {
namespace {

constexpr std::uint32_t kNone = table::Column::kNoRow;

// Keeps the bytes that rows point to.
struct Keys {
  std::vector<std::string> texts;
  Keys() {
    for (std::int64_t i = 0; i < 20; ++i) texts.push_back(encode_key({i}));
  }
  std::string_view operator[](std::size_t i) const { return texts[i]; }
};
const Keys kKeys;

VersionedRow row(std::size_t key, std::int64_t event, std::int64_t created = 0,
                 std::uint64_t sequence = 0) {
  return {kKeys[key], Timestamp{event}, Timestamp{created}, sequence};
}
SpineRow at(std::size_t key, std::int64_t time) { return {kKeys[key], Timestamp{time}}; }

using Winners = std::vector<std::uint32_t>;

TEST(PointInTimeJoin, takes_the_newest_row_already_known) {
  const std::vector<VersionedRow> rows{row(1, 10), row(1, 20), row(2, 15)};
  const std::vector<SpineRow> spine{at(1, 9),  at(1, 10), at(1, 19),
                                    at(1, 20), at(2, 99), at(3, 99)};
  EXPECT_EQ(point_in_time_join(spine, rows, {}).value(), (Winners{kNone, 0, 0, 1, 2, kNone}));
}

TEST(PointInTimeJoin, both_bounds_of_the_time_to_live_are_inclusive) {
  const std::vector<VersionedRow> rows{row(1, 10)};
  const std::vector<SpineRow> spine{at(1, 10), at(1, 15), at(1, 16)};
  EXPECT_EQ(point_in_time_join(spine, rows, Duration{5}).value(), (Winners{0, 0, kNone}));
}

TEST(PointInTimeJoin, of_equal_event_times_the_later_creation_then_the_later_arrival_wins) {
  const std::vector<VersionedRow> rows{row(1, 10, 1, 9), row(1, 10, 2, 3), row(1, 10, 2, 4)};
  EXPECT_EQ(point_in_time_join(std::vector{at(1, 10)}, rows, {}).value(), (Winners{2}));
}

// Case 1 of what other stores get wrong: the entity has rows, but none in the window.
TEST(PointInTimeJoin, a_spine_row_survives_when_no_row_is_in_the_window) {
  const std::vector<VersionedRow> rows{row(1, 10), row(1, 100)};
  EXPECT_EQ(point_in_time_join(std::vector{at(1, 50)}, rows, Duration{5}).value(),
            (Winners{kNone}));
}

// Case 2: equal key and time, different labels.
TEST(PointInTimeJoin, equal_spine_rows_each_get_their_answer) {
  const std::vector<VersionedRow> rows{row(1, 10)};
  EXPECT_EQ(point_in_time_join(std::vector{at(1, 12), at(1, 12), at(1, 12)}, rows, {}).value(),
            (Winners{0, 0, 0}));
}

// Case 3: (1, 23) and (12, 3) are two entities.
TEST(PointInTimeJoin, composite_keys_are_not_concatenated) {
  const std::string a = encode_key({1, 23});
  const std::string b = encode_key({12, 3});
  const std::vector<VersionedRow> rows{{a, Timestamp{10}, {}, 0}, {b, Timestamp{10}, {}, 1}};
  const std::vector<SpineRow> spine{{b, Timestamp{10}}, {a, Timestamp{10}}};
  EXPECT_EQ(point_in_time_join(spine, rows, {}).value(), (Winners{1, 0}));
}

TEST(PointInTimeJoin, a_null_key_matches_nothing) {
  const std::vector<VersionedRow> rows{row(1, 10)};
  EXPECT_EQ(point_in_time_join(std::vector{SpineRow{"", Timestamp{10}}}, rows, {}).value(),
            (Winners{kNone}));
}

TEST(PointInTimeJoin, extreme_times_do_not_wrap_around) {
  const std::vector<VersionedRow> rows{row(1, Timestamp::min().nanos), row(1, 5)};
  const std::vector<SpineRow> spine{{kKeys[1], Timestamp::min()}, {kKeys[1], Timestamp::max()}};
  EXPECT_EQ(point_in_time_join(spine, rows, Duration::max()).value(), (Winners{0, 1}));
}

TEST(PointInTimeJoin, unsorted_rows_are_refused) {
  for (const auto& rows : {std::vector{row(2, 10), row(1, 10)}, std::vector{row(1, 11), row(1, 10)},
                           std::vector{row(1, 10, 5), row(1, 10, 4)}}) {
    const auto got = point_in_time_join({}, rows, {});
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Code::kInvalidArgument);
  }
}

// The oracle is a linear scan too plain to be wrong; a failure names its seed.
TEST(PointInTimeJoin, agrees_with_a_linear_scan) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
    std::vector<VersionedRow> rows;
    for (std::int64_t i = below(60); i > 0; --i) {
      rows.push_back(row(static_cast<std::size_t>(below(6)), below(30), below(3),
                         static_cast<std::uint64_t>(i)));
    }
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return std::tie(a.key, a.event, a.created, a.sequence) <
             std::tie(b.key, b.event, b.created, b.sequence);
    });
    std::vector<SpineRow> spine;
    for (std::int64_t i = below(40); i > 0; --i) {
      spine.push_back(at(static_cast<std::size_t>(below(7)), below(40)));
      if (below(10) == 0) spine.back().key = "";
    }
    const Duration ttl{below(3) == 0 ? 0 : below(20)};
    Winners want;
    for (const SpineRow& probe : spine) {
      std::uint32_t best = kNone;
      for (std::uint32_t i = 0; i < rows.size(); ++i) {
        const VersionedRow& r = rows[i];
        if (probe.key.empty() || r.key != probe.key || r.event > probe.at) continue;
        if (ttl.nanos > 0 && r.event.nanos < probe.at.nanos - ttl.nanos) continue;
        if (best == kNone ||
            std::tie(r.event, r.created, r.sequence) >
                std::tie(rows[best].event, rows[best].created, rows[best].sequence)) {
          best = i;
        }
      }
      want.push_back(best);
    }
    ASSERT_EQ(point_in_time_join(spine, rows, ttl).value(), want);
  }
}

}  // namespace
}  // namespace falaj::features
