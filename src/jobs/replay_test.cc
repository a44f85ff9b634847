#include "jobs/replay.h"

#include <gtest/gtest.h>

#include "scheduler/simulate/plan.h"

namespace falaj::jobs {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;
const Timestamp kBegin = parse_timestamp("2026-06-15T00:00:00Z").value();  // A Monday.
const Machine kMachine{2000, 8 * kGi, 2, 1};

PastJob past(const std::string& id, const std::string& queue, Duration at, Duration run,
             std::int64_t cpu_milli = 2000) {
  PastJob out;
  out.job.id = JobId(id);
  out.job.project = "pay";
  out.job.request.queue = queue;
  out.job.request.resources = {cpu_milli, kGi, 0};
  out.job.queued_at = kBegin + at;
  out.job.run_max = Duration::hours(2);
  out.run = run;
  return out;
}

Rules rules(const std::vector<std::string>& queues) {
  Rules out;
  out.name = "current";
  for (const std::string& name : queues) {
    out.queues.emplace_back();
    out.queues.back().project = "pay";
    out.queues.back().name = name;
  }
  return out;
}

double wait_of(const scheduler::simulate::Summary& summary, const std::string& queue) {
  for (const auto& tenant : summary.tenants) {
    if (tenant.name == queue) return tenant.wait_mean;
  }
  return -1;
}

TEST(Replay, jobs_run_one_after_the_other_where_only_one_fits) {
  const auto s = replay(kMachine, rules({}),
                        {past("a", "", {}, Duration::minutes(10)),
                         past("b", "", Duration::minutes(1), Duration::minutes(10)),
                         past("c", "", Duration::minutes(2), Duration::minutes(10))});
  EXPECT_EQ(s.jobs, 3);
  EXPECT_EQ(s.refused, 0);
  EXPECT_DOUBLE_EQ(s.wait.mean, (0 + 9 + 18) * 60.0 / 3);
  EXPECT_DOUBLE_EQ(s.utilisation, 1);
  EXPECT_FALSE(s.timeline.empty());
}

TEST(Replay, who_comes_after_another_waits_for_it) {
  PastJob second = past("b", "", {}, Duration::minutes(1), 1000);
  second.job.request.after = {JobId("a")};
  const auto s =
      replay(kMachine, rules({}), {past("a", "", {}, Duration::minutes(10), 1000), second});
  EXPECT_DOUBLE_EQ(s.wait.mean, 10 * 60.0 / 2);
}

TEST(Replay, a_queues_own_part_is_cleared_and_the_work_is_done_again) {
  Rules owned = rules({"own"});
  owned.queues[0].cpu = {2000, 0, kNoLimit};
  const auto s = replay(kMachine, owned,
                        {past("long", "", {}, Duration::minutes(60)),
                         past("short", "own", Duration::minutes(1), Duration::minutes(5))});
  EXPECT_EQ(s.jobs, 2);
  EXPECT_EQ(s.preemptions, 1);
  EXPECT_DOUBLE_EQ(wait_of(s, "pay/own"), 9 * 60.0) << "after the ten minutes everybody has";
  EXPECT_NEAR(s.lost_gpu_hours, 2 * 10 / 60.0, 1e-9);
}

TEST(Replay, a_budget_moves_jobs_into_the_next_window) {
  Rules poor = rules({"poor"});
  poor.policy.prices.micros_per_cpu_hour = 1'000'000;
  poor.queues[0].budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 4'000'000}};
  const auto s = replay(kMachine, poor,
                        {past("a", "poor", {}, Duration::hours(2)),
                         past("b", "poor", Duration::hours(3), Duration::hours(2))});
  EXPECT_EQ(s.jobs, 2);
  EXPECT_DOUBLE_EQ(s.wait.mean, 21 * 3600.0 / 2);
  EXPECT_DOUBLE_EQ(s.cost, 8);
}

TEST(Replay, what_never_starts_is_counted_and_nobody_waits_for_ever) {
  Rules none = rules({"none"});
  none.policy.prices.micros_per_cpu_hour = 1'000'000;
  none.queues[0].budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 1}};
  const auto s = replay(kMachine, none, {past("a", "none", {}, Duration::hours(1))});
  EXPECT_EQ(s.jobs, 0);
  EXPECT_EQ(s.refused, 1);
  EXPECT_EQ(replay(kMachine, none, {}).jobs, 0);
}

TEST(Replay, names_jobs_that_would_miss_their_deadline) {
  PastJob urgent = past("urgent", "", Duration::minutes(1), Duration::minutes(5));
  urgent.job.request.deadline = kBegin + Duration::minutes(30);
  const std::vector<PastJob> jobs{past("a", "", {}, Duration::minutes(10)),
                                  past("b", "", {}, Duration::minutes(20)), urgent};
  Rules careful = rules({});
  careful.policy.policy.order.deadline_slack = Duration::hours(1);
  const auto now = replay(kMachine, careful, jobs);
  EXPECT_TRUE(now.deadlines_missed.empty()) << "it goes first as the deadline is near";
  Rules careless = careful;
  careless.policy.policy.order.deadline_slack = Duration{};
  std::vector<PastJob> quick = jobs;
  for (PastJob& each : quick) each.job.run_max = Duration::minutes(20);
  const auto then = replay(kMachine, careless, quick);
  ASSERT_EQ(then.deadlines_missed, std::vector<std::string>{"urgent"});
  const auto plan = scheduler::simulate::compare(now, then, {});
  ASSERT_FALSE(plan.broken.empty());
  bool named = false;
  for (const std::string& broken : plan.broken) {
    named = named || broken == "job urgent would miss its deadline";
  }
  EXPECT_TRUE(named);
}

TEST(Replay, tells_who_would_wait_longer_and_which_rail_breaks) {
  std::vector<PastJob> jobs;
  for (int i = 0; i < 40; ++i) {
    jobs.push_back(
        past("a" + std::to_string(i), "a", Duration::minutes(10 * i), Duration::minutes(9), 1000));
    jobs.push_back(
        past("b" + std::to_string(i), "b", Duration::minutes(10 * i), Duration::minutes(9), 1000));
  }
  const Rules now = rules({"a", "b"});
  Rules then = now;
  then.name = "next";
  then.queues[1].cpu = {0, 0, kNoLimit};
  const auto refused =
      scheduler::simulate::compare(replay(kMachine, now, jobs), replay(kMachine, then, jobs), {});
  ASSERT_FALSE(refused.broken.empty());
  EXPECT_EQ(refused.broken.front(), "jobs are refused");
  then.queues[1].cpu = {500, 0, kNoLimit};
  for (PastJob& job : jobs) job.job.request.resources.cpu_milli = 500;
  then.policy.policy.strict_fifo = 1;
  const auto same =
      scheduler::simulate::compare(replay(kMachine, now, jobs), replay(kMachine, then, jobs), {});
  EXPECT_TRUE(same.broken.empty()) << same.broken.front();
  for (PastJob& job : jobs) job.run = Duration::minutes(19);
  const auto worse =
      scheduler::simulate::compare(replay(kMachine, now, jobs), replay(kMachine, then, jobs), {});
  EXPECT_EQ(worse.tenants.front().tenant, "pay/b");
  ASSERT_FALSE(worse.broken.empty());
  bool waits = false;
  for (const std::string& broken : worse.broken) {
    waits = waits || broken.starts_with("the mean wait of tenant pay/b grows");
  }
  EXPECT_TRUE(waits);
}

}  // namespace
}  // namespace falaj::jobs
