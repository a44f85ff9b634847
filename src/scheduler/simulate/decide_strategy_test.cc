#include "scheduler/simulate/decide_strategy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "scheduler/simulate/baselines.h"
#include "scheduler/simulate/contest.h"
#include "scheduler/simulate/generate.h"
#include "scheduler/simulate/plan.h"
#include "scheduler/simulate/tenant_use.h"
#include "scheduler/simulate/testing/small_world.h"

namespace falaj::scheduler::simulate {
namespace {

Outcome play(const std::vector<SmallJob>& jobs, const Scenario& scenario,
             const DecideOptions& options) {
  return replay(small_trace(jobs), scenario, *decide_strategy(scenario.fleet, options));
}

// Decides at every instant, so that times come out even.
DecideOptions at_once() {
  DecideOptions options;
  options.cycle = Duration{};
  return options;
}

TEST(DecideStrategy, starts_what_fits_and_lets_others_wait) {
  const Outcome outcome =
      play({{0, 100, 2}, {0, 100, 2}, {0, 100, 1}}, small_scenario(2, 2), at_once());
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{100, 100, 200}));
}

TEST(DecideStrategy, places_gangs_on_whole_nodes) {
  const Outcome outcome = play({{0, 100, 1}, {0, 100, 4}}, small_scenario(2, 2), at_once());
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{200, 100})) << "the gang goes first";
}

