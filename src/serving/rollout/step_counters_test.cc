#include "serving/rollout/step_counters.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace falaj::serving::rollout {
namespace {

// What was counted, looked at once.
Evidence seen(StepCounters& counters, Timestamp now = {}) {
  Evidence evidence;
  counters.observe(now, evidence);
  return evidence;
}

Answered scored(std::uint64_t unit, float score) { return {unit, 1'000'000, 1, 0, score}; }

TEST(StepCounters, counts_requests_but_each_unit_votes_once) {
  StepCounters counters(StepKind::kShared, {0.25F, 0.5F});
  for (int i = 0; i < 5; ++i) counters.answered(ArmName::kCandidate, scored(1, 0.5F));
  counters.answered(ArmName::kCandidate, scored(2, 0.9F));
  for (int i = 0; i < 9; ++i) counters.failed(ArmName::kCandidate, 3);
  counters.failed(ArmName::kCandidate, 1);
  counters.answered(ArmName::kCandidate,
                    {4, 2'000'000, 3, 2, std::numeric_limits<float>::quiet_NaN()});
  const Arm arm = seen(counters).whole.candidate;
  EXPECT_EQ(arm.requests, 17);
  EXPECT_EQ(arm.units, 4);
  EXPECT_EQ(arm.errors, 1) << "one customer who fails nine times is one";
  EXPECT_EQ(arm.scored, 3);
  EXPECT_EQ(arm.nans, 1);
  EXPECT_EQ(arm.scores, (std::vector<std::int64_t>{0, 1, 1})) << "an edge belongs below it";
  ASSERT_EQ(arm.latency.size(), 2U);
  EXPECT_GE(arm.latency[0].upper_nanos, 1'000'000);
  EXPECT_LT(arm.latency[0].upper_nanos, 1'040'000);
  EXPECT_EQ(arm.latency[0].count, 2);
  Arm none;
  none.scores = {0, 0, 0};
  EXPECT_EQ(seen(counters).whole.champion, none);
}

TEST(StepCounters, gives_every_unit_a_vote_again_in_each_window) {
  StepCounters counters(StepKind::kShared, {0.5F});
  Timestamp now = Timestamp::from_seconds(1'780'000'000);
  seen(counters, now);
  counters.answered(ArmName::kCandidate, scored(1, 0.1F));
  EXPECT_EQ(seen(counters, now).recent.candidate, seen(counters, now).whole.candidate);
  now = now + kShortWindow;
  EXPECT_EQ(seen(counters, now).window, 1);
  EXPECT_EQ(seen(counters, now).window, 1) << "most units may not have voted";
  now = now + kWindow;
  EXPECT_EQ(seen(counters, now).window, 1) << "looked at before it ends";
  EXPECT_EQ(seen(counters, now).window, 2);
  EXPECT_EQ(seen(counters, now).recent.candidate.units, 0);
  counters.failed(ArmName::kCandidate, 1);
  counters.failed(ArmName::kCandidate, 1);
  const Evidence evidence = seen(counters, now);
  EXPECT_EQ(evidence.recent.candidate.units, 1);
  EXPECT_EQ(evidence.recent.candidate.errors, 1);
  EXPECT_EQ(evidence.recent.candidate.requests, 2);
  EXPECT_TRUE(evidence.recent.candidate.latency.empty());
  EXPECT_EQ(evidence.recent.candidate.scores, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(evidence.whole.candidate.errors, 0);
  for (int i = 0; i < 2; ++i) counters.failed(ArmName::kCandidate, 1);
  now = now + kShortWindow;
  seen(counters, now);
  EXPECT_EQ(seen(counters, now).window, 3) << "all have voted, four times over";
}

TEST(StepCounters, both_sides_of_a_shadow_meet_every_unit) {
  StepCounters counters(StepKind::kShadow, {0.5F});
  counters.answered(ArmName::kChampion, scored(1, 0.1F));
  counters.answered(ArmName::kCandidate, scored(1, 0.1F));
  EXPECT_EQ(seen(counters).whole.champion.units, 1);
  EXPECT_EQ(seen(counters).whole.candidate.units, 1);
}

TEST(StepCounters, learns_where_to_cut_from_the_champion) {
  StepCounters even(StepKind::kShared, {});
  for (std::uint64_t i = 0; i < 199; ++i) {
    even.answered(ArmName::kChampion, scored(i, 0.005F * static_cast<float>(i)));
  }
  EXPECT_TRUE(even.learn_edges().empty());
  even.answered(ArmName::kCandidate, scored(500, 1));
  EXPECT_TRUE(even.learn_edges().empty()) << "the candidate teaches nothing";
  even.answered(ArmName::kChampion, scored(199, 0.995F));
  const std::vector<float> edges = even.learn_edges();
  ASSERT_EQ(edges.size(), 9U);
  EXPECT_FLOAT_EQ(edges[4], 0.5F);
  EXPECT_TRUE(even.learn_edges().empty()) << "once";
  even.answered(ArmName::kChampion, scored(7, 0.035F));
  const Arm counted = seen(even).whole.champion;
  EXPECT_EQ(counted.units, 200) << "counting goes on";
  EXPECT_EQ(counted.scores.front(), 1) << "who taught votes by the next score";

  // Everybody has the same score: lower and higher ones are still told apart.
  StepCounters flat(StepKind::kShared, {});
  for (std::uint64_t i = 0; i < 200; ++i) flat.answered(ArmName::kChampion, scored(i, 0.3F));
  StepCounters cut(StepKind::kShared, flat.learn_edges());
  cut.answered(ArmName::kCandidate, scored(1, 0.2F));
  cut.answered(ArmName::kCandidate, scored(2, 0.3F));
  cut.answered(ArmName::kCandidate, scored(3, 0.4F));
  EXPECT_EQ(seen(cut).whole.candidate.scores, (std::vector<std::int64_t>{1, 1, 1}));
}

TEST(StepCounters, loses_nothing_between_threads) {
  StepCounters counters(StepKind::kShared, {0.5F});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&counters, t] {
      for (std::uint64_t i = 0; i < 5000; ++i) {
        counters.answered(ArmName::kChampion, scored(t * 5000 + i, 0.4F));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Arm arm = seen(counters).whole.champion;
  EXPECT_EQ(arm.requests, 20'000);
  EXPECT_EQ(arm.units, 20'000);
  EXPECT_EQ(arm.scores, (std::vector<std::int64_t>{20'000, 0}));
}

}  // namespace
}  // namespace falaj::serving::rollout
