#include "serving/rollout/replay.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace falaj::serving::rollout {
namespace {

Answer floats(const std::vector<float>& values) {
  Tensor tensor{"score", "FP32", {static_cast<std::int64_t>(values.size())}, ""};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return std::vector<Tensor>{tensor};
}

Answer label(char value) {
  return std::vector<Tensor>{{"label", "INT8", {1}, std::string(1, value)}};
}

Answer failure() { return Error{Code::kInternal, "ill"}; }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RolloutPolicy policy_of(std::int64_t requests, double difference_max) {
  RolloutPolicy policy;
  policy.replay = {requests, difference_max};
  policy.margins.errors = 0.1;
  policy.margins.nans = 0.1;
  return policy;
}

bool passes(const ReplayEvidence& evidence, const RolloutPolicy& policy) {
  return judge_replay(evidence, policy).outcome == ReplayDecision::Outcome::kPass;
}

TEST(Replay, tells_answers_apart) {
  ReplayEvidence evidence;
  add_answers(evidence, floats({1, 2}), floats({1, 2.5}));
  add_answers(evidence, floats({1}), floats({1}));
  add_answers(evidence, label(1), label(2));
  EXPECT_EQ(evidence.compared, 3);
  EXPECT_DOUBLE_EQ(evidence.difference, 0.5) << "0.5, none, and 1 for what is no number";
  EXPECT_DOUBLE_EQ(evidence.largest, 1);
  add_answers(evidence, floats({1, 2}), floats({1, kNan}));
  EXPECT_EQ(evidence.nans, 1);
  add_answers(evidence, floats({kNan}), floats({4}));
  EXPECT_EQ(evidence.compared, 4) << "where the champion has no number nothing can be worse";
  add_answers(evidence, floats({1}), floats({1, 2}));
  add_answers(evidence, floats({1}), label(1));
  add_answers(evidence, floats({1}), failure());
  EXPECT_EQ(evidence.failed, 3);
  add_answers(evidence, failure(), failure());
  EXPECT_EQ(evidence.unanswered, 1);
  EXPECT_EQ(evidence.answered, 8);
}

TEST(Replay, passes_what_is_within_every_margin_and_nothing_else) {
  ReplayEvidence good;
  good.answered = 100;
  good.compared = 100;
  good.difference = 0.05;
  good.largest = 0.9;
  const RolloutPolicy policy = policy_of(100, 0.05);
  EXPECT_TRUE(passes(good, policy)) << judge_replay(good, policy).reason;

  ReplayEvidence few = good;
  few.answered = 99;
  EXPECT_FALSE(passes(few, policy)) << "what was not measured does not pass";
  EXPECT_EQ(judge_replay(few, policy).reason,
            "the replay: 99 recorded requests could be put to both, 100 are asked for");
  ReplayEvidence far = good;
  far.difference = 0.051;
  EXPECT_FALSE(passes(far, policy));
  ReplayEvidence failing = good;
  failing.failed = 10;
  EXPECT_TRUE(passes(failing, policy));
  failing.failed = 11;
  EXPECT_FALSE(passes(failing, policy));
  ReplayEvidence nans = good;
  nans.nans = 11;
  EXPECT_FALSE(passes(nans, policy));
  EXPECT_FALSE(passes({}, policy_of(0, 1))) << "nothing is no evidence";
}

TEST(Replay, is_read_as_it_was_written) {
  ReplayEvidence evidence{7, 1, 2, 4, 5, 6, 0.1, 0.3};
  EXPECT_EQ(replay_evidence_from_value(to_value(evidence)).value(), evidence);
  Value lacking = to_value(evidence);
  lacking["failed"] = "one";
  EXPECT_EQ(replay_evidence_from_value(lacking).error().id, ErrorId::kReplayDiffers);
  const RolloutPolicy policy = policy_of(9, 0.25);
  EXPECT_EQ(policy_from_value(to_value(policy)).value().replay, policy.replay);
}

}  // namespace
}  // namespace falaj::serving::rollout
