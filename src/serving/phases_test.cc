#include "serving/phases.h"

#include <gtest/gtest.h>

namespace falaj::serving {
namespace {

TEST(Phases, are_told_in_order_and_in_milliseconds) {
  PhaseTimes times;
  times[Phase::kRender] = 1'234'567;
  times[Phase::kParse] = 12'400;
  times[Phase::kExecute] = 20'000'000'000;
  EXPECT_EQ(server_timing(times), "parse;dur=0.012, execute;dur=20000.000, render;dur=1.235");
}

TEST(Phases, leave_out_what_did_not_happen) {
  EXPECT_EQ(server_timing({}), "");
  PhaseTimes times;
  times[Phase::kQueue] = 1;
  EXPECT_EQ(server_timing(times), "queue;dur=0.000");
}

TEST(Phases, have_a_word_each) {
  std::string all;
  for (const Phase phase : kPhases) all.append(phase_word(phase)).append(" ");
  EXPECT_EQ(all, "parse authorise features queue batch execute render ");
}

}  // namespace
}  // namespace falaj::serving
