#include "scheduler/decide.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/hash.h"
#include "scheduler/testing/random_world.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

// How many decisions (outcomes of jobs) the property tests take. All ten million:
//   FALAJ_DECISIONS=10000000 FALAJ_SEED=1 scheduler_test --gtest_filter='Decide.*_by_chance'
std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(Decide, breaks_no_rule_in_worlds_by_chance) {
  const std::uint64_t wanted = setting("FALAJ_DECISIONS", 100'000);
  const std::uint64_t seed = setting("FALAJ_SEED", 1);
  std::uint64_t decisions = 0;
  std::uint64_t started = 0;
  std::uint64_t claims = 0;
  std::uint64_t preempted = 0;
  std::uint64_t resized = 0;
  std::uint64_t promised = 0;
  std::uint64_t by_share = 0;  // Claims whose order goes by shares too.
  std::uint64_t larger = 0;    // Starts with more than the least.
  for (std::uint64_t world = 0; decisions < wanted; ++world) {
    Dice dice(seed * 1'000'000'007 + world);
    Snapshot s = random_snapshot(dice);
    const Policy policy = random_policy(dice);
    ASSERT_TRUE(check(s).ok()) << check(s).error().message;
    std::uint64_t next_id = 1000;
    Timestamp now = kNow;
    for (int round = 0; round < 12; ++round) {
      Budget budget;
      budget.digest = 0;
      const Decisions d = decide(s, policy, now, budget);
      const auto wrong = faults(s, policy, now, d);
      ASSERT_TRUE(wrong.empty()) << "seed " << seed << " world " << world << " round " << round
                                 << ": " << wrong[0];
      decisions += d.admit.size() + d.hold.size() + d.preempt.size() + d.resize.size();
      started += d.admit.size();
      claims += d.certificate.steps.size();
      preempted += d.preempt.size();
      resized += d.resize.size();
      promised += d.reserve.size() - d.certificate.steps.size();
      if (policy.order.share != 0) by_share += d.certificate.steps.size();
      for (const Admit& admit : d.admit) {
        std::size_t least = 0;
        for (const TaskGroup& group : s.shapes[s.jobs[admit.job].shape].groups) least += group.min;
        larger += admit.placement.pods.size() > least ? 1 : 0;
      }
      apply(s, d, now);
      ASSERT_TRUE(check(s).ok()) << check(s).error().message;
      now = now + Duration::minutes(dice.in(0, 90));
      disturb(dice, s, now, next_id);
    }
  }
  // A test that never sees the interesting cases proves nothing.
  EXPECT_GT(started, wanted / 50);
  EXPECT_GT(claims, wanted / 2000);
  EXPECT_GT(preempted, wanted / 2000);
  EXPECT_GT(resized, wanted / 2000);
  EXPECT_GT(promised, wanted / 500);
  EXPECT_GT(by_share, wanted / 2000);
  EXPECT_GT(larger, wanted / 2000);
  RecordProperty("decisions", std::to_string(decisions));
  std::printf("decisions %llu started %llu claims %llu preempted %llu resized %llu promised %llu\n",
              static_cast<unsigned long long>(decisions), static_cast<unsigned long long>(started),
              static_cast<unsigned long long>(claims), static_cast<unsigned long long>(preempted),
              static_cast<unsigned long long>(resized), static_cast<unsigned long long>(promised));
}

TEST(Decide, comes_to_rest_and_never_comes_back_in_closed_worlds_by_chance) {
  const std::uint64_t worlds = setting("FALAJ_DECISIONS", 100'000) / 500;
  const std::uint64_t seed = setting("FALAJ_SEED", 1);
  std::size_t preemptions = 0;
  for (std::uint64_t world = 0; world < worlds; ++world) {
    Dice dice(seed * 998'244'353 + world);
    Snapshot s = random_snapshot(dice);
    const Policy policy = random_policy(dice);
    // Half of the jobs come first, the others when those have settled.
    std::vector<std::uint32_t> late(s.jobs.size(), 0);
    for (std::size_t i = 0; i < s.jobs.size(); i += 2) {
      late[i] = s.jobs[i].unmet_dependencies;
      s.jobs[i].unmet_dependencies = 1;
    }
    Settled first = settle(s, policy, kNow);
    for (std::size_t i = 0; i < s.jobs.size(); i += 2) s.jobs[i].unmet_dependencies = late[i];
    Settled second = settle(s, policy, kNow + Duration::hours(2));
    for (const Settled& settled : {first, second}) {
      ASSERT_TRUE(settled.fixed_point) << "seed " << seed << " world " << world;
      ASSERT_FALSE(settled.repeated) << "seed " << seed << " world " << world;
      ASSERT_TRUE(settled.faults.empty())
          << "seed " << seed << " world " << world << ": " << settled.faults[0];
      preemptions += settled.preemptions;
    }
  }
  EXPECT_GT(preemptions, worlds / 10);
}

TEST(Decide, says_the_same_bytes_on_one_and_two_threads) {
  for (std::uint64_t world = 0; world < 300; ++world) {
    Dice dice(world);
    Snapshot s = random_snapshot(dice);
    const Policy policy = random_policy(dice);
    std::uint64_t next_id = 1000;
    for (int round = 0; round < 4; ++round) {
      Budget one;
      Budget two;
      two.threads = 2;
      const Decisions d = decide(s, policy, kNow, one);
      const std::string bytes = encode(d);
      ASSERT_EQ(sha256_hex(bytes), sha256_hex(encode(decide(s, policy, kNow, two))));
      ASSERT_EQ(bytes, encode(decide(s, policy, kNow, one)));
      apply(s, d, kNow);
      disturb(dice, s, kNow, next_id);
    }
  }
}

TEST(Decide, gives_every_waiting_job_one_outcome_and_a_reason) {
  Snapshot s = cluster(2);
  const Index queue = add_queue(s, "risk", kAbsent, 16);
  const Index shape = add_shape(s, 1, 8);
  for (int i = 0; i < 5; ++i) add_job(s, queue, shape);
  s.jobs[4].unmet_dependencies = 2;
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(d.admit.size(), 2U);
  EXPECT_EQ(d.hold.size(), 3U);
  EXPECT_EQ(reason_of(d, 2), ReasonCode::kQuota);
  EXPECT_EQ(reason_of(d, 4), ReasonCode::kDependency);
}

TEST(Decide, lets_who_used_less_of_its_part_go_first_where_share_is_asked) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 8);
  const Index busy = add_queue(s, "busy", root);
  const Index idle = add_queue(s, "idle", root);
  const Index whole = add_shape(s, 1, 8);
  const Index first = add_job(s, busy, whole);
  const Index second = add_job(s, idle, whole);
  s.queues[busy].decayed_use = {0, 512 * 1024 * 3600};         // Memory alone.
  s.queues[idle].decayed_use = {6'400 * 3600, 0, 800 * 3600};  // A tenth of cores and GPUs.
  Policy policy;
  EXPECT_TRUE(starts(decide(s, policy, kNow, Budget{}), first)) << "share is not asked";
  policy.order.share = 1000;
  EXPECT_TRUE(starts(decide(s, policy, kNow, Budget{}), second));
  s.queues[busy].weight = 100'000;
  EXPECT_TRUE(starts(decide(s, policy, kNow, Budget{}), first)) << "its part is larger";
  s.queues[busy].decayed_use = {0, -1};
  EXPECT_FALSE(check(s).ok());
  s.queues[busy].decayed_use.assign(s.flavors.size() + 1, 0);
  EXPECT_FALSE(check(s).ok());
}

TEST(Decide, holds_the_rest_of_an_array_back) {
  Snapshot s = cluster(2);
  const Index queue = add_queue(s, "risk", kAbsent, 16);
  const Index shape = add_shape(s, 1, 1);
  s.arrays = {{3}};
  for (int i = 0; i < 5; ++i) s.jobs[add_job(s, queue, shape)].array = 0;
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(d.admit.size(), 3U);
  EXPECT_EQ(reason_of(d, 4), ReasonCode::kArrayLimit);
}

TEST(Decide, in_a_strict_fifo_lets_nobody_pass) {
  Snapshot s = cluster(2);
  const Index queue = add_queue(s, "risk", kAbsent, 16);
  add_job(s, queue, add_shape(s, 3, 8), 1);
  const Index small = add_job(s, queue, add_shape(s, 1, 1));
  Policy policy;
  policy.reservations = 0;
  EXPECT_TRUE(starts(decide(s, policy, kNow, Budget{}), small));
  policy.strict_fifo = 1;
  EXPECT_EQ(reason_of(decide(s, policy, kNow, Budget{}), small), ReasonCode::kFifo);
}

TEST(Decide, keeps_money_within_the_cap_and_the_allowance) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 8);
  const Index shape = add_shape(s, 1, 1);  // 2 an hour.
  const Index capped = add_job(s, queue, shape, 0, Duration::hours(3));
  s.jobs[capped].cost_cap = 5'000'000;
  EXPECT_EQ(reason_of(decide(s, Policy{}, kNow, Budget{}), capped), ReasonCode::kCostCap);
  s.jobs[capped].cost_cap = 6'000'000;
  EXPECT_TRUE(starts(decide(s, Policy{}, kNow, Budget{}), capped));
  s.queues[queue].allowances = {
      {AllowanceKind::kGpuSeconds, 4 * 3'600'000, 0, kNow + Duration::days(30)}};
  const Index second = add_job(s, queue, shape, 0, Duration::hours(2));
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(d.admit.size(), 1U);
  const Index waits = starts(d, second) ? capped : second;
  EXPECT_EQ(reason_of(d, waits), ReasonCode::kBudget);
}

