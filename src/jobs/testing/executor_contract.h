// jobs/testing/executor_contract.h — what every Executor does, with real processes.
//
//   INSTANTIATE_TEST_SUITE_P(Local, ExecutorContract, ::testing::Values(make…));
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "base/mutex.h"
#include "jobs/executor.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::testing {

// Makes an executor whose own files, if it has any, are in `folder`.
using MakeExecutor = std::function<std::unique_ptr<Executor>(const std::string& folder)>;

class ExecutorContract : public ::testing::TestWithParam<MakeExecutor> {
 protected:
  void SetUp() override {
    executor_ = GetParam()(folder_.path());
    ASSERT_NE(executor_, nullptr);
    executor_->when_changed([this] {
      MutexLock lock(mutex_);
      ++changes_;
      changed_.notify_all();
    });
  }
  void TearDown() override { executor_->when_changed({}); }

  Work script(const AttemptId& id, const std::string& text) {
    Work work;
    work.argv = {"/bin/sh", "-c", text};
    work.env = {{"PATH", "/usr/bin:/bin"}};
    work.work_dir = folder_.path();
    work.log_path = folder_ / (to_string(id) + ".log");
    work.limits.grace = Duration::milliseconds(200);
    return work;
  }
  // Waits until the attempt has ended.
  Attempt ended(const AttemptId& id) {
    while (true) {
      std::uint64_t seen = 0;
      {
        MutexLock lock(mutex_);
        seen = changes_;
      }
      if (const auto attempt = find(id); attempt && attempt->end) return *attempt;
      MutexLock lock(mutex_);
      const bool told =
          changed_.wait_for(mutex_, std::chrono::seconds(60), [&] { return changes_ != seen; });
      if (!told) {
        ADD_FAILURE() << to_string(id) << " did not end, or nobody said so";
        Attempt none;
        none.end = AttemptEnd{};
        return none;
      }
    }
  }
  std::optional<Attempt> find(const AttemptId& id) {
    const auto listed = executor_->list();
    EXPECT_TRUE(listed.ok());
    if (!listed.ok()) return std::nullopt;
    const auto at = std::find_if(listed->begin(), listed->end(),
                                 [&](const Attempt& each) { return each.id == id; });
    return at == listed->end() ? std::nullopt : std::optional<Attempt>(*at);
  }
  std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  storage::TempFolder folder_;
  Mutex mutex_;
  CondVar changed_;
  std::uint64_t changes_ = 0;
  std::unique_ptr<Executor> executor_;
};

TEST_P(ExecutorContract, runs_and_tells_how_it_ended) {
  const AttemptId id{JobId("a"), 1};
  ASSERT_TRUE(executor_->start(id, script(id, "echo out; echo err >&2; exit 3")).ok());
  const Attempt attempt = ended(id);
  EXPECT_EQ(attempt.end->reason, EndReason::kExited);
  EXPECT_EQ(attempt.end->code, 3);
  EXPECT_EQ(attempt.end->log_bytes_cut, 0);
  EXPECT_EQ(text_of(folder_ / "a-1.log"), "out\nerr\n");
}

TEST_P(ExecutorContract, the_same_attempt_twice_starts_nothing) {
  const AttemptId id{JobId("a"), 1};
  const Work work = script(id, "echo ran >> ran");
  ASSERT_TRUE(executor_->start(id, work).ok());
  ASSERT_TRUE(executor_->start(id, work).ok());
  ended(id);
  ASSERT_TRUE(executor_->start(id, work).ok()) << "it has ended, and was not forgotten";
  EXPECT_EQ(ended(id).end->reason, EndReason::kExited);
  const AttemptId next{JobId("a"), 2};
  ASSERT_TRUE(executor_->start(next, script(next, "echo again >> ran")).ok());
  ended(next);
  EXPECT_EQ(text_of(folder_ / "ran"), "ran\nagain\n");
}

TEST_P(ExecutorContract, stops_a_whole_tree_that_does_not_listen) {
  const AttemptId id{JobId("a"), 1};
  ASSERT_TRUE(executor_->start(id, script(id, "trap '' TERM; sleep 1000 & sleep 1000")).ok());
  EXPECT_EQ(executor_->forget(id).error().code, Code::kConflict) << "it runs";
  ASSERT_TRUE(executor_->stop(id).ok());
  EXPECT_EQ(ended(id).end->reason, EndReason::kStopped);
  EXPECT_TRUE(executor_->stop(id).ok()) << "nothing to do";
  EXPECT_EQ(executor_->stop({JobId("none"), 1}).error().code, Code::kNotFound);
}

TEST_P(ExecutorContract, forgets_what_was_written_down) {
  const AttemptId id{JobId("a"), 1};
  ASSERT_TRUE(executor_->start(id, script(id, "exit 0")).ok());
  ended(id);
  EXPECT_TRUE(executor_->forget(id).ok());
  EXPECT_FALSE(find(id).has_value());
  EXPECT_TRUE(executor_->forget(id).ok()) << "twice is once";
}

TEST_P(ExecutorContract, what_cannot_start_ends_with_the_reason) {
  const AttemptId id{JobId("a"), 1};
  Work work = script(id, "");
  work.argv = {"/no/such/program"};
  ASSERT_TRUE(executor_->start(id, work).ok());
  const Attempt attempt = ended(id);
  EXPECT_EQ(attempt.end->reason, EndReason::kNotStarted);
  EXPECT_NE(attempt.end->detail.find("/no/such/program"), std::string::npos);
}

TEST_P(ExecutorContract, tells_signals_and_time_apart) {
  const AttemptId killed{JobId("killed"), 1};
  const AttemptId late{JobId("late"), 1};
  ASSERT_TRUE(executor_->start(killed, script(killed, "kill -9 $$")).ok());
  Work work = script(late, "exec sleep 1000");
  work.limits.run_time_max = Duration::milliseconds(100);
  ASSERT_TRUE(executor_->start(late, work).ok());
  EXPECT_EQ(ended(killed).end->reason, EndReason::kSignalled);
  EXPECT_EQ(ended(killed).end->code, 9);
  EXPECT_EQ(ended(late).end->reason, EndReason::kTimedOut);
}

TEST_P(ExecutorContract, a_long_log_keeps_its_ends_and_says_what_is_missing) {
  const AttemptId id{JobId("a"), 1};
  Work work = script(
      id, "echo first; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done; echo last");
  work.log_bytes_max = 32 * 1024;
  ASSERT_TRUE(executor_->start(id, work).ok());
  const Attempt attempt = ended(id);
  EXPECT_EQ(attempt.end->code, 0);
  EXPECT_GT(attempt.end->log_bytes_cut, 100'000);
  const std::string log = text_of(folder_ / "a-1.log");
  EXPECT_LT(log.size(), 34u * 1024);
  EXPECT_TRUE(log.starts_with("first\nline 1\n"));
  EXPECT_TRUE(log.ends_with("line 20000\nlast\n"));
  EXPECT_NE(log.find(std::to_string(attempt.end->log_bytes_cut)), std::string::npos);
}

}  // namespace falaj::jobs::testing
