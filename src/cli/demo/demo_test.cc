#include "cli/demo/demo.h"

#include <gtest/gtest.h>

namespace falaj::cli::demo {
namespace {

Value good_result() {
  Value result;
  result["drift_detected"] = true;
  result["action"]["kind"] = "promote";
  result["promoted_version"] = 2;
  result["auc_before"] = 0.7;
  result["auc_after"] = 0.8;
  return result;
}

std::string complaint(const Value& result) {
  const Status status = judge(result);
  return status.ok() ? "" : status.error().message;
}

TEST(DemoJudge, accepts_a_walk_that_detected_promoted_and_improved) {
  EXPECT_EQ(complaint(good_result()), "");
}

TEST(DemoJudge, fails_when_drift_was_not_detected) {
  Value result = good_result();
  result["drift_detected"] = false;
  EXPECT_NE(complaint(result).find("drift was not detected"), std::string::npos);
  EXPECT_EQ(exit_code(judge(result).error().code), ExitCode::kFailed);
}

TEST(DemoJudge, fails_when_nothing_was_promoted) {
  Value result = good_result();
  result["action"]["kind"] = "keep";
  EXPECT_NE(complaint(result).find("nothing was promoted"), std::string::npos);
  EXPECT_EQ(exit_code(judge(result).error().code), ExitCode::kFailed);
}

TEST(DemoJudge, fails_when_the_new_version_is_not_better) {
  Value result = good_result();
  result["auc_after"] = 0.7;
  EXPECT_NE(complaint(result).find("not better"), std::string::npos);
  result["auc_after"] = Value();
  EXPECT_NE(complaint(result).find("not better"), std::string::npos);
}

}  // namespace
}  // namespace falaj::cli::demo
