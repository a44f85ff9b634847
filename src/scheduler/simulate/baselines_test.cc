#include "scheduler/simulate/baselines.h"

#include <gtest/gtest.h>

#include "scheduler/simulate/contest.h"
#include "scheduler/simulate/generate.h"
#include "scheduler/simulate/testing/small_world.h"

namespace falaj::scheduler::simulate {
namespace {

Outcome play(std::unique_ptr<Strategy> strategy, const std::vector<SmallJob>& jobs,
             const Scenario& scenario) {
  const Trace trace = small_trace(jobs);
  return replay(trace, scenario, *strategy);
}

// One node of 4: a head that needs all of it waits for 100 s; a small job comes behind it.
const std::vector<SmallJob> kHeadBlocks = {{0, 100, 2}, {1, 100, 4}, {2, 50, 1}, {3, 500, 1}};

TEST(StrictFifo, lets_a_head_that_does_not_fit_block_all) {
  EXPECT_EQ(ends(play(strict_fifo(), kHeadBlocks, small_scenario(1, 4))),
            (std::vector<std::int64_t>{100, 200, 250, 700}));
}

TEST(GreedyFifo, passes_over_what_does_not_fit) {
  EXPECT_EQ(ends(play(greedy_fifo(), kHeadBlocks, small_scenario(1, 4))),
            (std::vector<std::int64_t>{100, 603, 52, 503}));
}

TEST(EasyBackfill, starts_early_only_what_does_not_delay_the_head) {
  EXPECT_EQ(ends(play(easy_backfill_oracle(), kHeadBlocks, small_scenario(1, 4))),
            (std::vector<std::int64_t>{100, 200, 52, 700}));
}

TEST(EasyBackfill, lets_long_jobs_use_what_the_head_leaves) {
  // The head needs 2 of 4 when the first ends; one GPU is left over for ever so long.
  const std::vector<SmallJob> jobs = {{0, 100, 3}, {1, 100, 2}, {2, 1000, 1}};
  EXPECT_EQ(ends(play(easy_backfill_oracle(), jobs, small_scenario(1, 4))),
            (std::vector<std::int64_t>{100, 200, 1002}));
}

TEST(EasyBackfill, free_gpus_that_lie_scattered_are_no_place_for_the_head) {
  // Two nodes of 4 with one GPU free each; the head wants both on one node and has them at 100. Who
  // ends before may use either meanwhile, who does not only the one on the other node.
  const std::vector<SmallJob> jobs = {
      {0, 100, 3}, {0, 1000, 3}, {1, 100, 2}, {2, 50, 1}, {3, 5000, 1}};
  EXPECT_EQ(ends(play(easy_backfill_oracle(), jobs, small_scenario(2, 4))),
            (std::vector<std::int64_t>{100, 1000, 200, 52, 5003}));
}

TEST(MaxMin, serves_the_tenant_that_holds_least) {
  // Tenant 0 fills the node and queues two more; tenant 1 comes last and goes first.
  const std::vector<SmallJob> jobs = {
      {0, 100, 1, 0}, {0, 200, 1, 0}, {1, 50, 1, 0}, {2, 50, 1, 0}, {3, 50, 1, 1}};
  EXPECT_EQ(ends(play(max_min_by_tenant(), jobs, small_scenario(1, 2))),
            (std::vector<std::int64_t>{100, 200, 200, 250, 150}));
}

TEST(Las, pushes_out_who_had_most_and_charges_the_restart) {
  LasOptions options;
  options.level_ends = {Duration::seconds(100)};
  const std::vector<SmallJob> jobs = {{0, 1000, 1}, {200, 50, 1}};
  const Outcome outcome = play(least_attained_service(options), jobs, small_scenario(1, 1));
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{1110, 250}));
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(outcome.jobs[0].lost, Duration::seconds(60));
}

TEST(Las, demotes_a_running_job_when_it_crosses_a_level) {
  LasOptions options;
  options.level_ends = {Duration::seconds(100)};
  // The second waits on the first level until the first falls to the next.
  const std::vector<SmallJob> jobs = {{0, 1000, 1}, {10, 50, 1}};
  EXPECT_EQ(ends(play(least_attained_service(options), jobs, small_scenario(1, 1))),
            (std::vector<std::int64_t>{1110, 150}));
}

TEST(Srsf, serves_the_shortest_remaining_service) {
  const std::vector<SmallJob> jobs = {{0, 1000, 2}, {10, 600, 1}, {20, 100, 2}};
  const Outcome outcome = play(shortest_remaining_service_oracle(), jobs, small_scenario(1, 2));
  EXPECT_EQ(ends(outcome)[2], 120);
  EXPECT_LT(ends(outcome)[1], ends(outcome)[0]);
}

TEST(Preemption, clears_whole_nodes_for_a_gang) {
  const std::vector<SmallJob> jobs = {{0, 5000, 1}, {0, 4000, 2}, {0, 9000, 2}, {10, 100, 4}};
  const Outcome outcome = play(shortest_remaining_service_oracle(), jobs, small_scenario(2, 2));
  EXPECT_EQ(outcome.jobs[3].first_start, Timestamp::from_seconds(10));
  EXPECT_EQ(ends(outcome)[3], 110);
}

// Whatever the policy: every job ends, has had its work, and no GPU is held twice (the cluster
// stops the process otherwise).
TEST(EveryPolicy, ends_every_job_with_all_its_work_done) {
  GenerateOptions options;
  options.jobs = 1500;
  options.span = Duration::days(2);
  options.seed = 7;
  const Trace trace = *generate_trace(options);
  Scenario scenario = small_scenario(6, 8);
  scenario.faults.node_mtbf = Duration::days(3);
  scenario.faults.straggler_permille = 50;
  for (const std::string& name : strategy_names()) {
    auto strategy = make_strategy(name, scenario.fleet, {});
    ASSERT_TRUE(strategy.ok());
    const Outcome outcome = replay(trace, scenario, **strategy);
    EXPECT_GT(outcome.node_failures, 0);
    for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
      const JobTrack& job = outcome.jobs[i];
      if (trace.jobs[i].gpus > 48) {
        EXPECT_EQ(job.phase, Phase::kRefused);
        continue;
      }
      ASSERT_EQ(job.phase, Phase::kDone) << name << " job " << i;
      EXPECT_GE(job.held, trace.jobs[i].duration) << name << " job " << i;
      EXPECT_GE(job.end - trace.jobs[i].submit, job.held) << name << " job " << i;
      EXPECT_GE(job.first_start, trace.jobs[i].submit) << name << " job " << i;
    }
  }
}

TEST(EveryPolicy, is_deterministic) {
  GenerateOptions options;
  options.jobs = 800;
  options.span = Duration::days(1);
  const Trace trace = *generate_trace(options);
  Scenario scenario = small_scenario(4, 8);
  scenario.faults.node_mtbf = Duration::days(5);
  for (const std::string& name : strategy_names()) {
    const Outcome once = replay(trace, scenario, **make_strategy(name, scenario.fleet, {}));
    const Outcome again = replay(trace, scenario, **make_strategy(name, scenario.fleet, {}));
    EXPECT_EQ(ends(once), ends(again)) << name;
  }
}

TEST(EveryPolicy, is_found_by_name_only) {
  const auto wrong = make_strategy("greedy_fifi", {.groups = {{}}}, {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("greedy_fifo"), std::string::npos);
}

}  // namespace
}  // namespace falaj::scheduler::simulate
