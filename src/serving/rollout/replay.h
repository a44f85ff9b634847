// serving/rollout/replay.h — recorded requests, put to champion and candidate before anybody meets
// the candidate, and what follows from their answers: a pure function.
//
// Both versions answer the same request at the same time with the features of now, so that what
// differs is the versions. All that was recorded and answered is seen: there is nothing to estimate
// and no interval, only counts and a mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "serving/rollout/decision.h"
#include "serving/runtime.h"

namespace falaj::serving::rollout {

struct ReplayEvidence {
  std::int64_t answered = 0;    // By the champion; of these …
  std::int64_t failed = 0;      // … the candidate failed, or gave tensors of another form,
  std::int64_t nans = 0;        // … had a number from the champion and none from the candidate,
  std::int64_t compared = 0;    // … have a difference.
  std::int64_t unanswered = 0;  // The champion failed: they say nothing.
  std::int64_t left_out = 0;    // Of tensors that only one of the versions takes.
  double difference = 0;        // Mean of the differences.
  double largest = 0;           // Of them.
  bool operator==(const ReplayEvidence&) const = default;
};

using Answer = Result<std::vector<Tensor>>;

// Adds one request to what is known. The difference of two answers is the largest between two
// numbers (FP32, FP64) at the same place; anything else that is not equal counts as 1. Where the
// champion gave no number either, there is none.
void add_answers(ReplayEvidence& evidence, const Answer& champion, const Answer& candidate);

struct ReplayDecision {
  enum class Outcome : std::uint8_t { kPass, kRefuse } outcome = Outcome::kRefuse;
  std::string reason;  // For a person, with the numbers.
};

// Refuses when fewer than policy.replay.requests were answered, when the candidate failed or gave
// no number in a larger share of them than the guards `errors` and `nans` allow, or when the mean
// difference is above policy.replay.difference_max.
ReplayDecision judge_replay(const ReplayEvidence& evidence, const RolloutPolicy& policy);

Value to_value(const ReplayEvidence& evidence);
// {"outcome": "pass", "reason": …}
Value to_value(const ReplayDecision& decision);
// What to_value() wrote; FJ-7002 otherwise.
Result<ReplayEvidence> replay_evidence_from_value(const Value& value);

}  // namespace falaj::serving::rollout
