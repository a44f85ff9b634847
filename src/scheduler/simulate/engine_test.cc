#include "scheduler/simulate/engine.h"

#include <gtest/gtest.h>

#include "scheduler/simulate/baselines.h"
#include "scheduler/simulate/testing/small_world.h"

namespace falaj::scheduler::simulate {
namespace {

TEST(Engine, runs_a_job_that_fits_at_once) {
  const Trace trace = small_trace({{5, 100, 2}});
  const Outcome outcome = replay(trace, small_scenario(1, 4), *greedy_fifo());
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{105}));
  EXPECT_EQ(outcome.busy_by_group[0], Duration::seconds(200));
}

TEST(Engine, refuses_what_no_empty_fleet_would_hold) {
  const Trace trace = small_trace({{0, 10, 9}, {0, 10, 1}});
  const Outcome outcome = replay(trace, small_scenario(1, 8), *strict_fifo());
  EXPECT_EQ(outcome.jobs[0].phase, Phase::kRefused);
  EXPECT_EQ(outcome.jobs[1].phase, Phase::kDone);
}

TEST(Engine, takes_a_failed_job_back_to_its_checkpoint) {
  Scenario scenario = small_scenario(1, 1);
  scenario.interruption.checkpoint_interval = Duration::seconds(1000);
  scenario.faults = {
      .node_mtbf = Duration::seconds(5000), .repair = Duration::seconds(10), .seed = 3};
  const Trace trace = small_trace({{0, 20'000, 1}});
  const Outcome outcome = replay(trace, scenario, *greedy_fifo());
  const JobTrack& job = outcome.jobs[0];
  ASSERT_GT(job.failures, 0);
  EXPECT_EQ(job.held, Duration::seconds(20'000) + job.lost) << "all that is not work is loss";
  EXPECT_GE(job.lost, Duration::seconds(60));
}

TEST(Engine, starts_over_without_checkpoints) {
  Scenario scenario = small_scenario(1, 1);
  scenario.interruption.checkpoint_interval = Duration{};
  scenario.faults = {
      .node_mtbf = Duration::seconds(3000), .repair = Duration::seconds(1), .seed = 3};
  const Trace trace = small_trace({{0, 4000, 1}});
  const JobTrack never = replay(trace, scenario, *greedy_fifo()).jobs[0];
  scenario.interruption.checkpoint_interval = Duration::seconds(100);
  const JobTrack often = replay(trace, scenario, *greedy_fifo()).jobs[0];
  EXPECT_GT(never.lost, often.lost);
}

TEST(Engine, slows_stragglers_down) {
  Scenario scenario = small_scenario(1, 1);
  scenario.faults.straggler_permille = 1000;
  scenario.faults.straggler_speed_permille = 500;
  const Outcome outcome = replay(small_trace({{0, 100, 1}}), scenario, *greedy_fifo());
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{200}));
}

TEST(Engine, averages_over_the_time_with_demand) {
  // 2 of 4 GPUs for the first half of the window, none in the second.
  const Outcome outcome =
      replay(small_trace({{0, 50, 2}, {100, 1, 1}}), small_scenario(1, 4), *greedy_fifo());
  EXPECT_DOUBLE_EQ(outcome.busy_in_window, 0.25);
  EXPECT_DOUBLE_EQ(outcome.idle_while_waiting, 0);
}

TEST(Engine, keeps_a_timeline_of_bounded_length) {
  const Outcome outcome = replay(small_trace({{0, 40'000'000, 1}, {40'000'000, 1, 1}}),
                                 small_scenario(1, 1), *greedy_fifo());
  EXPECT_LE(outcome.timeline.size(), kStretchesMax);
  EXPECT_GT(outcome.timeline.size(), kStretchesMax / 4);
  EXPECT_NEAR(outcome.timeline.front().busy_gpus, 1, 1e-9);
}

}  // namespace
}  // namespace falaj::scheduler::simulate
