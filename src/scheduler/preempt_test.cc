#include "scheduler/preempt.h"

#include <gtest/gtest.h>

#include <optional>

#include "scheduler/testing/cluster.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

Policy impatient() {
  Policy policy;
  policy.preemption.min_run = Duration{};
  policy.reservations = 0;
  return policy;
}

// Nodes of eight GPUs and who is on them; every decision that is asked for is also verified.
struct World {
  explicit World(Index nodes)
      : s(cluster(nodes)), whole(add_shape(s, 1, 8)), half(add_shape(s, 1, 4)) {}

  Index waits(Index queue, Index shape, std::int32_t priority = 0,
              Duration run = Duration::hours(1)) {
    return add_job(s, queue, shape, priority, run);
  }
  Index runs(Index job, std::vector<PodPlacement> pods,
             Timestamp since = kNow - Duration::hours(1)) {
    Job& j = s.jobs[job];
    j.state = JobState::kRunning;
    j.placement.counts = {static_cast<std::uint32_t>(pods.size())};
    j.placement.pods = std::move(pods);
    j.started = j.checkpoint = since;
    return job;
  }
  Decisions decided(const Policy& policy = impatient(), Timestamp now = kNow) const {
    Decisions d = decide(s, policy, now, Budget{});
    EXPECT_EQ(faults(s, policy, now, d), std::vector<std::string>{});
    return d;
  }
  Snapshot s;
  Index whole;
  Index half;
};

// One queue that owns everything.
struct OneQueue : World {
  explicit OneQueue(Index nodes = 1)
      : World(nodes), queue(add_queue(s, "risk", kAbsent, 8 * nodes)) {}
  Index queue;
};

// Two queues of one cohort, a node each.
struct TwoQueues : World {
  TwoQueues() : World(2), root(add_queue(s, "all", kAbsent, 0)) {
    a = add_queue(s, "a", root, 8);
    b = add_queue(s, "b", root, 8);
  }
  Index root;
  Index a;
  Index b;
};

TEST(Preempt, takes_the_victim_that_loses_least) {
  OneQueue w;
  const Index fresh = w.runs(w.waits(w.queue, w.half), {{0, 0x0f}});
  w.runs(w.waits(w.queue, w.half), {{0, 0xf0}});
  w.s.jobs[fresh].checkpoint = kNow - Duration::minutes(1);
  const Index urgent = w.waits(w.queue, w.half, 5);
  const Decisions d = w.decided();
  ASSERT_EQ(d.preempt.size(), 1U);
  EXPECT_EQ(d.preempt[0].job, fresh);
  EXPECT_EQ(d.preempt[0].for_job, urgent);
  EXPECT_EQ(d.preempt[0].cause, PreemptCause::kPriority);
  EXPECT_EQ(reason_of(d, urgent), ReasonCode::kVictimsLeaving);
}

TEST(Preempt, waits_until_the_minimum_run_time_is_over) {
  OneQueue w;
  w.runs(w.waits(w.queue, w.whole), {{0, 0xff}}, kNow - Duration::minutes(9));
  w.waits(w.queue, w.whole, 5);
  Policy policy = impatient();
  policy.preemption.min_run = Duration::minutes(10);
  EXPECT_TRUE(w.decided(policy).preempt.empty());
  EXPECT_EQ(w.decided(policy, kNow + Duration::minutes(1)).preempt.size(), 1U);
}

TEST(Preempt, gives_a_gang_the_nodes_with_the_cheapest_victims_and_spares_the_others) {
  OneQueue w(4);
  for (Index n = 0; n < 4; ++n) {
    w.runs(w.waits(w.queue, w.whole), {{n, 0xff}}, kNow - Duration::minutes(10 * (4 - n)));
  }
  w.waits(w.queue, add_shape(w.s, 2, 8), 5);
  const Decisions d = w.decided();
  ASSERT_EQ(d.preempt.size(), 2U);
  const std::set<Index> victims = {d.preempt[0].job, d.preempt[1].job};
  EXPECT_EQ(victims, (std::set<Index>{2, 3}));
}

