#include "jobs/checkpoint/retention.h"

#include <gtest/gtest.h>

#include <random>

namespace falaj::jobs::checkpoint {
namespace {

using Numbers = std::set<std::int64_t>;

TEST(Retention, keeps_the_last_and_the_best) {
  const std::vector<Scored> all{{1, 0.5}, {2, 0.9}, {3, 0.7}, {4, {}}, {5, 0.6}};
  EXPECT_EQ(retained(all, {.last = 2, .best = 1}), (Numbers{2, 4, 5}));
  EXPECT_EQ(retained(all, {.last = 1, .best = 2}), (Numbers{2, 3, 5}));
  EXPECT_EQ(retained(all, {.last = 1, .best = 1, .better = Better::kLower}), (Numbers{1, 5}));
  EXPECT_EQ(retained(all, {.last = 9, .best = 0}), (Numbers{1, 2, 3, 4, 5}));
}

TEST(Retention, prefers_the_newer_of_equals_and_never_keeps_nothing) {
  EXPECT_EQ(retained({{3, 0.5}, {1, 0.5}, {2, 0.5}, {4, {}}}, {.last = 1, .best = 1}),
            (Numbers{3, 4}));
  EXPECT_EQ(retained({{7, {}}, {8, {}}}, {.last = 0, .best = 0}), (Numbers{8}));
  EXPECT_TRUE(retained({}, {}).empty());
}

// What is dropped when a save comes would also be dropped by looking at all of them at the end.
TEST(Retention, dropping_early_and_late_keeps_the_same) {
  std::mt19937 random(20'261'116);
  for (int round = 0; round < 500; ++round) {
    const Keep keep{1 + static_cast<int>(random() % 4), static_cast<int>(random() % 4),
                    random() % 2 == 0 ? Better::kHigher : Better::kLower};
    std::vector<Scored> all;
    std::vector<Scored> rolling;
    for (int number = 1; number <= 30; ++number) {
      Scored next{number, {}};
      if (random() % 3 != 0) next.metric = static_cast<double>(random() % 5);
      all.push_back(next);
      rolling.push_back(next);
      const Numbers kept = retained(rolling, keep);
      std::erase_if(rolling, [&](const Scored& each) { return !kept.contains(each.number); });
    }
    ASSERT_EQ(retained(rolling, keep), retained(all, keep)) << round;
  }
}

}  // namespace
}  // namespace falaj::jobs::checkpoint
