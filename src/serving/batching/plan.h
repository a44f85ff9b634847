// serving/batching/plan.h — which requests run next, which wait, and which are refused: a pure
// function of what waits, what was learned and the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "serving/batching/service_times.h"

namespace falaj::serving::batching {

inline constexpr std::size_t kWaitingMax = 1024;
inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

// What a decision needs to know of a request. Times are nanoseconds of one monotonic clock.
struct Waiting {
  std::uint64_t tenant = 0;    // Whose it is, as a hash: each has its turn.
  std::uint32_t priority = 0;  // Among its tenant's; 1 is the highest, 0 stands in the middle.
  std::size_t rows = 1;
  std::uint64_t shape = 0;  // Only requests of one shape run together; 0: it runs alone.
  std::int64_t arrived = 0;
  std::int64_t deadline = kNoDeadline;
};

// The order in which they run: every tenant's first, every tenant's second, …; among those by
// deadline. What is a tenant's first is for itself to say: by its priorities, then by deadline.
// Positions in `waiting`.
std::vector<std::size_t> turns(std::span<const Waiting> waiting);

struct Batch {
  std::vector<std::size_t> run;   // Together, in this order; empty when nothing is left to run.
  std::vector<std::size_t> late;  // Cannot be answered in time any more: refused now.
};
// What to run now. A request that waits alone runs alone, at once; others join the first as long as
// it pays, none of those that run together becomes late by it, and they have at most `rows_max`.
Batch next_batch(std::span<const Waiting> waiting, const ServiceTimes& times, std::size_t rows_max,
                 std::int64_t now);

struct Admission {
  enum class Verdict : std::uint8_t { kWait, kFull, kTooLate };
  Verdict verdict = Verdict::kWait;
  Duration wait{};  // Until it would begin, as expected; 0 for a request without a deadline.
};
// Whether a request may join those that wait, behind `runners` runs of which the earliest ends at
// `free_at`. kTooLate: it would not be answered by its deadline. kFull: kWaitingMax wait, or of its
// own tenant as many as there are places left, so that those of others find one.
struct Line {
  std::span<const Waiting> waiting;
  std::size_t runners = 1;
  std::int64_t free_at = 0;
};
Admission admit(const Waiting& request, const Line& line, const ServiceTimes& times,
                std::int64_t now);

}  // namespace falaj::serving::batching
