#include "base/ids.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace falaj {
namespace {

TEST(Ulid, sorts_by_time_and_within_one_millisecond_by_order) {
  const Timestamp now = Timestamp::from_millis(1'780'000'000'123);
  std::string last = new_ulid(Timestamp{now.nanos - 1'000'000});
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = new_ulid(now);
    ASSERT_EQ(id.size(), 26u);
    ASSERT_EQ(id.find_first_not_of("0123456789ABCDEFGHJKMNPQRSTVWXYZ"), std::string::npos);
    ASSERT_LT(last, id);
    last = id;
  }
  EXPECT_LT(last, new_ulid(Timestamp{now.nanos + 1'000'000}));
}

TEST(Ulid, begins_with_the_time) {
  EXPECT_EQ(new_ulid(Timestamp::from_millis(0)).substr(0, 10), "0000000000");
  // 1469918176385 ms, worked out by hand: 01ARYZ6S41.
  EXPECT_EQ(new_ulid(Timestamp::from_millis(1'469'918'176'385)).substr(0, 10), "01ARYZ6S41");
}

TEST(Ulid, is_unique_across_threads_and_moving_clocks) {
  std::vector<std::vector<std::string>> made(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([&made, t] {
      for (int i = 0; i < 5'000; ++i) made[t].push_back(new_ulid(Timestamp::from_millis(i % 7)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& ids : made) all.insert(ids.begin(), ids.end());
  EXPECT_EQ(all.size(), 20'000u);
}

TEST(Ids, of_different_kinds_are_different_types) {
  static_assert(!std::is_convertible_v<RunId, JobId>);
  static_assert(!std::is_convertible_v<std::string, RunId>);
  EXPECT_LT(RunId("a"), RunId("b"));
  EXPECT_TRUE(RunId().empty());
  EXPECT_EQ(std::hash<RunId>{}(RunId("x")), std::hash<RunId>{}(RunId("x")));
}

}  // namespace
}  // namespace falaj
