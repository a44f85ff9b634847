#include "features/internal/plan_name.h"

#include <gtest/gtest.h>

#include <set>

namespace falaj::features {
namespace {

TEST(PlanName, two_questions_never_have_one) {
  using Wanted = std::vector<ServiceView>;
  const std::vector<Wanted> questions{
      {{"x", {"f"}}, {"y", {"secret", "g"}}},
      {{"x", {"f\ny\tsecret", "g"}}},
      {{"x", {"f 1:y 6:secret"}}},
      {{"x", {"f", "y", "secret", "g"}}},
      {{"x", {"f view 1:y 6:secret", "g"}}},
      {{"x", {"f"}}, {"y", {"secret 1:g"}}},
      {{"x", {}}, {"f", {}}},
      {{"x", {""}}},
      {{"x", {}}},
  };
  std::set<std::string> names;
  for (const Wanted& wanted : questions) {
    names.insert(plan_name(wanted, NameStyle::kFull));
    names.insert(plan_name(wanted, NameStyle::kBare));
    names.insert(plan_name(plan_name(wanted, NameStyle::kBare)));
  }
  EXPECT_EQ(names.size(), questions.size() * 3);
}

}  // namespace
}  // namespace falaj::features
