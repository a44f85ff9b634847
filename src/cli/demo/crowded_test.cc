#include "cli/demo/crowded.h"

#include <gtest/gtest.h>

namespace falaj::cli::demo {
namespace {

Value job(int number) {
  Value out;
  out["name"] = "job-" + std::to_string(number);
  out["code"] = "quota";
  out["reason"] = "waits";
  out["constraint"] = "queue " + std::to_string(number);
  out["change"] = "more";
  return out;
}

TEST(CrowdJudge, wants_every_job_explained_and_several_constraints) {
  Value jobs = Value::array();
  for (int i = 0; i < 4; ++i) jobs.push(job(i));
  ASSERT_FALSE(judge_crowd(jobs).ok()) << "four constraints only";
  EXPECT_EQ(judge_crowd(jobs).error().code, Code::kFailedPrecondition) << "a busy machine";
  jobs.push(job(4));
  EXPECT_TRUE(judge_crowd(jobs).ok());
  jobs.as_array()[2]["change"] = "";
  EXPECT_NE(judge_crowd(jobs).error().message.find("job-2 waits without a change"),
            std::string::npos);
}

}  // namespace
}  // namespace falaj::cli::demo
