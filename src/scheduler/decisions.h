// scheduler/decisions.h — what decide() says: one outcome a job, why, and a certificate with which
// anybody can check it (scheduler/verify.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

enum class ReasonCode : std::uint8_t {
  kNone,
  kDependency,      // `missing` jobs must end first.
  kArrayLimit,      // Enough of array `subject` are running.
  kVictimsLeaving,  // Its place is being cleared.
  kZone,            // Its data may not be where any fitting node is: data reference `subject`.
  kDevice,          // No node has such a GPU (model, memory, instance).
  kLabel,           // No node has these labels.
  kTooLarge,        // It would not fit if the cluster were empty.
  kMaintenance,     // The nodes that would do are closed, or close before it would end.
  kQuota,           // Queue `subject` lacks `missing` units of `flavor`.
  kBudget,          // Allowance number `flavor` of queue `subject` lacks `missing` units.
  kCostCap,         // It would cost `missing` more than its cap.
  kCapacity,        // `missing` units of `flavor` are not free.
  kFragmented,  // Enough is free in all, but not together: `missing` more pods would have to fit.
  kReserved,    // What is free is kept for job `subject`, which it would delay.
  kFifo,        // Job `subject` of the same queue goes first.
  kNotTried,    // The budget of this cycle was used up before its turn.
  kHot,         // The nodes that would do are too hot for more.
};
std::string_view to_string(ReasonCode code);

// Why a job waits, what would admit it, and when it probably starts.
struct Reason {
  ReasonCode code = ReasonCode::kNone;
  Level level = Level::kCluster;  // The topology in which it was looked for.
  Index flavor = kAbsent;         // Or see the code.
  Index subject = kAbsent;        // See the code.
  std::int64_t missing = 0;       // How much more would have to be there, in units of `flavor`.
  // Of quota, of a budget and of an array, which those before it in the order get first: the
  // smallest raise that would admit it is `missing` + `ahead`.
  std::int64_t wanted = 0;  // What it asks for in all, where it binds.
  std::int64_t ahead = 0;   // What those before it would take of the raise.
  Timestamp earliest;       // The interval in which it probably starts;
  Timestamp latest;         // Timestamp::max(): not without a change.
  bool operator==(const Reason&) const = default;
};

struct Admit {
  Index job = 0;
  Placement placement;
  bool operator==(const Admit&) const = default;
};

enum class PreemptCause : std::uint8_t { kReclaim, kPriority, kOrder };
std::string_view to_string(PreemptCause cause);

struct Preempt {
  Index job = 0;
  Index for_job = 0;
  PreemptCause cause = PreemptCause::kPriority;
  Timestamp deadline;          // When it must be gone.
  std::int64_t lost_work = 0;  // GPU-seconds that have to be done again.
  bool operator==(const Preempt&) const = default;
};

// A running job goes on with these pods: some added at the end of a group, or some taken away.
struct Resize {
  Index job = 0;
  Index for_job = kAbsent;  // Who needs what it gives up; kAbsent when it grows.
  Placement placement;
  bool operator==(const Resize&) const = default;
};

// kClaim: victims leave, the place is the job's from now on: its state becomes kClaimed.
// kForecast: the job starts there at `from` at the latest; nobody who would run longer is let in.
enum class ReserveKind : std::uint8_t { kClaim, kForecast };
struct Reserve {
  Index job = 0;
  ReserveKind kind = ReserveKind::kForecast;
  Timestamp from;
  Placement placement;
  bool operator==(const Reserve&) const = default;
};

struct Hold {
  Index job = 0;
  Reason reason;
  bool operator==(const Hold&) const = default;
};

// One claim, in the order in which they were decided: victims leave, a job gets their place. The
// set of running jobs is better afterwards: see potential.h. The certificate says where that shows.
struct Step {
  Index job = 0;               // Who comes.
  std::uint32_t admitted = 0;  // How many of Decisions::admit had been decided before it.
  std::uint8_t level = 0;      // The height of the queue tree at which the sets first differ, or
                               // kMaxDepth if only who runs differs …
  Index deciding = kAbsent;    // … and the first job in the order of rank that differs there.
  bool operator==(const Step&) const = default;
};

struct Certificate {
  std::uint64_t epoch = 0;
  Sha256 snapshot;  // Digests of what was decided upon; all zero if Budget::digest was off.
  Sha256 policy;
  std::vector<Step> steps;
  // What the steps are judged by; neither depends on who runs. Empty without steps.
  std::vector<Index> order;  // All jobs, best rank first.
  // Per queue and flavor what is its own; kUnlimited where the flavor is not counted.
  std::vector<std::array<std::int64_t, kMaxFlavors>> entitled;
  bool operator==(const Certificate&) const = default;
};

// Every pending or claimed job of the snapshot is in exactly one of `admit`, `hold`.
struct Decisions {
  std::vector<Admit> admit;
  std::vector<Preempt> preempt;
  std::vector<Resize> resize;
  std::vector<Reserve> reserve;  // Claims and forecasts; each of these jobs is also in `hold`.
  std::vector<Hold> hold;        // By position in the snapshot.
  std::vector<Index> released;   // Claims that can no longer be met: the job is pending again.
  Certificate certificate;
  bool operator==(const Decisions&) const = default;
};

// kInvalidArgument unless every position is one of the snapshot's and the certificate has what it
// must: decisions from elsewhere may then be verified.
Status check(const Snapshot& snapshot, const Decisions& decisions);

// The same decisions give the same bytes on every machine and build.
std::string encode(const Decisions& decisions);

}  // namespace falaj::scheduler
