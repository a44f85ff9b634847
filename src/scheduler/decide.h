// scheduler/decide.h — who runs where, who waits and why: one pure function, called by the live
// system, the simulator, the what-if and the audit's replay.
//
//   const Decisions d = decide(snapshot, policy, now, Budget{});
//
// What a caller does with it: starts `admit`; tells the jobs of `preempt` to leave and marks them
// kStopping; marks the jobs of `reserve` with kClaim as kClaimed and keeps their placement; marks
// `released` as kPending; applies `resize`. Then it calls again when something has changed.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "scheduler/decisions.h"
#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// kCode: reasons without start times, and without what those before it would take.
enum class Explain : std::uint8_t { kCode, kFull };

// How much work a cycle may do. Counts, not time: the same budget gives the same bytes everywhere.
struct Budget {
  std::uint32_t threads = 1;             // Never changes the result.
  std::uint32_t preemption_tries = 64;   // Jobs for which victims are looked for.
  std::uint32_t max_preemptions = 1024;  // Victims.
  std::uint32_t placement_tries = 4096;  // Jobs that are looked for a place and have none.
  Explain explain = Explain::kFull;
  std::uint8_t digest = 1;  // 0: leave the certificate's digests empty.
};

// `snapshot` must pass check(). No I/O, no clock, no globals; allocates; thread-safe.
// Deterministic: equal arguments give equal Decisions, whatever `threads` is.
Decisions decide(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                 const Budget& budget);

}  // namespace falaj::scheduler
