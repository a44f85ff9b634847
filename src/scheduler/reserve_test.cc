#include "scheduler/reserve.h"

#include <gtest/gtest.h>

#include "scheduler/explain.h"
#include "scheduler/testing/cluster.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

// One node is busy for two hours, the other for four; a gang wants both.
struct Reserved : ::testing::Test {
  Reserved() : s(cluster(2)) {
    queue = add_queue(s, "risk", kAbsent, 100);
    s.queues[queue].within = WithinQueue::kNever;
    half = add_shape(s, 1, 4);
    for (Index n = 0; n < 2; ++n) {
      const Index job = add_job(s, queue, half, 0, Duration::hours(2 + 2 * n));
      s.jobs[job].state = JobState::kRunning;
      s.jobs[job].placement = {{1}, {{n, 0x0f}}};
      s.jobs[job].started = kNow;
    }
    gang = add_job(s, queue, add_shape(s, 2, 8), 1);
  }
  Decisions decide_now() {
    Decisions d = decide(s, policy, kNow, Budget{});
    EXPECT_EQ(faults(s, policy, kNow, d), std::vector<std::string>{});
    return d;
  }
  Snapshot s;
  Policy policy;
  Index queue, half, gang;
};

TEST_F(Reserved, promises_the_gang_the_time_when_all_have_ended) {
  const Decisions d = decide_now();
  ASSERT_EQ(d.reserve.size(), 1U);
  EXPECT_EQ(d.reserve[0].job, gang);
  EXPECT_EQ(d.reserve[0].from, kNow + Duration::hours(4));
  EXPECT_EQ(reason_of(d, gang), ReasonCode::kCapacity);
  EXPECT_EQ(d.hold[0].reason.latest, kNow + Duration::hours(4));
}

TEST_F(Reserved, lets_a_job_pass_that_ends_before) {
  const Index quick = add_job(s, queue, half, 0, Duration::hours(4));
  const Index slow = add_job(s, queue, half, 0, Duration::hours(5));
  const Decisions d = decide_now();
  EXPECT_TRUE(starts(d, quick));
  EXPECT_EQ(reason_of(d, slow), ReasonCode::kReserved);
}

TEST_F(Reserved, without_reservations_everybody_passes) {
  policy.reservations = 0;
  const Index slow = add_job(s, queue, half, 0, Duration::hours(50));
  EXPECT_TRUE(starts(decide_now(), slow));
}

TEST_F(Reserved, is_kept_when_time_goes_on_and_predictions_hold) {
  Timestamp now = kNow;
  std::uint64_t id = 100;
  for (int hour = 0; hour < 4; ++hour) {
    const Index job = add_job(s, queue, half, 0, Duration::hours(9));
    s.jobs[job].id = ++id;
    const Decisions d = decide(s, policy, now, Budget{});
    ASSERT_EQ(faults(s, policy, now, d), std::vector<std::string>{});
    EXPECT_FALSE(starts(d, gang));
    EXPECT_FALSE(starts(d, job));
    apply(s, d, now);
    now = now + Duration::hours(1);
    for (Job& each : s.jobs) {
      if (each.state == JobState::kRunning) {
        each.remaining_p50 = each.remaining_p90 = each.remaining_p90 - Duration::hours(1);
        if (each.remaining_p90.nanos <= 0) finish(s, static_cast<Index>(&each - s.jobs.data()));
      }
    }
  }
  EXPECT_TRUE(starts(decide(s, policy, now, Budget{}), gang));
}

TEST_F(Reserved, waits_for_the_age_that_the_policy_asks) {
  policy.reserve_after = Duration::hours(2);
  EXPECT_TRUE(decide_now().reserve.empty());
  s.jobs[gang].submitted = kNow - Duration::hours(2);
  EXPECT_EQ(decide_now().reserve.size(), 1U);
}

TEST(Explain, says_what_is_missing_and_when) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 8);
  const Index queue = add_queue(s, "risk", root, 0);
  s.queues[queue].quotas[0].borrow = 4000;
  const Index runs = add_job(s, queue, add_shape(s, 1, 3));
  s.jobs[runs].state = JobState::kRunning;
  s.jobs[runs].placement = {{1}, {{0, 0x07}}};
  s.jobs[runs].started = kNow;
  const Index waits = add_job(s, queue, add_shape(s, 1, 2));
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(d.hold.size(), 1U);
  EXPECT_EQ(d.hold[0].job, waits);
  const Reason& reason = d.hold[0].reason;
  EXPECT_EQ(reason.code, ReasonCode::kQuota);
  EXPECT_EQ(reason.subject, queue);
  EXPECT_EQ(reason.missing, 1000);
  EXPECT_EQ(to_text(s, reason, kNow).substr(0, 46),
            "quota: queue risk lacks 1 of gpu.a100; starts ");
}

TEST(Explain, tells_spans_in_two_units) {
  const auto down = [](std::int64_t milliseconds) {
    return span_text(Duration::milliseconds(milliseconds), Round::kDown);
  };
  const auto up = [](std::int64_t milliseconds) {
    return span_text(Duration::milliseconds(milliseconds), Round::kUp);
  };
  EXPECT_EQ(down(-5000) + " " + up(-5000), "0s 0s");
  EXPECT_EQ(down(1000) + " " + up(3100), "1s 4s");
  EXPECT_EQ(down(59'999) + " " + up(59'001), "59s 1m");
  EXPECT_EQ(down(90'000) + " " + up(120'000), "1m30s 2m");
  EXPECT_EQ(down(3'599'000) + " " + up(3'599'001), "59m59s 1h");
  EXPECT_EQ(down(65'820'000) + " " + up(65'821'000), "18h17m 18h18m");
  EXPECT_EQ(down(86'399'999) + " " + up(86'399'000), "23h59m 1d");
  EXPECT_EQ(down(3'599'000 + 7 * 86'400'000LL), "7d");
}