TEST(Preempt, never_takes_a_running_job_for_one_of_equal_rank) {
  OneQueue w;
  w.s.queues[w.queue].within = WithinQueue::kSubmittedLater;
  w.runs(w.waits(w.queue, w.whole), {{0, 0xff}});
  w.waits(w.queue, w.whole);
  Policy policy = impatient();
  policy.preemption.margin = 0;
  EXPECT_TRUE(w.decided(policy).preempt.empty());
}

TEST(Preempt, who_came_later_gives_way_in_a_queue_that_says_so) {
  OneQueue w;
  const Index first = w.waits(w.queue, w.whole);
  const Index later = w.runs(w.waits(w.queue, w.whole), {{0, 0xff}});
  EXPECT_TRUE(w.decided().preempt.empty()) << "unless it says so, only a priority counts";
  w.s.queues[w.queue].within = WithinQueue::kSubmittedLater;
  const Decisions d = w.decided();
  ASSERT_EQ(d.preempt.size(), 1U);
  EXPECT_EQ(d.preempt[0].job, later);
  EXPECT_EQ(d.preempt[0].for_job, first);
  EXPECT_EQ(d.preempt[0].cause, PreemptCause::kOrder);
  apply(w.s, d, kNow);
  leave(w.s);
  Settled settled = settle(w.s, impatient(), kNow);
  EXPECT_TRUE(settled.fixed_point);
  EXPECT_EQ(settled.preemptions, 0U) << "the later one does not come back for it";
  EXPECT_EQ(set_of(w.s), std::set<std::uint64_t>{w.s.jobs[first].id});
}

TEST(Preempt, who_came_first_but_goes_later_by_the_policy_pushes_nobody_out) {
  OneQueue w;
  w.s.queues[w.queue].within = WithinQueue::kSubmittedLater;
  w.waits(w.queue, w.whole, 0, Duration::hours(9));
  w.runs(w.waits(w.queue, w.whole, 0, Duration::minutes(1)), {{0, 0xff}});
  EXPECT_TRUE(w.decided().preempt.empty()) << "the shorter one would come back at once";
}

TEST(Preempt, one_who_came_earlier_is_tried_though_one_before_it_in_order_found_nobody) {
  OneQueue w;
  w.s.queues[w.queue].within = WithinQueue::kSubmittedLater;
  const Index early = w.waits(w.queue, w.whole, 0, Duration::hours(2));
  w.runs(w.waits(w.queue, w.whole, 0, Duration::hours(3)), {{0, 0xff}});
  w.waits(w.queue, w.whole, 0, Duration::hours(1));
  const Decisions d = w.decided();
  ASSERT_EQ(d.preempt.size(), 1U);
  EXPECT_EQ(d.preempt[0].for_job, early);
}

TEST(Preempt, by_order_needs_the_margin) {
  OneQueue w;
  w.runs(w.waits(w.queue, w.whole, 0, Duration::hours(3)), {{0, 0xff}});
  const Index shorter = w.waits(w.queue, w.whole, 0, Duration::hours(2));
  Policy policy = impatient();
  policy.preemption.order = Scope::kCluster;
  EXPECT_TRUE(w.decided(policy).preempt.empty());
  w.s.jobs[shorter].remaining_p50 = Duration::minutes(10);
  const Decisions d = w.decided(policy);
  ASSERT_EQ(d.preempt.size(), 1U);
  EXPECT_EQ(d.preempt[0].cause, PreemptCause::kOrder);
}

TEST(Preempt, leaves_a_queue_alone_that_uses_only_what_it_is_entitled_to) {
  TwoQueues w;
  w.runs(w.waits(w.a, w.whole), {{0, 0xff}});
  w.runs(w.waits(w.b, w.whole), {{1, 0xff}});
  w.waits(w.a, w.whole);
  EXPECT_TRUE(w.decided().preempt.empty());
}

TEST(Preempt, reclaims_what_another_queue_has_borrowed) {
  TwoQueues w;
  w.runs(w.waits(w.a, w.whole), {{0, 0xff}});
  w.runs(w.waits(w.a, w.whole), {{1, 0xff}});
  const Index mine = w.waits(w.b, w.whole);
  const Decisions d = w.decided();
  ASSERT_EQ(d.preempt.size(), 1U);
  EXPECT_EQ(d.preempt[0].cause, PreemptCause::kReclaim);
  ASSERT_EQ(d.certificate.steps.size(), 1U);
  EXPECT_EQ(d.certificate.steps[0].level, 0);
  EXPECT_EQ(d.certificate.steps[0].deciding, mine);
  apply(w.s, d, kNow);
  leave(w.s);
  EXPECT_TRUE(starts(w.decided(), mine));
}

