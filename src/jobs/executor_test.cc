// Every executor, held to one contract. The test program is also its own warden.
#include "jobs/executor.h"

#include <gtest/gtest.h>

#include <string_view>

#include "exec/testing/processes.h"
#include "exec/warden.h"
#include "jobs/local_executor.h"
#include "jobs/testing/executor_contract.h"
#include "jobs/warden_executor.h"

namespace falaj::jobs {
namespace testing {

INSTANTIATE_TEST_SUITE_P(Local, ExecutorContract,
                         ::testing::Values(MakeExecutor([](const std::string&) {
                           static const SystemClock kClock;
                           return make_local_executor(kClock);
                         })),
                         [](const auto&) { return std::string("executor"); });

namespace {

std::unique_ptr<Executor> make_warden(const std::string& folder) {
  auto made = make_warden_executor({folder + "/warden", {exec::testing::own_program(), "warden"}});
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made.ok() ? std::move(*made) : nullptr;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Warden, ExecutorContract, ::testing::Values(MakeExecutor(make_warden)),
                         [](const auto&) { return std::string("executor"); });

// Only of this one: what it started goes on without it.
class WardenExecutorTest : public ExecutorContract {};
INSTANTIATE_TEST_SUITE_P(Warden, WardenExecutorTest, ::testing::Values(MakeExecutor(make_warden)),
                         [](const auto&) { return std::string("executor"); });

TEST_P(WardenExecutorTest, another_one_finds_what_ran_and_what_ended) {
  const AttemptId quick{JobId("quick"), 1};
  const AttemptId slow{JobId("slow"), 2};
  ASSERT_TRUE(executor_->start(quick, script(quick, "exit 4")).ok());
  ASSERT_TRUE(executor_->start(slow, script(slow, "while [ ! -e go ]; do :; done; exit 6")).ok());
  ended(quick);
  executor_.reset();
  executor_ = make_warden(folder_.path());
  executor_->when_changed([this] {
    MutexLock lock(mutex_);
    ++changes_;
    changed_.notify_all();
  });
  const auto found = find(slow);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->end.has_value());
  EXPECT_EQ(ended(quick).end->code, 4);
  std::ofstream(folder_ / "go") << "go";
  EXPECT_EQ(ended(slow).end->code, 6);
}

TEST_P(WardenExecutorTest, a_command_that_no_warden_takes_ends_with_the_reason) {
  const AttemptId id{JobId("odd"), 1};
  Work work = script(id, "true");
  work.argv = {"relative"};
  ASSERT_TRUE(executor_->start(id, work).ok());
  EXPECT_EQ(ended(id).end->reason, EndReason::kNotStarted);
  EXPECT_TRUE(executor_->stop(id).ok());
  EXPECT_TRUE(executor_->forget(id).ok());
  EXPECT_FALSE(find(id).has_value());
}

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

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "warden") {
    return falaj::exec::run_warden({argv[2], falaj::Duration::seconds(20)});
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
