#include "launch/log_rules.h"

#include <gtest/gtest.h>

namespace falaj::launch {
namespace {

TEST(LogRules, the_first_that_matches_counts) {
  const auto rules = LogRules::parse(
      {"exclude=uncorrectable ECC", "stop=out of memory", "retry=(timed|time) out"});
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(rules->match("GPU 3: uncorrectable ECC error; out of memory")->action,
            RuleAction::kExcludeNode);
  EXPECT_EQ(rules->match("RuntimeError: out of memory")->action, RuleAction::kStop);
  EXPECT_EQ(rules->match("RuntimeError: out of memory")->pattern, "out of memory");
  EXPECT_EQ(rules->match("NCCL timed out after 600 s")->action, RuleAction::kRetry);
  EXPECT_FALSE(rules->match("step 3").has_value());
  EXPECT_FALSE(LogRules::parse({})->match("out of memory").has_value());
}

TEST(LogRules, a_pattern_may_hold_an_equals_sign) {
  const auto rules = LogRules::parse({"stop=loss=nan"});
  ASSERT_TRUE(rules.ok());
  EXPECT_TRUE(rules->match("step 7 loss=nan").has_value());
}

TEST(LogRules, looks_at_the_beginning_of_long_lines_only) {
  const auto rules = LogRules::parse({"stop=end$"});
  ASSERT_TRUE(rules.ok());
  std::string line(100, 'x');
  EXPECT_TRUE(rules->match(line.append("end")).has_value());
  line.insert(0, 8000, 'x');
  EXPECT_FALSE(rules->match(line).has_value());
  const char zero[] = {'\0', 'e', 'n', 'd'};
  EXPECT_FALSE(rules->match({zero, sizeof zero}).has_value());
}

TEST(LogRules, refuses_what_it_cannot_read) {
  for (const char* text : {"", "stop", "halt=x", "stop=", "stop=(", "stop=[z"}) {
    const auto rules = LogRules::parse({text});
    ASSERT_FALSE(rules.ok()) << text;
    EXPECT_EQ(rules.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(LogRules::parse({std::string("stop=").append(2000, 'x')}).ok());
  EXPECT_FALSE(LogRules::parse(std::vector<std::string>(65, "stop=x")).ok());
}

}  // namespace
}  // namespace falaj::launch