TEST(Preempt, a_queue_that_reclaims_nothing_pushes_nobody_out_of_others_by_any_right) {
  TwoQueues w;
  for (Index n = 0; n < 2; ++n) {
    w.runs(w.waits(w.a, w.whole, 0, Duration::hours(9)), {{n, 0xff}});
  }
  const Index waits = w.waits(w.b, w.whole, 5, Duration::minutes(1));
  Policy policy = impatient();
  const auto cause = [&](Reclaim reclaim) -> std::optional<PreemptCause> {
    w.s.queues[w.b].reclaim = reclaim;
    const Decisions d = w.decided(policy);
    return d.preempt.empty() ? std::nullopt : std::optional(d.preempt[0].cause);
  };
  policy.preemption.priority = Scope::kCluster;
  EXPECT_EQ(cause(Reclaim::kAny), PreemptCause::kPriority);
  EXPECT_EQ(cause(Reclaim::kLowerPriority), PreemptCause::kPriority);
  EXPECT_EQ(cause(Reclaim::kNever), std::nullopt);
  w.s.jobs[waits].priority = 0;
  policy.preemption.order = Scope::kCluster;
  EXPECT_EQ(cause(Reclaim::kAny), PreemptCause::kOrder);
  EXPECT_EQ(cause(Reclaim::kLowerPriority), std::nullopt) << "theirs is not lower";
}

TEST(Preempt, takes_pods_beyond_the_minimum_before_whole_jobs) {
  OneQueue w;
  const Index elastic = add_shape(w.s, 1, 1);
  w.s.shapes[elastic].groups[0].max = 8;
  w.runs(w.waits(w.queue, elastic),
         {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {0, 32}, {0, 64}, {0, 128}});
  const Index mine = w.waits(w.queue, add_shape(w.s, 1, 3));
  const Decisions d = w.decided();
  EXPECT_TRUE(d.preempt.empty());
  ASSERT_EQ(d.resize.size(), 1U);
  EXPECT_EQ(d.resize[0].placement.counts, std::vector<std::uint32_t>{5});
  apply(w.s, d, kNow);
  EXPECT_TRUE(starts(w.decided(), mine));
}

// The configurations in which Kueue preempted without end, in its units (thousandths of a core).
struct Loop : ::testing::Test {
  Loop() : s(cluster(1, 0)) { s.classes[0].cpu = 300; }
  void start_over() {
    s.queues.clear();
    s.jobs.clear();
  }
  Index queue(std::string name, Index parent, std::int64_t nominal) {
    const Index q = add_queue(s, std::move(name), parent, 0);
    s.queues[q].quotas = {{kCpu, nominal, kUnlimited, kUnlimited}};
    return q;
  }
  Index job(Index queue, std::int64_t cpu, std::int32_t priority = 0) {
    const Index shape = add_shape(s, 1, 0);
    s.shapes[shape].groups[0].cpu = cpu;
    return add_job(s, queue, shape, priority);
  }
  void expect_settles(const Policy& policy) {
    const Settled settled = settle(s, policy, kNow);
    EXPECT_TRUE(settled.fixed_point);
    EXPECT_FALSE(settled.repeated);
    EXPECT_EQ(settled.faults, std::vector<std::string>{});
  }
  bool runs(Index job) const { return s.jobs[job].state == JobState::kRunning; }
  Snapshot s;
};

TEST_F(Loop, kueue_3779_best_effort_is_not_admitted_and_evicted_for_ever) {
  for (const Entitlement entitlement : {Entitlement::kNominal, Entitlement::kFairShare}) {
    start_over();
    const Index root = queue("testing", kAbsent, 0);
    const Index a = queue("guaranteed-a", root, 150);
    queue("guaranteed-b", root, 150);
    const Index best_effort = queue("best-effort", root, 0);
    job(a, 250, 1);
    job(best_effort, 50, 0);
    Policy policy = impatient();
    policy.preemption.entitlement = entitlement;
    expect_settles(policy);
    job(a, 50, 1);
    expect_settles(policy);
  }
}