TEST(Decide, lets_a_job_grow_only_within_its_cap) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 8);
  const Index shape = add_shape(s, 1, 1);  // 2 an hour each.
  s.shapes[shape].groups[0].max = 4;
  const Index job = add_job(s, queue, shape, 0, Duration::hours(1));
  s.jobs[job].state = JobState::kRunning;
  s.jobs[job].placement = {{1}, {{0, 0x01}}};
  s.jobs[job].started = kNow - Duration::hours(1);
  s.jobs[job].cost_cap = 6'000'000;
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(d.resize.size(), 1U);
  EXPECT_EQ(d.resize[0].placement.counts, std::vector<std::uint32_t>{3});
  EXPECT_EQ(faults(s, Policy{}, kNow, d), std::vector<std::string>{});
  s.jobs[job].state = JobState::kPending;
  s.jobs[job].placement = {};
  const Decisions first = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(first.admit.size(), 1U);
  EXPECT_EQ(first.admit[0].placement.counts, std::vector<std::uint32_t>{3});
  EXPECT_EQ(faults(s, Policy{}, kNow, first), std::vector<std::string>{});
}

TEST(Decide, certifies_what_it_decided_upon) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 8);
  add_job(s, queue, add_shape(s, 1, 1));
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(d.certificate.snapshot, digest(s));
  EXPECT_EQ(d.certificate.policy, digest(Policy{}));
  s.jobs[0].priority = 1;
  EXPECT_NE(d.certificate.snapshot, digest(s));
}

TEST(Decide, what_it_decided_upon_is_had_again_from_its_bytes) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Dice dice(seed);
    Snapshot s = random_snapshot(dice);
    const Policy policy = random_policy(dice);
    apply(s, decide(s, policy, kNow, Budget{}), kNow);
    const std::string bytes = encode(s);
    const auto again = decode_snapshot(bytes);
    const auto rules = decode_policy(encode(policy));
    ASSERT_TRUE(again.ok() && rules.ok()) << "seed " << seed;
    EXPECT_EQ(sha256(bytes), digest(s));
    EXPECT_EQ(digest(*again), digest(s));
    EXPECT_EQ(encode(decide(*again, *rules, kNow, Budget{})),
              encode(decide(s, policy, kNow, Budget{})));
    for (std::size_t cut = 0; cut < bytes.size(); cut += 97) {
      EXPECT_FALSE(decode_snapshot(std::string_view(bytes).substr(0, cut)).ok());
    }
    EXPECT_FALSE(decode_snapshot(bytes + '\0').ok());
  }
}

}  // namespace
}  // namespace falaj::scheduler
