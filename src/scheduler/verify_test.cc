#include "scheduler/verify.h"

#include <gtest/gtest.h>

#include "scheduler/testing/cluster.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

// Decisions that are right, into which each test plants one fault.
struct Planted : ::testing::Test {
  Planted() : s(cluster(4)) {
    root = add_queue(s, "all", kAbsent, 0);
    a = add_queue(s, "a", root, 8);
    b = add_queue(s, "b", root, 24);
    one = add_shape(s, 1, 1);
    whole = add_shape(s, 1, 8);
    pair = add_shape(s, 2, 2);
    policy.preemption.min_run = Duration::minutes(10);
    // Queue a has borrowed two nodes; b wants them back and starts small things beside.
    for (Index n = 0; n < 3; ++n) {
      const Index job = add_job(s, a, whole);
      s.jobs[job].state = JobState::kRunning;
      s.jobs[job].placement = {{1}, {{n, 0xff}}};
      s.jobs[job].started = s.jobs[job].checkpoint = kNow - Duration::hours(1);
    }
    single = add_job(s, b, one);
    gang = add_job(s, b, pair);
    mine = add_job(s, b, whole);
    s.jobs[single].priority = s.jobs[gang].priority = 1;
    d = decide(s, policy, kNow, without_digests());
  }
  // So that faults may be planted in the snapshot too.
  static Budget without_digests() {
    Budget budget;
    budget.digest = 0;
    return budget;
  }
  bool caught(std::string_view rule) {
    const auto found = verify(s, policy, kNow, d);
    return std::ranges::count(found, rule, &Violation::rule) > 0;
  }
  // It is not what the policy says.
  bool strays(std::string_view rule) {
    const auto found = conform(s, policy, kNow, d);
    return std::ranges::count(found, rule, &Violation::rule) > 0;
  }
  Admit& admitted(Index job) {
    for (Admit& admit : d.admit) {
      if (admit.job == job) return admit;
    }
    ADD_FAILURE() << "job " << job << " did not start";
    return d.admit[0];
  }
  Snapshot s;
  Policy policy;
  Decisions d;
  Index root, a, b, one, whole, pair, single, gang, mine;
};

TEST_F(Planted, nothing_is_found_without_a_fault) {
  EXPECT_EQ(faults(s, policy, kNow, d), std::vector<std::string>{});
  EXPECT_TRUE(starts(d, single));
  EXPECT_FALSE(d.preempt.empty());
}

TEST_F(Planted, a_job_without_outcome) {
  d.hold.pop_back();
  EXPECT_TRUE(caught("outcome"));
}

TEST_F(Planted, a_job_with_two_outcomes) {
  d.admit.push_back(d.admit[0]);
  EXPECT_TRUE(caught("outcome"));
}

TEST_F(Planted, a_job_that_starts_before_its_dependencies) {
  s.jobs[single].unmet_dependencies = 1;
  EXPECT_TRUE(caught("dependency"));
}

TEST_F(Planted, half_a_gang) {
  Placement& placement = admitted(gang).placement;
  placement.counts = {1};
  placement.pods.pop_back();
  EXPECT_TRUE(caught("gang"));
}

TEST_F(Planted, a_gang_that_lacks_a_pod_of_its_count) {
  admitted(gang).placement.pods.pop_back();
  EXPECT_TRUE(caught("gang"));
}

TEST_F(Planted, a_gpu_that_is_given_twice) {
  const PodPlacement other = admitted(gang).placement.pods[0];
  PodPlacement& pod = admitted(single).placement.pods[0];
  pod.node = other.node;
  pod.gpus = static_cast<std::uint16_t>(other.gpus & -other.gpus);
  EXPECT_TRUE(caught("node"));
}

TEST_F(Planted, a_gpu_too_many) {
  admitted(single).placement.pods[0].gpus = 0x03;
  EXPECT_TRUE(caught("device"));
}

