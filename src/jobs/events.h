// jobs/events.h — what happened to a job, in order. The row of a job is what its events add up to,
// and is written in the same transaction as each of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/value.h"

namespace falaj::jobs {

enum class JobStatus : std::uint8_t { kQueued, kRunning, kSucceeded, kFailed, kCancelled };
std::string_view status_name(JobStatus status);

enum class EventKind : std::uint8_t {
  kSubmitted,
  kAdmitted,  // May start, as attempt `attempt`; the executor is told after this was written.
  kRequeued,  // Its attempt is over and it waits again: `detail.error` says why.
  kEnded,     // `detail.status`, `error`, `result`.
  kCancelAsked,
};
std::string_view event_name(EventKind kind);

struct Event {
  std::int64_t sequence = 0;  // From 1, without gaps, for each job.
  Timestamp at{};
  EventKind kind = EventKind::kSubmitted;
  int attempt = 0;  // The attempt's number; 0 before the first.
  Value detail;
};
Value to_value(const Event& event);

// What changes of a job's row.
struct Progress {
  JobStatus status = JobStatus::kQueued;
  int attempts = 0;  // Those that count against attempts_max.
  int epoch = 0;     // The number of the newest attempt; never used again.
  std::string error;
  Value result;
  Timestamp ended_at{};
  bool operator==(const Progress&) const = default;
};

// One event more. kConflict when it cannot follow: an attempt number that is not new, anything
// after the end. Pure.
Result<Progress> apply(const Progress& before, const Event& event);
// All of them, from nothing. kDataLoss when they do not follow one another.
Result<Progress> fold(const std::vector<Event>& events);

}  // namespace falaj::jobs
