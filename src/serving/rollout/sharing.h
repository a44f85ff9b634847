// serving/rollout/sharing.h — who is asked for a request while a rollout runs, and what it counts
// for. One rule for requests of entities, of tensors, and for the simulations of the tests.
//
// What is counted of an arm is whether the version that the unit was dealt to answered it, on its
// first try. That the champion answers where a candidate fails is the caller's answer and no
// evidence; what a version did says nothing about the other. In a shadow each request is put to
// both, whatever the champion made of it.
#pragma once

#include "serving/rollout/assignment.h"
#include "serving/rollout/step_counters.h"

namespace falaj::serving::rollout {

// How one version met one request.
struct Tried {
  // kNotAsked: the request itself was wrong. It is nobody's vote.
  enum class How : std::uint8_t { kAnswered, kFailed, kNotAsked } how = How::kFailed;
  Answered answered;  // When it was.
};

inline void count(StepCounters& counters, ArmName arm, std::uint64_t unit, const Tried& tried) {
  if (tried.how == Tried::How::kAnswered) counters.answered(arm, tried.answered);
  if (tried.how == Tried::How::kFailed) counters.failed(arm, unit);
}

// Asks `champion()` or `candidate()`, each giving a Tried, for a request of `unit`, and counts it.
// The last one asked has the caller's answer. `mirror()` puts a shadow's request to the candidate
// and says whether that could be done: what it could not counts on neither side.
template <class Champion, class Candidate, class Mirror>
void share_request(double share, StepCounters& counters, std::uint64_t unit, Champion champion,
                   Candidate candidate, Mirror mirror) {
  if (meets_candidate(place_of(unit), share)) {
    const Tried theirs = candidate();
    count(counters, ArmName::kCandidate, unit, theirs);
    if (theirs.how != Tried::How::kAnswered) champion();
    return;
  }
  const Tried ours = champion();
  const bool is_shadow = share == 0;
  if (is_shadow && (ours.how == Tried::How::kNotAsked || !mirror())) return;
  count(counters, ArmName::kChampion, unit, ours);
}

}  // namespace falaj::serving::rollout