TEST_F(Planted, a_gpu_of_another_model) {
  s.shapes[one].groups[0].gpu.models = {kH100};
  EXPECT_TRUE(caught("device"));
}

TEST_F(Planted, more_processors_than_there_are) {
  s.shapes[one].groups[0].cpu = 65'000;
  EXPECT_TRUE(caught("node"));
}

TEST_F(Planted, more_power_than_allowed) {
  s.nodes[3].power_cap = 100;
  EXPECT_TRUE(caught("node"));
}

TEST_F(Planted, an_instance_where_it_may_not_begin) {
  s.shapes[one].groups[0].gpu.mig = MigProfile::k2g;
  admitted(single).placement.pods[0].mig_start = 1;
  EXPECT_TRUE(caught("device"));
  admitted(single).placement.pods[0].mig_start = 2;
  EXPECT_FALSE(caught("device"));
}

TEST_F(Planted, a_pod_across_numa_nodes) {
  s.shapes[one].groups[0].one_numa_node = 1;
  PodPlacement& pod = admitted(single).placement.pods[0];
  pod.numa = (pod.gpus & 0x0f) != 0 ? 1 : 0;
  EXPECT_TRUE(caught("device"));
}

TEST_F(Planted, data_in_a_zone_where_it_may_not_be) {
  s.shapes[one].data_zones = {0b10};
  EXPECT_TRUE(caught("zone"));
}

TEST_F(Planted, a_node_that_is_closed_or_closes_too_soon) {
  s.nodes[3].health = NodeHealth::kCordoned;
  EXPECT_TRUE(caught("closed"));
  s.nodes[3].health = NodeHealth::kUp;
  s.nodes[3].drain_at = kNow + Duration::minutes(59);
  EXPECT_TRUE(caught("closed"));
  s.nodes[3].drain_at = kNow + Duration::minutes(61);
  EXPECT_FALSE(caught("closed"));
  for (Job& job : s.jobs) job.max_run = Duration::hours(2);  // More than it is expected to take.
  EXPECT_TRUE(caught("closed"));
}

TEST_F(Planted, labels_that_are_missing_or_forbidden) {
  s.shapes[one].labels_required = 4;
  EXPECT_TRUE(caught("label"));
}

TEST_F(Planted, pods_too_far_apart_or_too_close) {
  s.shapes[pair].groups[0].max_per_node = 1;
  EXPECT_EQ(caught("crowded"),
            admitted(gang).placement.pods[0].node == admitted(gang).placement.pods[1].node);
  s.shapes[pair].groups[0].max_per_node = kAbsent;
  s.shapes[pair].required = Level::kHost;
  admitted(gang).placement.pods[1].node = 0;
  EXPECT_TRUE(caught("far"));
}

TEST_F(Planted, neighbours_that_must_not_meet) {
  s.shapes[one].avoids = 1;
  s.shapes[pair].tags = 1;
  const bool together =
      admitted(single).placement.pods[0].node == admitted(gang).placement.pods[0].node;
  EXPECT_EQ(caught("company"), together);
  s.shapes[one].avoids = 0;
  s.shapes[one].needs = 8;
  EXPECT_TRUE(caught("company"));
}

TEST_F(Planted, more_than_the_quota) {
  s.queues[b].quotas[0].nominal = 8000;
  s.queues[b].quotas[0].borrow = 0;
  EXPECT_TRUE(caught("quota"));
}

TEST_F(Planted, more_than_the_cohort_lends) {
  s.queues[a].quotas[0].lend = 0;
  s.queues[b].quotas[0].nominal = 1000;
  EXPECT_TRUE(caught("quota"));
}

TEST_F(Planted, money_beyond_cap_and_allowance) {
  s.jobs[single].cost_cap = 1;
  EXPECT_TRUE(caught("cap"));
  s.jobs[single].cost_cap = kUnlimited;
  s.queues[root].allowances = {{AllowanceKind::kEnergy, 1000, 0, kNow + Duration::days(1)}};
  EXPECT_TRUE(caught("allowance"));
}