TEST(Explain, the_smallest_change_is_enough_and_one_less_is_not) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 3);
  const Index waits = add_job(s, queue, add_shape(s, 1, 8));
  const Reason reason = decide(s, Policy{}, kNow, Budget{}).hold[0].reason;
  ASSERT_EQ(reason.code, ReasonCode::kQuota);
  s.queues[queue].quotas[0].nominal += reason.missing - 1;
  EXPECT_FALSE(starts(decide(s, Policy{}, kNow, Budget{}), waits));
  s.queues[queue].quotas[0].nominal += 1;
  EXPECT_TRUE(starts(decide(s, Policy{}, kNow, Budget{}), waits));
}

TEST(Explain, counts_what_is_left_of_a_shared_gpu) {
  Snapshot s = cluster(1, 1);
  const Index queue = add_queue(s, "risk", kAbsent, 8);
  const auto part = [&](std::int64_t fraction) {
    const Index shape = add_shape(s, 1, 1);
    s.shapes[shape].groups[0].gpu.fraction = fraction;
    return shape;
  };
  const Index runs = add_job(s, queue, part(700));
  s.jobs[runs].state = JobState::kRunning;
  s.jobs[runs].placement = {{1}, {{0, 1}}};
  s.jobs[runs].started = kNow;
  add_job(s, queue, part(500));
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(d.hold.size(), 1U);
  EXPECT_EQ(d.hold[0].reason.code, ReasonCode::kCapacity);
  EXPECT_EQ(d.hold[0].reason.missing, 200);
}

TEST(Explain, tells_scattered_from_full_and_impossible_from_closed) {
  Snapshot s = cluster(2);
  const Index queue = add_queue(s, "risk", kAbsent, 100);
  const Index half = add_shape(s, 1, 4);
  for (Index n = 0; n < 2; ++n) {
    const Index job = add_job(s, queue, half);
    s.jobs[job].state = JobState::kRunning;
    s.jobs[job].placement = {{1}, {{n, 0x0f}}};
  }
  const Index scattered = add_job(s, queue, add_shape(s, 1, 8));
  const Index full = add_job(s, queue, add_shape(s, 2, 8));
  const Index impossible = add_job(s, queue, add_shape(s, 3, 8));
  Policy policy;
  policy.reservations = 0;
  Decisions d = decide(s, policy, kNow, Budget{});
  EXPECT_EQ(reason_of(d, scattered), ReasonCode::kFragmented);
  EXPECT_EQ(reason_of(d, full), ReasonCode::kCapacity);
  EXPECT_EQ(reason_of(d, impossible), ReasonCode::kTooLarge);
  s.nodes[1].health = NodeHealth::kCordoned;
  d = decide(s, policy, kNow, Budget{});
  EXPECT_EQ(reason_of(d, full), ReasonCode::kMaintenance);
  s.nodes[1].health = NodeHealth::kHot;
  d = decide(s, policy, kNow, Budget{});
  EXPECT_EQ(reason_of(d, full), ReasonCode::kHot);
  EXPECT_EQ(reason_of(d, impossible), ReasonCode::kTooLarge);
  s.nodes[1].drain_at = kNow;  // When it has cooled down, it closes.
  EXPECT_EQ(reason_of(decide(s, policy, kNow, Budget{}), full), ReasonCode::kMaintenance);
}

TEST(Elastic, grows_into_what_nobody_else_can_use) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 6);
  const Index elastic = add_shape(s, 1, 1);
  s.shapes[elastic].groups[0].max = 8;
  const Index job = add_job(s, queue, elastic);
  s.jobs[job].state = JobState::kRunning;
  s.jobs[job].placement = {{1}, {{0, 0x01}}};
  s.jobs[job].started = kNow - Duration::minutes(10);
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(d.resize.size(), 1U);
  EXPECT_EQ(d.resize[0].job, job);
  EXPECT_EQ(d.resize[0].placement.counts[0], 6U);  // As far as the quota goes.
  EXPECT_EQ(faults(s, Policy{}, kNow, d), std::vector<std::string>{});
  s.jobs[job].started = kNow - Duration::minutes(9);  // It would start again, too soon.
  EXPECT_TRUE(decide(s, Policy{}, kNow, Budget{}).resize.empty());
}

TEST(Elastic, starts_with_all_that_it_may_have) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 7);
  const Index elastic = add_shape(s, 1, 1);
  s.shapes[elastic].groups[0].max = 4;
  const Index runs = add_job(s, queue, elastic);
  s.jobs[runs].state = JobState::kRunning;
  s.jobs[runs].placement = {{1}, {{0, 0x01}}};
  s.jobs[runs].started = kNow;  // Nothing is kept for one that may not grow yet.
  const Index first = add_job(s, queue, elastic);
  const Index second = add_job(s, queue, elastic);
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  ASSERT_EQ(d.admit.size(), 2U);
  EXPECT_TRUE(starts(d, first) && starts(d, second));
  EXPECT_EQ(d.admit[0].placement.pods.size(), 3U) << "one each a round";
  EXPECT_EQ(d.admit[1].placement.pods.size(), 3U);
  EXPECT_TRUE(d.resize.empty());
  EXPECT_EQ(faults(s, Policy{}, kNow, d), std::vector<std::string>{});
}

}  // namespace
}  // namespace falaj::scheduler