TEST_F(Loop, kueue_2821_a_high_priority_borrower_and_a_low_priority_one_do_not_alternate) {
  for (const Scope scope : {Scope::kQueue, Scope::kCohort}) {
    start_over();
    const Index root = queue("all", kAbsent, 0);
    const Index a = queue("a", root, 100);
    const Index b = queue("b", root, 100);
    const Index spare = queue("spare", root, 100);
    (void)spare;
    job(a, 150, 0);
    const Index low = job(b, 150, 0);
    Policy policy = impatient();
    policy.preemption.priority = scope;
    policy.preemption.entitlement = Entitlement::kNominal;
    expect_settles(policy);
    EXPECT_TRUE(runs(low));
    const Index high = job(a, 100, 10);
    expect_settles(policy);
    EXPECT_TRUE(runs(high));
  }
}

TEST_F(Loop, kueue_6947_a_job_that_never_fits_neither_preempts_nor_blocks) {
  s.classes[0].cpu = 3000;
  const Index root = queue("cohort", kAbsent, 0);
  const Index a = queue("a", root, 3000);
  const Index b = queue("b", root, 0);
  const Index small = job(b, 1000);
  expect_settles(impatient());
  EXPECT_TRUE(runs(small));
  const Index impossible = job(a, 4000);
  const Index fits = job(a, 3000);
  expect_settles(impatient());
  EXPECT_TRUE(runs(fits));
  EXPECT_FALSE(runs(impossible));
  EXPECT_FALSE(runs(small));
}

TEST_F(Loop, kueue_14543_victims_of_the_own_queue_do_not_open_the_way_to_others) {
  s.classes[0].cpu = 1000;
  for (const Entitlement entitlement : {Entitlement::kNominal, Entitlement::kFairShare}) {
    start_over();
    const Index root = queue("root", kAbsent, 400);
    const Index left = queue("left", root, 0);
    const Index right = queue("right", root, 0);
    const Index a = queue("a", left, 200);
    const Index b = queue("b", left, 100);
    const Index c = queue("c", right, 300);
    for (const Index q : {a, b, c}) s.queues[q].within = WithinQueue::kSubmittedLater;
    job(a, 200, 0);
    job(a, 200, 0);
    job(b, 100, 0);
    job(b, 200, 0);
    job(c, 300, 0);
    Policy policy = impatient();
    policy.preemption.entitlement = entitlement;
    expect_settles(policy);
    job(a, 300, 1);
    job(b, 250, 1);
    job(c, 100, 0);
    expect_settles(policy);
    job(b, 50, 2);
    job(a, 450, 0);
    expect_settles(policy);
  }
}

TEST_F(Loop, kueue_13797_what_victims_leave_one_by_one_is_kept_for_who_pushed_them_out) {
  s.classes[0].cpu = 2000;
  const Index root = queue("cohort", kAbsent, 0);
  const Index a = queue("a", root, 2000);
  const Index b = queue("b", root, 0);
  const Index first = job(b, 1000);
  const Index second = job(b, 1000);
  expect_settles(impatient());
  const Index large = job(a, 2000);
  const Index thief = job(b, 1000);
  Decisions d = decide(s, impatient(), kNow, Budget{});
  ASSERT_EQ(d.preempt.size(), 2U);
  apply(s, d, kNow);
  s.jobs[first].state = JobState::kPending;  // The first has left, the second has not.
  s.jobs[first].placement = {};
  d = decide(s, impatient(), kNow, Budget{});
  EXPECT_TRUE(d.admit.empty());
  EXPECT_TRUE(d.preempt.empty());
  EXPECT_EQ(faults(s, impatient(), kNow, d), std::vector<std::string>{});
  apply(s, d, kNow);
  s.jobs[second].state = JobState::kPending;
  s.jobs[second].placement = {};
  d = decide(s, impatient(), kNow, Budget{});
  EXPECT_TRUE(starts(d, large));
  EXPECT_FALSE(starts(d, thief));
  EXPECT_EQ(d.admit.size(), 1U);
}

}  // namespace
}  // namespace falaj::scheduler
