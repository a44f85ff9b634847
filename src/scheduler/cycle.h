// scheduler/cycle.h — what the stages of one decide() share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/board.h"
#include "scheduler/decide.h"
#include "scheduler/place.h"
#include "scheduler/rules.h"

namespace falaj::scheduler {

// Running jobs as victims: cheapest first, whoever asks.
struct Costs {
  std::vector<Index> order;
  std::vector<Index> elastic;  // Those with pods beyond their minimum, the same way.
};

struct Cycle {
  Cycle(const Snapshot& snapshot, const Policy& policy, Timestamp now, const Budget& budget);
  Cycle(const Cycle&) = delete;

  const Snapshot& snapshot;
  const Policy& policy;
  const Timestamp now;
  const Budget& budget;

  const Topology topology;
  Board board;
  Placer placer;
  std::vector<ShapeRules> rules;      // Per shape.
  std::vector<Rank> ranks;            // Per job.
  std::vector<Index> ranked;          // All jobs, best rank first.
  std::vector<std::int64_t> sizes;    // Per shape, for the order.
  std::vector<std::uint8_t> leaving;  // Per job: a victim of this cycle.
  // Elastic jobs whose pods changed in this cycle, and how they are now.
  std::vector<Index> resized;  // Per job: position in Decisions::resize, or kAbsent.
  std::uint32_t victims = 0;
  std::uint64_t needed = 0;  // Tags that jobs of this cycle rely on.
  Decisions out;

  const Shape& shape(Index job) const { return snapshot.shapes[snapshot.jobs[job].shape]; }
  const ShapeRules& rule(Index job) const { return rules[snapshot.jobs[job].shape]; }
  // Of a running job: as the snapshot has it, or as this cycle has changed it.
  const Placement& placement(Index job) const;
  Gang gang(Index job, std::uint32_t choice) const;
  // The cluster without any job; made when it is first asked for.
  const Site& empty_site();
  const Costs& costs();
  // Of the set of running jobs as it is on the board; remembered until the set changes.
  const Marks& marks();

 private:
  std::optional<Costs> costs_;
  std::optional<Marks> marks_;
  std::uint64_t marks_of_ = 0;
  std::optional<Site> empty_;
};

// What stands against a job that has a place: quota, allowance, cost. kNone if nothing.
Reason money_or_quota(const Cycle& cycle, Index job, const Placement& placement,
                      const QuotaUse& use);
// How much more than its cap a job would cost with all of this placement.
std::int64_t beyond_cap(const Cycle& cycle, Index job, const Placement& placement);

}  // namespace falaj::scheduler
