// scheduler/policy.h — what the administrator decides, as data: the weights of the order, who may
// push whom out, how far ahead is planned. `falaj policy plan` replays history under another one of
// these.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace falaj::scheduler {

// The score of a job is a sum of base-2 logarithms in thousandths of a doubling (1000 points = a
// factor of two), each times its weight in thousandths. The lower score goes first. See order.h.
struct OrderWeights {
  std::int64_t p50 = 1000;  // Of the predicted remaining seconds.
  std::int64_t p90 = 0;
  std::int64_t size = 1000;          // Of its GPUs (cores for a job without): p50 + size = SRSF.
  std::int64_t attained = 0;         // Of the service it has had: LAS.
  std::int64_t share = 0;            // Of what its queue has used beyond its part (decayed).
  std::int64_t age = 0;              // Of the seconds since it was submitted; subtracted.
  std::int64_t points_per_hour = 0;  // Ageing in a straight line; subtracted.
  std::int64_t age_cap = 1'000'000;  // Both kinds of ageing together give at most so many points.
  // First among its priority when less than this is left between its p90 end and its deadline.
  Duration deadline_slack = Duration::minutes(30);
};

// What counts as a queue's own when others may be pushed out for it: its nominal quota, or, if that
// is more, its weighted part of the cohort's quota given what everybody asks for.
enum class Entitlement : std::uint8_t { kNominal, kFairShare };

// Between which jobs of equal priority the order alone is a reason to preempt.
enum class Scope : std::uint8_t { kNever, kQueue, kCohort, kCluster };

struct Preemption {
  Entitlement entitlement = Entitlement::kFairShare;
  Scope priority = Scope::kQueue;  // Where a higher priority may push out a lower one.
  Scope order = Scope::kNever;     // Where a better score may push out a worse one …
  std::int64_t margin = 1000;      // … that is worse by at least so many points.
  // Victims: the cheapest first. Cost is the work lost since the checkpoint and the restart, times
  // the size; `score_weight` (thousandths) prefers victims that are late in the order instead.
  std::int64_t score_weight = 0;
  Duration grace = Duration::seconds(60);    // Between the notice and the end.
  Duration min_run = Duration::minutes(10);  // For queues that say nothing.
};

struct Policy {
  OrderWeights order;
  Preemption preemption;
  // Reservations: so many blocked jobs, the first in order among those that have waited this long,
  // get a place and a time; others start before them only where they do not delay them.
  std::uint32_t reservations = 4;
  Duration reserve_after = Duration{};
  Duration unknown_run = Duration::hours(24);  // Taken for p90 (half of it for p50) when unknown.
  // 1: a job that cannot start holds up all later ones of its queue, as in a strict FIFO.
  std::uint8_t strict_fifo = 0;
};

}  // namespace falaj::scheduler
