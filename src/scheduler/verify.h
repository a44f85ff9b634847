// scheduler/verify.h — checks decisions against the rules without knowing how they were found.
//
// Shares no code with decide() but the types, counts everything again from nothing, and is slow and
// short on purpose. The property tests, the audit's replay and anybody who doubts use it.
#pragma once

#include <string>
#include <vector>

#include "scheduler/decide.h"

namespace falaj::scheduler {

enum class ViolationKind : std::uint8_t {
  kOutcome,    // A job without an outcome, with two, or with one that its state does not allow.
  kGang,       // Some pods but not all; a pod too many; counts that do not match.
  kDevice,     // A GPU, instance, processor or memory given twice, or a device that does not fit.
  kZone,       // Data would be where it may not.
  kPlace,      // Node closed, labels, topology, affinity, maintenance.
  kQuota,      // A queue beyond nominal and borrowing, or lending more than it wants.
  kBudget,     // An allowance or a cost cap is overrun.
  kClaim,      // A place that is kept for another job was given away.
  kPreempt,    // A victim that may not be taken: minimum run time, rank, right, state.
  kPotential,  // A preemption that improves nothing, or a step that says it wrongly.
  kReason,     // A job waits without a reason.
};

struct Violation {
  ViolationKind kind;
  std::string what;
};

// Empty when everything holds. Cost: about the square of pods per node.
std::vector<Violation> verify(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                              const Decisions& decisions);

}  // namespace falaj::scheduler
