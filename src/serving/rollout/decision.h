// serving/rollout/decision.h — what becomes of a candidate, as a pure function of what was counted.
//
// A candidate walks through steps: a shadow (it answers beside the champion and nobody sees it),
// then growing shares of the traffic. At every moment decide() says whether it stays, goes on, is
// promoted, or goes back. The guards compare the two arms over the same time, with confidence
// sequences (confidence.h), so that it may be asked as often as one likes: under two equal models
// the probability that any guard is ever broken, over all steps, all windows and however often
// counting begins anew, is at most `alpha`.
//
// What is compared is a share of units: a unit has one vote about each guard, cast by its first
// request, because arms are dealt to units. Whoever asks a thousand times has one vote.
//
// What was not measured does not pass: a candidate is promoted only when every guard is shown to be
// kept, and waits, and in the end goes back, when too little was seen.
//
// The live system, `falaj audit replay` and the tests call the same function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "serving/rollout/confidence.h"

namespace falaj::serving::rollout {

// How much worse the candidate may be than the champion.
struct Margins {
  double errors = 0.005;  // Share of units that the model failed; a difference.
  double nans = 0.005;    // Share of units with a score that is no number; a difference.
  double latency = 0.2;   // 99th percentile; relative.
  // … and never refused for less than this: what a cold cache costs is no fault of a model.
  Duration latency_floor = Duration::milliseconds(1);
  double shift = 0.2;  // The largest gap between the two distributions of scores (0 to 1).
  bool operator==(const Margins&) const = default;
};

enum class Approval : std::uint8_t { kNotNeeded, kNeeded };
// kNone: the models give nothing that is a score; the guards `nans` and `shift` are left out.
enum class Scores : std::uint8_t { kJudged, kNone };

// What is asked of a candidate before its first step (replay.h).
struct ReplayTerms {
  std::int64_t requests = 0;  // Recorded requests that are replayed; 0: none.
  double difference_max = 0;  // Between the answers, in the mean.
  bool operator==(const ReplayTerms&) const = default;
};

struct RolloutPolicy {
  std::vector<double> steps{0, 0.01, 0.05, 0.25, 0.5};  // Shares; 0 is a shadow. Never empty.
  Margins margins;
  double alpha = 0.01;  // Of all guards and steps together.
  Duration step_min = Duration::minutes(10);
  Duration step_max = Duration::days(1);  // Longer without an outcome: inconclusive.
  std::int64_t requests_min = 200;        // Of each arm in a step.
  Approval approval = Approval::kNotNeeded;
  Scores scores = Scores::kJudged;
  ReplayTerms replay;
  bool operator==(const RolloutPolicy&) const = default;
};

// What one version did for the units that were dealt to it, on its first try: whether it answered
// or failed says nothing about the other version, which may have answered in its place. A caller's
// own mistakes are nobody's.
struct Arm {
  std::int64_t requests = 0;  // All of them.
  std::int64_t units = 0;     // Different units, as far as they can be told apart, of which …
  std::int64_t errors = 0;    // … the first request failed,
  std::int64_t scored = 0;    // … the first request was answered with scores, of which …
  std::int64_t nans = 0;      // … one at least is no finite number.
  std::vector<LatencyBin> latency;  // Of each unit's first request, when it was answered.
  // One a unit: how many fell between the frozen edges of the rollout. Empty, or as many as the
  // other arm's.
  std::vector<std::int64_t> scores;
  bool operator==(const Arm&) const = default;
};

// What people decided: neither takes the other back.
struct Manual {
  bool held = false;
  bool approved = false;
  bool operator==(const Manual&) const = default;
};

struct Arms {
  Arm champion;
  Arm candidate;
  bool operator==(const Arms&) const = default;
};

struct Evidence {
  std::size_t step = 0;  // Index into the policy's steps.
  Timestamp entered_at{};
  Manual manual;
  // The step, counted from nothing for the count-th time: from 1 on.
  std::int64_t count = 1;
  Arms whole;
  // The newest window of it, from 1 on, in which every unit has a vote again: a candidate that
  // falls ill after everybody has voted is seen here.
  std::int64_t window = 1;
  Arms recent;
  bool operator==(const Evidence&) const = default;
};

enum class Verdict : std::uint8_t { kHold, kAdvance, kPromote, kRollback, kInconclusive };
std::string_view verdict_name(Verdict verdict);  // "hold", "advance", "promote", …

enum class Harm : std::uint8_t { kOpen, kExcluded, kShown };
std::string_view harm_name(Harm harm);  // "open", "excluded", "shown"

// What is known about one guard: how much worse the candidate is, at least and at most.
struct Finding {
  // "errors", "nans", "latency" (its p99), "latency at the median" (when that alone is shown) or
  // "shift".
  std::string guard;
  double least = 0;
  double most = 0;
  double margin = 0;
  Harm harm = Harm::kOpen;
};

struct Decision {
  Verdict verdict = Verdict::kHold;
  std::string reason;             // For a person, with the numbers.
  std::vector<Finding> findings;  // Of the whole step.
  std::vector<Finding> recent;    // Of the window: they take a candidate back, and promote none.
  double ratio_p = 1;  // Of the check that units fell to the arms as designed; 1 in a shadow.
};

// In this order:
//   units did not fall to the arms as designed (p < 0.001)    → inconclusive: nothing is comparable
//   a guard's harm is above its margin at the least           → rollback
//   held by hand                                              → hold
//   too short, or too few requests of either arm              → hold
//   another step follows                                      → advance
//   every guard's harm is below its margin at the most        → promote (after approval, if needed)
//   longer than step_max                                      → inconclusive, instead of hold
// `evidence.step` must be one of the policy's (FALAJ_CHECK). About 0.1 ms.
Decision decide(const Evidence& evidence, const RolloutPolicy& policy, Timestamp now);

Value to_value(const Evidence& evidence);
Value to_value(const RolloutPolicy& policy);
Value to_value(const Decision& decision);
// What to_value() wrote; FJ-7002 otherwise.
Result<Evidence> evidence_from_value(const Value& value);
Result<RolloutPolicy> policy_from_value(const Value& value);

}  // namespace falaj::serving::rollout
