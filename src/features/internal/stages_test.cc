#include "features/internal/stages.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

namespace falaj::features {
namespace {

Status nothing(std::size_t, std::size_t) { return {}; }

TEST(Stages, every_task_runs_once_and_by_a_worker_that_there_is) {
  std::array<std::atomic<int>, 50> runs{};
  std::atomic<std::size_t> largest{0};
  const auto count = [&](std::size_t worker, std::size_t task) -> Status {
    ++runs[task];
    std::size_t seen = largest;
    while (worker > seen && !largest.compare_exchange_weak(seen, worker)) {
    }
    return {};
  };
  ASSERT_TRUE(run_stages({{50, count}, {30, count}, {0, nothing}}, 3).ok());
  for (std::size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], i < 30 ? 2 : 1);
  EXPECT_LT(largest, 3u);
}

TEST(Stages, a_stage_waits_for_all_tasks_of_those_before_it) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> first{0};
    std::atomic<int> early{0};
    const auto slow = [&](std::size_t, std::size_t) -> Status {
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      ++first;
      return {};
    };
    const auto late = [&](std::size_t, std::size_t) -> Status {
      if (first != 3) ++early;
      return {};
    };
    // The stage between has nothing to do, and still stands between.
    ASSERT_TRUE(run_stages({{3, slow}, {0, nothing, {0}}, {4, late, {1}}}, 4).ok());
    ASSERT_EQ(early, 0);
  }
}

TEST(Stages, the_first_error_is_told_and_what_waits_for_it_does_not_run) {
  std::atomic<int> later{0};
  const auto fails = [](std::size_t, std::size_t task) -> Status {
    if (task == 1) return Error(Code::kInvalidArgument, "the second");
    return {};
  };
  const auto counts = [&](std::size_t, std::size_t) -> Status {
    ++later;
    return {};
  };
  for (const std::size_t threads : {1u, 2u, 4u}) {
    const Status done = run_stages({{3, fails}, {5, counts, {0}}}, threads);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().message, "the second");
    EXPECT_EQ(later, 0);
  }
}

}  // namespace
}  // namespace falaj::features
