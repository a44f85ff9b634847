#include "jobs/local_executor.h"

#include <gtest/gtest.h>

#include "jobs/testing/executor_contract.h"

namespace falaj::jobs {
namespace testing {

INSTANTIATE_TEST_SUITE_P(Local, ExecutorContract,
                         ::testing::Values(MakeExecutor([](const std::string&) {
                           static const SystemClock kClock;
                           return make_local_executor(kClock);
                         })),
                         [](const auto&) { return std::string("executor"); });

}  // namespace testing

namespace {

TEST(AttemptId, is_read_as_it_is_written) {
  const AttemptId id{JobId("01J-x"), 12};
  EXPECT_EQ(to_string(id), "01J-x-12");
  EXPECT_EQ(*parse_attempt("01J-x-12"), id);
  for (const char* text : {"", "a", "-1", "a-", "a-0", "a-1x", "a--1", "a-99999999999"}) {
    EXPECT_FALSE(parse_attempt(text).ok()) << text;
  }
}

}  // namespace
}  // namespace falaj::jobs
