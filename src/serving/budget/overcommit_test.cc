#include "serving/budget/overcommit.h"

#include <gtest/gtest.h>

namespace falaj::serving::budget {
namespace {

const Timestamp kNow = Timestamp::from_seconds(1'780'000'000);
Timestamp ago(std::int64_t seconds) { return kNow - Duration::seconds(seconds); }
using Positions = std::vector<std::size_t>;

TEST(ToUnload, takes_what_was_used_longest_ago_and_no_more_than_needed) {
  const std::vector<Loaded> loaded{{10, ago(60)}, {20, ago(600)}, {30, ago(6)}};
  EXPECT_EQ(to_unload(loaded, 1, kNow), Positions({1}));
  EXPECT_EQ(to_unload(loaded, 20, kNow), Positions({1}));
  EXPECT_EQ(to_unload(loaded, 21, kNow), Positions({1, 0}));
  EXPECT_EQ(to_unload(loaded, 60, kNow), Positions({1, 0, 2}));
  EXPECT_EQ(to_unload(loaded, 61, kNow), Positions()) << "none leaves in vain";
  EXPECT_EQ(to_unload(loaded, 0, kNow), Positions());
  EXPECT_EQ(to_unload({}, 1, kNow), Positions());
}

TEST(ToUnload, leaves_who_is_at_work) {
  const std::vector<Loaded> loaded{{10, ago(0)}, {10, ago(1)}};
  EXPECT_EQ(to_unload(loaded, 10, kNow), Positions({1}));
  EXPECT_EQ(to_unload(loaded, 11, kNow), Positions());
}

TEST(ToUnload, decides_equals_by_their_order) {
  const std::vector<Loaded> loaded{{0, ago(9)}, {10, ago(9)}, {10, ago(9)}};
  EXPECT_EQ(to_unload(loaded, 10, kNow), Positions({1})) << "what has nothing gives nothing";
}

TEST(ToPrefetch, brings_back_what_fits_and_was_used_last) {
  std::vector<Resting> resting{{10, ago(60)}, {10, ago(5)}, {50, ago(1)}, {10, ago(5)}};
  EXPECT_EQ(to_prefetch(resting, 10), std::size_t{1});
  EXPECT_EQ(to_prefetch(resting, 50), std::size_t{2});
  EXPECT_EQ(to_prefetch(resting, 9), std::nullopt);
  resting[0].wanted = Resting::Wanted::kMoved;
  EXPECT_EQ(to_prefetch(resting, 50), std::size_t{0}) << "its alias moved";
}

}  // namespace
}  // namespace falaj::serving::budget
