#include "features/internal/view_copy.h"

#include <gtest/gtest.h>

namespace falaj::features {
namespace {

TEST(SweepGate, a_sweep_that_frees_too_little_is_not_begun_again_for_every_row) {
  std::atomic<std::int64_t> bytes{1'600};
  SweepGate gate({bytes, 1'600});
  EXPECT_FALSE(gate.due());
  bytes = 1'601;
  EXPECT_TRUE(gate.due());
  bytes = gate.target();
  gate.swept();
  bytes = 1'600;
  EXPECT_FALSE(gate.due());
  bytes = 5'000;  // And nothing of it may go.
  EXPECT_TRUE(gate.due());
  gate.swept();
  bytes = 5'100;
  EXPECT_FALSE(gate.due());
  bytes = 5'101;
  EXPECT_TRUE(gate.due()) << "much came on top";
  gate.swept();
  EXPECT_FALSE(gate.due());
  gate.changed();
  EXPECT_TRUE(gate.due());
}

TEST(SweepGate, is_never_due_without_a_bound) {
  std::atomic<std::int64_t> bytes{1'000'000};
  SweepGate gate({bytes, 0});
  EXPECT_FALSE(gate.due());
  gate.swept();
  gate.changed();
  EXPECT_FALSE(gate.due());
}

}  // namespace
}  // namespace falaj::features
