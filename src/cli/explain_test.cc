#include "cli/explain.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::cli {
namespace {

TEST(ContributionBars, stand_on_both_sides_of_the_middle_largest_first) {
  const Value explanation =
      parse_json(R"({"base_value":-2.5,"value":0.5,"contributions":{"age":-1,"amount":4,"zip":0}})")
          .value();
  EXPECT_EQ(contribution_bars(explanation, 9),
            "  amount                 │████████████████ +4\n"
            "  age                ████│                 -1\n"
            "  zip                    │                 +0\n"
            "  -2.5 without knowing anything, 0.5 with all of it\n");
}

TEST(ContributionBars, sum_up_the_small_ones_and_tell_the_error) {
  const Value explanation =
      parse_json(R"({"base_value":0,"value":3.5,"contributions":{"a":4,"b":-1,"c":0.5},)"
                 R"("standard_errors":{"a":0.25,"b":0,"c":0}})")
          .value();
  EXPECT_EQ(contribution_bars(explanation, 1),
            "  a                        │████████████████ +4 ±0.25\n"
            "  2 others               ██│                 -0.5\n"
            "  0 without knowing anything, 3.5 with all of it\n");
}

TEST(ContributionBars, survive_a_server_that_answers_otherwise) {
  EXPECT_NE(contribution_bars(Value(), 3), "");
  EXPECT_NE(contribution_bars(parse_json(R"({"contributions":{"a":"x"}})").value(), 3), "");
}

}  // namespace
}  // namespace falaj::cli
