// scheduler/order.h — who goes first: priority, then deadlines that are near, then a score out of
// what the predictor says, the service had, the queue's use and the age, weighted by the policy.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// 1000 times the base-2 logarithm, in straight lines between powers of two: grows with x, exact at
// the powers. 0 for x < 2.
std::int64_t log2_points(std::int64_t x);

// Where a job stands. Does not depend on who runs: only on the job, its queue's past use and `now`.
struct Rank {
  std::int32_t priority = 0;
  std::uint8_t urgent = 0;  // Its deadline is near.
  std::int64_t score = 0;   // Lower is better.

  // Strictly better, whatever the tie-breakers say.
  bool before(const Rank& other) const {
    if (priority != other.priority) return priority > other.priority;
    if (urgent != other.urgent) return urgent > other.urgent;
    return score < other.score;
  }
  bool operator==(const Rank&) const = default;
};

// How large a shape is for the order: its GPUs in thousandths; without GPU its cores, a hundred of
// which count as one GPU. At least 1.
std::int64_t size_of(const Shape& shape);

Rank rank_of(const Job& job, std::int64_t size, std::int64_t queue_overuse, const Policy& policy,
             Timestamp now);

// Positions of all jobs, best first. Ties: submitted earlier, then the smaller id. `threads` share
// the work and do not change the result.
std::vector<Index> in_order(const Snapshot& snapshot, const std::vector<Rank>& ranks,
                            std::uint32_t threads);

}  // namespace falaj::scheduler
