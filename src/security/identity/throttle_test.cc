#include "security/identity/throttle.h"

#include <gtest/gtest.h>

namespace falaj::security {
namespace {

class ThrottleTest : public ::testing::Test {
 protected:
  void fail(int times, const std::string& name, const std::string& address) {
    for (int i = 0; i < times; ++i) throttle_.failed(name, address, clock_.now());
  }
  std::int64_t wait(const std::string& name, const std::string& address) {
    const auto found = throttle_.wait(name, address, clock_.now());
    return found ? found->nanos / 1'000'000'000 : 0;
  }
  FakeClock clock_;
  LoginThrottle throttle_{ThrottleOptions{}};
};

TEST_F(ThrottleTest, a_few_mistakes_are_free) {
  fail(4, "alice", "10.0.0.1");
  EXPECT_EQ(wait("alice", "10.0.0.1"), 0);
}

TEST_F(ThrottleTest, then_each_doubles_the_wait_of_the_name_up_to_its_bound) {
  for (const int expected : {1, 2, 4, 8, 16, 30, 30}) {
    fail(expected == 1 ? 5 : 1, "alice", std::to_string(expected));  // Each from elsewhere.
    EXPECT_EQ(wait("alice", "nowhere"), expected);
    clock_.advance(Duration::seconds(31));
    EXPECT_EQ(wait("alice", "nowhere"), 0);
  }
}

TEST_F(ThrottleTest, an_address_that_tries_many_names_is_held_longer) {
  for (int i = 0; i < 20; ++i) fail(1, "name" + std::to_string(i), "10.0.0.1");
  EXPECT_EQ(wait("fresh", "10.0.0.1"), 15 * 60);
  EXPECT_EQ(wait("fresh", "10.0.0.2"), 0);
}

TEST_F(ThrottleTest, success_frees_the_name_but_not_the_address) {
  fail(8, "alice", "10.0.0.1");
  throttle_.succeeded("alice");
  EXPECT_EQ(wait("alice", "10.0.0.2"), 0);
  EXPECT_GT(wait("alice", "10.0.0.1"), 0);
}

TEST_F(ThrottleTest, failures_are_forgotten_after_an_hour) {
  fail(8, "alice", "10.0.0.1");
  clock_.advance(Duration::minutes(61));
  fail(1, "alice", "10.0.0.1");
  EXPECT_EQ(wait("alice", "10.0.0.1"), 0);
}

TEST_F(ThrottleTest, a_flood_of_names_neither_grows_without_bound_nor_frees_who_is_held) {
  ThrottleOptions options;
  options.entries_max = 100;
  LoginThrottle small(options);
  for (int i = 0; i < 12; ++i) small.failed("alice", "10.0.0.1", clock_.now());
  for (int i = 0; i < 1000; ++i) {
    small.failed("n" + std::to_string(i), "a" + std::to_string(i), clock_.now());
  }
  EXPECT_LE(small.size(), 100u);
  EXPECT_TRUE(small.wait("alice", "elsewhere", clock_.now()));
}

}  // namespace
}  // namespace falaj::security
