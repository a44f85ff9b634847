#include "features/internal/horizon.h"

#include <gtest/gtest.h>

#include <thread>

namespace falaj::features {
namespace {

TEST(Horizon, stands_before_the_first_commit_that_is_under_way) {
  Horizon horizon;
  horizon.pass(4);  // At start: all that there was.
  EXPECT_EQ(horizon.commit(), 4u);
  for (const std::uint64_t commit : {5u, 6u, 7u}) horizon.expect(commit);
  horizon.pass(7);
  horizon.pass(6);
  EXPECT_EQ(horizon.commit(), 4u);
  horizon.pass(5);
  EXPECT_EQ(horizon.commit(), 7u);
}

TEST(Horizon, a_number_that_was_taken_back_is_expected_again) {
  Horizon horizon;
  horizon.expect(1);  // Rolled back, and not told yet,
  horizon.expect(1);  // when the next has the same number.
  horizon.pass(1);
  EXPECT_EQ(horizon.commit(), 0u);
  horizon.pass(1);
  EXPECT_EQ(horizon.commit(), 1u);
}

TEST(Horizon, who_waits_goes_on_when_all_before_have_passed) {
  Horizon horizon;
  horizon.expect(1);
  horizon.expect(2);
  horizon.pass(2);
  std::thread first([&] { horizon.pass(1); });
  horizon.wait(2);
  EXPECT_EQ(horizon.commit(), 2u);
  first.join();
}

}  // namespace
}  // namespace falaj::features
