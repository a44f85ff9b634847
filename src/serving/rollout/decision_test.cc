#include "serving/rollout/decision.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::serving::rollout {
namespace {

const Timestamp kStart = Timestamp::from_seconds(1'780'000'000);
const Timestamp kLater = kStart + Duration::hours(1);

Arm healthy(std::int64_t requests) {
  Arm arm;
  arm.units = requests;
  arm.requests = requests;
  arm.scored = requests;
  arm.errors = requests / 1000;
  for (std::int64_t i = 1; i <= 100; ++i) {
    arm.latency.push_back({5'000'000 + i * 50'000, requests / 100});
  }
  arm.scores.assign(10, requests / 10);
  return arm;
}

// At the step of 50 %, where 20 000 requests of each arm say enough about every guard.
Evidence at_the_end() {
  Evidence evidence;
  evidence.step = 4;
  evidence.entered_at = kStart;
  evidence.whole.champion = healthy(20'000);
  evidence.whole.candidate = healthy(20'000);
  return evidence;
}

TEST(Decide, promotes_when_every_guard_is_shown_to_be_kept) {
  const Decision decision = decide(at_the_end(), {}, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kPromote) << decision.reason;
  ASSERT_EQ(decision.findings.size(), 4U);
  for (const Finding& finding : decision.findings) {
    EXPECT_EQ(finding.harm, Harm::kExcluded) << finding.guard;
    EXPECT_LE(finding.least, finding.most);
  }
}

TEST(Decide, goes_on_step_by_step_when_nothing_is_broken) {
  Evidence evidence = at_the_end();
  evidence.step = 1;
  evidence.whole.candidate = healthy(200);
  const Decision decision = decide(evidence, {}, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kAdvance) << decision.reason;
  EXPECT_NE(decision.reason.find("the step of 5 %"), std::string::npos) << decision.reason;
}

TEST(Decide, waits_for_time_and_requests) {
  Evidence evidence = at_the_end();
  EXPECT_EQ(decide(evidence, {}, kStart + Duration::minutes(9)).verdict, Verdict::kHold);
  evidence.step = 0;
  evidence.whole.candidate = healthy(100);
  const Decision few = decide(evidence, {}, kLater);
  EXPECT_EQ(few.verdict, Verdict::kHold);
  EXPECT_EQ(few.reason, "the shadow: 100 of 200 requests to each arm");
  EXPECT_EQ(decide(evidence, {}, kStart + Duration::days(2)).verdict, Verdict::kInconclusive);
}

TEST(Decide, does_not_promote_on_what_was_not_measured) {
  Evidence evidence = at_the_end();
  evidence.whole.candidate.scores.clear();
  EXPECT_EQ(decide(evidence, {}, kLater).verdict, Verdict::kHold);
  evidence = at_the_end();
  evidence.whole.candidate.latency.clear();
  EXPECT_EQ(decide(evidence, {}, kLater).verdict, Verdict::kHold);
  const Decision over = decide(evidence, {}, kStart + Duration::days(1));
  EXPECT_EQ(over.verdict, Verdict::kInconclusive);
  EXPECT_NE(over.reason.find("latency"), std::string::npos) << over.reason;
}

TEST(Decide, rolls_back_for_each_guard) {
  const auto broken = [](auto spoil) {
    Evidence evidence = at_the_end();
    spoil(evidence.whole.candidate);
    // At once: harm waits for no minimum of time, nor is it held by hand.
    evidence.manual.held = true;
    return decide(evidence, {}, kStart);
  };
  const Decision errors = broken([](Arm& arm) { arm.errors = arm.requests / 50; });
  EXPECT_EQ(errors.verdict, Verdict::kRollback) << errors.reason;
  EXPECT_EQ(errors.reason.find("errors is between 0.0"), 0U) << errors.reason;
  const Decision nans = broken([](Arm& arm) { arm.nans = arm.scored / 50; });
  EXPECT_EQ(nans.reason.find("nans"), 0U) << nans.reason;
  const Decision slow = broken([](Arm& arm) {
    for (LatencyBin& bin : arm.latency) bin.upper_nanos = bin.upper_nanos * 3 / 2;
  });
  EXPECT_EQ(slow.verdict, Verdict::kRollback) << slow.reason;
  EXPECT_EQ(slow.reason.find("latency"), 0U) << slow.reason;
  const Decision shifted = broken([](Arm& arm) {
    arm.scores.assign(10, 0);
    arm.scores[9] = arm.units;
  });
  EXPECT_EQ(shifted.reason.find("shift"), 0U) << shifted.reason;
}

TEST(Decide, takes_back_what_is_slower_throughout_before_the_tail_is_known) {
  Evidence evidence = at_the_end();
  const auto answered = [](Arm& arm, std::int64_t nanos) {
    arm.latency = {{nanos - 100'000, 1}, {nanos, 300}, {100'000'000, 1}};
  };
  answered(evidence.whole.champion, 5'000'000);
  answered(evidence.whole.candidate, 7'500'000);
  const Decision slower = decide(evidence, {}, kLater);
  EXPECT_EQ(slower.verdict, Verdict::kRollback) << slower.reason;
  EXPECT_EQ(slower.reason.find("latency at the median is"), 0U) << slower.reason;
  answered(evidence.whole.candidate, 5'900'000);
  const Decision within = decide(evidence, {}, kLater);
  EXPECT_NE(within.verdict, Verdict::kRollback) << within.reason;
  EXPECT_NE(within.verdict, Verdict::kPromote) << "the tail is not known: " << within.reason;
}

TEST(Decide, forgives_less_than_the_floor_of_latency) {
  Evidence evidence = at_the_end();
  for (LatencyBin& bin : evidence.whole.champion.latency) bin.upper_nanos /= 1000;
  for (LatencyBin& bin : evidence.whole.candidate.latency) bin.upper_nanos /= 500;
  const Decision decision = decide(evidence, {}, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kPromote) << decision.reason;
  RolloutPolicy strict;
  strict.margins.latency_floor = {};
  EXPECT_EQ(decide(evidence, strict, kLater).verdict, Verdict::kRollback);
}

TEST(Decide, calls_it_inconclusive_when_units_went_astray) {
  Evidence evidence = at_the_end();
  evidence.whole.candidate.units = 17'000;
  const Decision decision = decide(evidence, {}, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kInconclusive);
  EXPECT_NE(decision.reason.find("17000 of 37000 units"), std::string::npos) << decision.reason;
}

TEST(Decide, asks_for_approval_where_it_is_needed) {
  RolloutPolicy policy;
  policy.approval = Approval::kNeeded;
  Evidence evidence = at_the_end();
  EXPECT_EQ(decide(evidence, policy, kLater).verdict, Verdict::kHold);
  evidence.manual.approved = true;
  EXPECT_EQ(decide(evidence, policy, kLater).verdict, Verdict::kPromote);
  evidence.manual.held = true;
  EXPECT_EQ(decide(evidence, policy, kLater).verdict, Verdict::kHold) << "approved, and held";
}

TEST(Decide, leaves_scores_out_where_there_are_none) {
  RolloutPolicy policy;
  policy.scores = Scores::kNone;
  Evidence evidence = at_the_end();
  for (Arm* arm : {&evidence.whole.champion, &evidence.whole.candidate}) {
    arm->scored = 0;
    arm->scores.clear();
  }
  const Decision decision = decide(evidence, policy, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kPromote) << decision.reason;
  EXPECT_EQ(decision.findings.size(), 2U);
  EXPECT_NE(decision.reason.find("scores were not judged"), std::string::npos);
  EXPECT_EQ(decide(evidence, {}, kLater).verdict, Verdict::kHold);
}

TEST(Decide, sees_a_candidate_that_falls_ill_after_everybody_voted) {
  Evidence evidence = at_the_end();
  evidence.step = 0;
  evidence.window = 40;
  evidence.recent.champion = healthy(500);
  evidence.recent.candidate = healthy(500);
  EXPECT_EQ(decide(evidence, {}, kLater).verdict, Verdict::kAdvance);
  evidence.recent.candidate.errors = 100;
  const Decision decision = decide(evidence, {}, kLater);
  EXPECT_EQ(decision.verdict, Verdict::kRollback);
  EXPECT_EQ(decision.reason.find("errors"), 0U) << decision.reason;
}

// Each time that counting begins anew is another chance to be wrong: all of them share one alpha.
TEST(Decide, spends_alpha_once_however_often_it_counts_anew) {
  Evidence evidence = at_the_end();
  evidence.whole.candidate.errors = 170;
  const auto width = [&] {
    const Finding errors = decide(evidence, {}, kStart).findings.front();
    return errors.most - errors.least;
  };
  const double first = width();
  evidence.count = 2;
  const double second = width();
  evidence.count = 100;
  EXPECT_LT(first, second);
  EXPECT_LT(second, width());
}

TEST(Decide, is_recomputed_from_its_record) {
  RolloutPolicy policy;
  policy.scores = Scores::kNone;
  Evidence evidence = at_the_end();
  evidence.manual = {true, true};
  evidence.count = 3;
  evidence.window = 7;
  evidence.recent.candidate = healthy(300);
  const auto read = evidence_from_value(parse_json(to_json(to_value(evidence))).value());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, evidence);
  const auto rules = policy_from_value(parse_json(to_json(to_value(policy))).value());
  ASSERT_TRUE(rules.ok()) << rules.error().message;
  EXPECT_EQ(*rules, policy);
  EXPECT_EQ(to_json(to_value(decide(*read, *rules, kLater))),
            to_json(to_value(decide(evidence, policy, kLater))));
  EXPECT_FALSE(evidence_from_value(Value("x")).ok());
  EXPECT_FALSE(policy_from_value(Value()).ok());
}

}  // namespace
}  // namespace falaj::serving::rollout