TEST_F(Planted, pods_that_are_moved_or_taken_for_nobody) {
  Index kept = 0;
  while (std::ranges::count(d.preempt, kept, &Preempt::job) > 0) ++kept;
  s.shapes[whole].groups[0].max = 2;
  const Placement one_pod{{1}, {{kept, 0xff}}};
  d.resize = {{kept, kAbsent, {{1}, {{3, 0xff}}}}};
  EXPECT_TRUE(caught("victim")) << "moved";
  s.jobs[kept].placement = {{2}, {{kept, 0xff}, {kept, 0xff}}};
  d.resize = {{kept, kAbsent, one_pod}};
  EXPECT_TRUE(caught("victim")) << "for nobody";
  d.resize[0].for_job = d.preempt[0].for_job;
  EXPECT_FALSE(caught("victim")) << "pods beyond the minimum may be taken by anybody who claims";
}

TEST_F(Planted, a_place_that_is_kept_for_another) {
  apply(s, d, kNow);
  d = decide(s, policy, kNow, without_digests());
  leave(s);
  d = decide(s, policy, kNow, without_digests());
  ASSERT_TRUE(starts(d, mine));
  // The claim is passed over, and somebody else gets its place.
  const Index thief = add_job(s, b, whole);
  Admit stolen = admitted(mine);
  stolen.job = thief;
  std::erase_if(d.admit, [&](const Admit& admit) { return admit.job == mine; });
  std::erase_if(d.hold, [&](const Hold& hold) { return hold.job == thief; });
  d.admit.push_back(stolen);
  Hold hold{mine, {}};
  hold.reason.code = ReasonCode::kVictimsLeaving;
  d.hold.push_back(hold);
  EXPECT_TRUE(caught("node"));
}

TEST_F(Planted, a_start_that_delays_a_promise) {
  Snapshot t = cluster(1);
  const Index queue = add_queue(t, "risk", kAbsent, 100);
  const Index half = add_shape(t, 1, 4);
  const Index runs = add_job(t, queue, half, 0, Duration::hours(2));
  t.jobs[runs].state = JobState::kRunning;
  t.jobs[runs].placement = {{1}, {{0, 0x0f}}};
  t.jobs[runs].started = kNow;
  add_job(t, queue, add_shape(t, 1, 8), 1);
  const Index late = add_job(t, queue, half, 0, Duration::hours(9));
  Decisions e = decide(t, Policy{}, kNow, Budget{});
  ASSERT_EQ(reason_of(e, late), ReasonCode::kReserved);
  std::erase_if(e.hold, [&](const Hold& hold) { return hold.job == late; });
  e.admit.push_back({late, {{1}, {{0, 0xf0}}}});
  const auto found = verify(t, Policy{}, kNow, e);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "node");
}

TEST_F(Planted, a_victim_that_has_not_run_long_enough) {
  s.jobs[d.preempt[0].job].started = kNow - Duration::minutes(1);
  EXPECT_TRUE(strays("right"));
}

TEST_F(Planted, a_victim_of_a_queue_that_has_borrowed_nothing) {
  s.queues[a].quotas[0].nominal = 24'000;
  EXPECT_TRUE(strays("entitled"));  // The certificate says what was before.
  d.certificate.entitled[root][kA100] = 48'000;
  d.certificate.entitled[a][kA100] = 24'000;
  EXPECT_TRUE(caught("potential"));
  EXPECT_TRUE(strays("right"));
}

TEST_F(Planted, a_victim_that_does_not_run) {
  d.preempt[0].job = single;
  EXPECT_TRUE(caught("victim"));
}

TEST_F(Planted, a_victim_for_nobody) {
  d.preempt[0].for_job = single;
  EXPECT_TRUE(caught("victim"));
}

TEST_F(Planted, wrong_figures_in_the_certificate) {
  d.certificate.steps[0].level += 1;
  EXPECT_TRUE(caught("potential"));
  d.certificate.steps.clear();
  EXPECT_TRUE(caught("potential"));
}