TEST(DecideStrategy, preempts_only_after_the_guaranteed_run) {
  DecideOptions options = at_once();
  options.policy.preemption.min_run = Duration::seconds(1000);
  const Outcome outcome = play({{0, 20'000, 1}, {100, 50, 1}}, small_scenario(1, 1), options);
  EXPECT_EQ(outcome.jobs[1].first_start, Timestamp::from_seconds(1000));
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{20'110, 1050}));
}

// The one GPU is taken for 1000 s by a job that nobody preempts; the second is told an interval,
// once, whatever becomes of later ones, and starts when the first ends.
TEST(DecideStrategy, counts_whether_jobs_started_when_they_were_told) {
  DecideOptions options = at_once();
  options.policy.preemption.order = Scope::kNever;
  options.explain = Explain::kFull;
  const Scenario scenario = small_scenario(1, 1);
  const auto strategy = decide_strategy(scenario.fleet, options);
  const Outcome outcome = replay(small_trace({{0, 1000, 1}, {10, 50, 1}}), scenario, *strategy);
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{1000, 1050}));
  const Promises promises = strategy->promises();
  EXPECT_EQ(promises.made, 1);
  EXPECT_EQ(promises.open, 0);
  EXPECT_EQ(promises.within + promises.early + promises.late, 1);
}

// Two waited at the first cycle: the next is two thirty-seconds of the longest gap later.
TEST(DecideStrategy, waits_for_the_next_cycle) {
  DecideOptions options;
  options.cycle = Duration::seconds(320);
  const Outcome outcome =
      play({{0, 500, 2}, {0, 500, 1}, {5, 100, 1}}, small_scenario(2, 2), options);
  EXPECT_EQ(outcome.jobs[2].first_start, Timestamp::from_seconds(20));
}

TEST(DecideStrategy, keeps_a_tenant_within_its_quota) {
  DecideOptions options = at_once();
  options.queues = {{.tenant = "a", .nominal_gpus = 1, .borrow_gpus = 0},
                    {.tenant = "b", .nominal_gpus = 1, .borrow_gpus = 0}};
  const Outcome outcome =
      play({{0, 100, 1, 0}, {0, 100, 1, 0}, {50, 100, 1, 1}}, small_scenario(1, 2), options);
  EXPECT_EQ(ends(outcome), (std::vector<std::int64_t>{100, 200, 150}));
}

// Tenant a had the GPU for a day; then both wait, a's job first.
TEST(DecideStrategy, lets_a_tenant_that_used_less_go_first_where_share_is_asked) {
  const std::vector<SmallJob> jobs = {
      {0, 86'400, 1, 0}, {50'000, 1000, 1, 0}, {60'000, 1000, 1, 1}};
  DecideOptions options = at_once();
  options.policy.order = {};
  options.policy.order.p50 = options.policy.order.size = 0;  // First come, first served.
  options.policy.preemption.order = Scope::kNever;
  const Scenario scenario = small_scenario(1, 1);
  EXPECT_EQ(ends(play(jobs, scenario, options)),
            (std::vector<std::int64_t>{86'400, 87'400, 88'400}));
  options.policy.order.share = 1000;
  EXPECT_EQ(ends(play(jobs, scenario, options)),
            (std::vector<std::int64_t>{86'400, 88'400, 87'400}));
  // By its weight, a's part is so large that it has used less of it.
  options.queues = {{.tenant = "a", .weight = 1'000'000, .nominal_gpus = 1},
                    {.tenant = "b", .nominal_gpus = 1}};
  EXPECT_EQ(
      ends(play({{0, 50'000, 1, 0}, {40'000, 40'000, 1, 1}, {60'000, 9, 1, 1}, {61'000, 9, 1, 0}},
                scenario, options)),
      (std::vector<std::int64_t>{50'000, 90'000, 90'018, 90'009}));
}

// What b had long ago is forgotten by a short half-life, not by a long one.
TEST(DecideStrategy, forgets_what_was_used_by_half_lives) {
  const std::vector<SmallJob> jobs = {
      {0, 100'000, 1, 1}, {2'000'000, 20'000, 1, 0}, {2'010'000, 50, 1, 0}, {2'011'000, 50, 1, 1}};
  DecideOptions options = at_once();
  options.policy.order = {};
  options.policy.order.p50 = options.policy.order.size = 0;
  options.policy.order.share = 1000;
  options.policy.preemption.order = Scope::kNever;
  const Scenario scenario = small_scenario(1, 1);
  options.half_life = Duration::hours(12);
  EXPECT_EQ(ends(play(jobs, scenario, options))[3], 2'020'050) << "a has used more lately";
  options.half_life = Duration::days(30);
  EXPECT_EQ(ends(play(jobs, scenario, options))[3], 2'020'100) << "b has used more";
}

TEST(TenantUse, is_what_was_held_and_fades) {
  TenantUse use(2, Duration::hours(1));
  const auto at = [](std::int64_t hours) { return Timestamp::from_seconds(hours * 3600); };
  use.hold(1, 8000, at(0));
  const std::int64_t full = use.at(1, at(1));
  EXPECT_NEAR(static_cast<double>(full), 8000 * 3600 / std::log(2) / 2, 100);
  use.hold(1, -8000, at(1));
  EXPECT_EQ(use.at(1, at(3)), full / 4);
  EXPECT_EQ(use.at(0, at(3)), 0);
}

// The point of it all, on an invented history: short means, nobody forgotten.
TEST(DecideStrategy, beats_the_baselines_on_an_invented_history) {
  GenerateOptions history;
  history.jobs = 5000;
  history.span = Duration::days(4);
  history.seed = 11;
  const Trace trace = *generate_trace(history);
  const Scenario scenario = small_scenario(24, 8);
  const auto run = [&](const std::string& name) {
    return contest(trace, scenario, **make_strategy(name, scenario.fleet, {}));
  };
  const Summary ours = run("falaj");
  const Summary greedy = run("greedy_fifo");
  EXPECT_LT(ours.jct.mean, run("las").jct.mean);
  EXPECT_LT(ours.jct.mean, 0.85 * greedy.jct.mean);
  EXPECT_LT(ours.jct.mean, 1.2 * run("srsf_oracle").jct.mean);
  EXPECT_LT(ours.large_slowdown, greedy.large_slowdown);
  EXPECT_GT(ours.jain, 0.9);
  EXPECT_LE(ours.preemptions_per_job, 1.0);
}

TEST(PolicyFile, is_read_strictly) {
  const auto file = decode_policy(
      *parse_json(
          R"({"order": {"attained": 500}, "preemption": {"order": "queue", "min_run": "1h"},
          "reservations": 2, "priorities": {"urgent": 500, "batch": -100},
          "queues": [{"tenant": "a", "nominal_gpus": 8}],
          "guard_rails": {"jct_worse_by": "1%", "jain_min": 0.9}})"),
      DecideOptions::default_policy());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->policy.order.attained, 500);
  EXPECT_EQ(file->policy.order.p50, DecideOptions{}.policy.order.p50);
  EXPECT_EQ(file->policy.preemption.order, Scope::kQueue);
  EXPECT_EQ(file->policy.preemption.min_run, Duration::hours(1));
  EXPECT_EQ(file->queues[0].borrow_gpus, -1);
  EXPECT_EQ(file->priorities,
            (std::map<std::string, std::int64_t>{{"batch", -100}, {"urgent", 500}}));
  EXPECT_DOUBLE_EQ(file->guard_rails.jct_worse_by, 0.01);
  for (const char* wrong :
       {R"({"ordre": {}})", R"({"order": {"attaind": 1}})", R"({"preemption": {"order": "all"}})",
        R"({"queues": [{"nominal_gpus": 8}]})", R"({"reservations": -1})",
        R"({"queues": [{"tenant": "a", "weight": 0}]})", R"({"guard_rails": {"jain": 1}})",
        R"({"priorities": {"urgent": 1001}})", R"({"priorities": {"urgent": "high"}})",
        R"({"priorities": {"no name": 1}})"}) {
    EXPECT_FALSE(decode_policy(*parse_json(wrong), Policy{}).ok()) << wrong;
  }
}

}  // namespace
}  // namespace falaj::scheduler::simulate
