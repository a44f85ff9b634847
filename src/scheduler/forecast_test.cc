#include "scheduler/forecast.h"

#include <gtest/gtest.h>

#include "scheduler/testing/random_world.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

const Reason& reason_for(const Decisions& d, Index job) {
  for (const Hold& hold : d.hold) {
    if (hold.job == job) return hold.reason;
  }
  static const Reason none;
  return none;
}

Index run(Snapshot& s, Index queue, Index shape, std::uint16_t gpus, Duration time) {
  const Index job = add_job(s, queue, shape, 0, time);
  s.jobs[job].state = JobState::kRunning;
  s.jobs[job].started = kNow;
  s.jobs[job].placement = {{1}, {{0, gpus}}};
  return job;
}

TEST(Forecast, a_full_queue_on_a_free_machine_opens_when_its_own_jobs_end) {
  Snapshot s = cluster(4);
  const Index root = add_queue(s, "all", kAbsent, 32);
  const Index full = add_queue(s, "full", root, 1);
  s.queues[full].quotas[0].borrow = 0;
  const Index other = add_queue(s, "other", root, 8);
  const Index one = add_shape(s, 1, 1);
  (void)run(s, full, one, 0x01, Duration::hours(2));
  (void)run(s, other, one, 0x02, Duration::minutes(2));  // Its end helps nobody.
  const Index first = add_job(s, full, one);
  const Index second = add_job(s, full, one);
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(reason_for(d, first).code, ReasonCode::kQuota);
  EXPECT_EQ(reason_for(d, first).earliest, kNow + Duration::hours(1));
  EXPECT_EQ(reason_for(d, first).latest, kNow + Duration::hours(2));
  EXPECT_EQ(reason_for(d, second).earliest, kNow + Duration::hours(1));
  EXPECT_EQ(reason_for(d, second).latest, kNow + Duration::hours(4));
}

TEST(Forecast, what_a_queue_keeps_to_itself_comes_free_for_nobody_else) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 2);
  const Index keeps = add_queue(s, "keeps", root, 2);
  s.queues[keeps].quotas[0].lend = 0;
  const Index wants = add_queue(s, "wants", root, 0);
  const Index one = add_shape(s, 1, 1);
  (void)run(s, keeps, one, 0x01, Duration::minutes(2));
  (void)run(s, wants, one, 0x02, Duration::hours(2));
  (void)run(s, wants, one, 0x04, Duration::hours(3));
  const Index waits = add_job(s, wants, one);
  const Reason reason = reason_for(decide(s, Policy{}, kNow, Budget{}), waits);
  EXPECT_EQ(reason.subject, root);
  EXPECT_EQ(reason.earliest, kNow + Duration::hours(1));
  EXPECT_EQ(reason.latest, kNow + Duration::hours(2));
}

TEST(Forecast, who_is_passed_over_for_a_promise_waits_for_an_end_too) {
  Snapshot s = cluster(2);
  const Index queue = add_queue(s, "risk", kAbsent, 100);
  s.queues[queue].within = WithinQueue::kNever;
  const Index half = add_shape(s, 1, 4);
  (void)run(s, queue, half, 0x0f, Duration::hours(2));
  (void)add_job(s, queue, add_shape(s, 2, 8), 1);
  const Index slow = add_job(s, queue, half, 0, Duration::hours(50));
  const Reason reason = reason_for(decide(s, Policy{}, kNow, Budget{}), slow);
  EXPECT_EQ(reason.code, ReasonCode::kReserved);
  EXPECT_GE(reason.earliest, kNow + Duration::hours(1));
  EXPECT_GE(reason.latest, reason.earliest);
}

TEST(Forecast, a_place_in_an_array_comes_free_with_the_end_of_a_member) {
  Snapshot s = cluster(1);
  s.arrays = {{1}};
  const Index queue = add_queue(s, "risk", kAbsent, 100);
  const Index one = add_shape(s, 1, 1);
  s.jobs[run(s, queue, one, 0x01, Duration::hours(2))].array = 0;
  Index waits[2];
  for (Index& job : waits) s.jobs[job = add_job(s, queue, one)].array = 0;
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(reason_for(d, waits[0]).earliest, kNow + Duration::hours(1));
  EXPECT_EQ(reason_for(d, waits[0]).ahead, 0);
  EXPECT_EQ(reason_for(d, waits[1]).latest, kNow + Duration::hours(4));
  EXPECT_EQ(reason_for(d, waits[1]).ahead, 1);
}

TEST(Forecast, memory_that_lacks_decides_when_processors_are_free) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 100);
  const Index large = add_shape(s, 1, 0);
  s.shapes[large].groups[0].memory = 400 * 1024;
  (void)run(s, queue, large, 0, Duration::hours(2));
  const Index waits = add_job(s, queue, large);
  const Reason reason = reason_for(decide(s, Policy{}, kNow, Budget{}), waits);
  EXPECT_EQ(reason.flavor, kMemory);
  EXPECT_EQ(reason.earliest, kNow + Duration::hours(1));
}

// Every one of a line, whoever stands before it: the raise admits it, and one unit less does not.
TEST(Forecast, the_smallest_change_counts_those_who_come_before) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    Snapshot s = cluster(40);
    const Index queue = add_queue(s, "risk", kAbsent, dice.in(0, 3));
    Policy policy;
    policy.order = {};
    policy.order.p50 = policy.order.size = 0;  // First come, first served.
    for (std::int64_t i = dice.in(2, 9); i > 0; --i) {
      (void)add_job(s, queue, add_shape(s, 1, static_cast<std::uint32_t>(dice.in(1, 8))));
    }
    const Decisions d = decide(s, policy, kNow, Budget{});
    for (const Hold& hold : d.hold) {
      if (hold.reason.code != ReasonCode::kQuota) continue;
      const std::int64_t raise = hold.reason.missing + hold.reason.ahead;
      Snapshot raised = s;
      raised.queues[queue].quotas[0].nominal += raise - 1;
      EXPECT_FALSE(starts(decide(raised, policy, kNow, Budget{}), hold.job)) << "seed " << seed;
      raised.queues[queue].quotas[0].nominal += 1;
      EXPECT_TRUE(starts(decide(raised, policy, kNow, Budget{}), hold.job)) << "seed " << seed;
    }
  }
}

TEST(Forecast, a_long_line_gets_a_raise_that_is_enough_for_all) {
  Line line;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 3 * Line::kLooked; ++i) {
    const std::int64_t ahead = line.join(5, 5);
    EXPECT_EQ(ahead, sum);
    sum += 5;
  }
  EXPECT_EQ(line.wanted(), sum);
}

}  // namespace
}  // namespace falaj::scheduler