TEST_F(Planted, a_certificate_of_something_else) {
  d = decide(s, policy, kNow, Budget{});
  EXPECT_EQ(faults(s, policy, kNow, d), std::vector<std::string>{});
  d.certificate.snapshot.bytes[0] ^= 1;
  EXPECT_TRUE(caught("other"));
  d.certificate.snapshot.bytes[0] ^= 1;
  d.certificate.policy.bytes[31] ^= 1;
  EXPECT_TRUE(caught("other"));
}

TEST_F(Planted, a_swap_of_equals) {
  // Priority was the right, but both have the same: nothing gets better.
  Snapshot t = cluster(1);
  const Index queue = add_queue(t, "risk", kAbsent, 8);
  const Index shape = add_shape(t, 1, 8);
  const Index runs = add_job(t, queue, shape);
  t.jobs[runs].state = JobState::kRunning;
  t.jobs[runs].placement = {{1}, {{0, 0xff}}};
  t.jobs[runs].started = kNow - Duration::hours(1);
  const Index waits = add_job(t, queue, shape, 1);
  Decisions e = decide(t, policy, kNow, without_digests());
  ASSERT_EQ(e.preempt.size(), 1U);
  EXPECT_TRUE(verify(t, policy, kNow, e).empty());
  t.jobs[waits].priority = 0;
  EXPECT_EQ(conform(t, policy, kNow, e)[0].rule, "order");
  std::swap(e.certificate.order[0], e.certificate.order[1]);
  EXPECT_EQ(verify(t, policy, kNow, e)[0].rule, "potential");
}

TEST_F(Planted, rights_that_the_policy_does_not_give) {
  s.queues[b].reclaim = Reclaim::kNever;
  EXPECT_TRUE(strays("right"));
  s.queues[b].reclaim = Reclaim::kLowerPriority;
  EXPECT_TRUE(strays("right"));
  s.queues[b].reclaim = Reclaim::kAny;
  for (const PreemptCause cause : {PreemptCause::kPriority, PreemptCause::kOrder}) {
    d.preempt[0].cause = cause;
    EXPECT_TRUE(strays("right"));
  }
}

TEST_F(Planted, an_order_and_a_share_that_the_policy_does_not_give) {
  policy.order.size = -9000;
  EXPECT_TRUE(strays("order"));
  policy.order.size = 1000;
  EXPECT_FALSE(strays("order"));
  policy.order.share = 100'000;
  EXPECT_FALSE(strays("order")) << "nobody has used anything";
  s.queues[b].decayed_use = {0, 1'000'000'000};
  EXPECT_FALSE(strays("order")) << "who used more goes later, as it did";
  s.queues[a].decayed_use = {2'000'000'000};
  EXPECT_TRUE(strays("order"));
  policy.order.share = 0;
  s.queues[b].weight = 1;
  EXPECT_FALSE(strays("entitled"));  // Nobody asks for more than is its own but a, the only one.
  d.certificate.entitled[b][kA100] += 1;
  EXPECT_TRUE(strays("entitled"));
}

TEST_F(Planted, positions_that_do_not_exist) {
  const Decisions good = d;
  d.admit[0].job = 99;
  EXPECT_TRUE(caught("form"));
  d = good;
  admitted(gang).placement.pods[0].node = 99;
  EXPECT_TRUE(caught("form"));
  d = good;
  d.certificate.order[0] = d.certificate.order[1];
  EXPECT_TRUE(caught("form"));
  d = good;
  d.certificate.steps[0].admitted = 99;
  EXPECT_TRUE(caught("form"));
}

TEST_F(Planted, a_job_that_waits_without_a_reason) {
  ASSERT_FALSE(d.hold.empty());
  d.hold[0].reason.code = ReasonCode::kNone;
  EXPECT_TRUE(caught("reason"));
}

}  // namespace
}  // namespace falaj::scheduler
