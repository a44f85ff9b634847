// scheduler/verify_parts.h — what the parts of the verifier share with each other, and with nobody
// else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/verify.h"

namespace falaj::scheduler::verifying {

// Who holds what at one moment: position of the job and where its pods are.
using Holding = std::map<Index, const Placement*>;
using Sums = std::vector<std::int64_t>;

struct Case {
  const Snapshot& snapshot;
  const Policy& policy;
  Timestamp now;
  const Decisions& decisions;
  std::vector<Violation> found;

  const Shape& shape(Index job) const { return snapshot.shapes[snapshot.jobs[job].shape]; }
  const NodeClass& kind(Index node) const {
    return snapshot.classes[snapshot.nodes[node].node_class];
  }
  Index root(Index queue) const;
  Duration upper(Index job) const;
  void fail(ViolationKind kind, Index job, const char* what);
  // Calls f(group, pod, how many of its group stand before it).
  template <class F>
  void each(Index job, const Placement& where, F f) const {
    std::size_t at = 0;
    for (std::size_t g = 0; g < where.counts.size(); ++g) {
      for (std::uint32_t i = 0; i < where.counts[g]; ++i) {
        f(shape(job).groups[g], where.pods[at++], i);
      }
    }
  }
};

std::int64_t milli(const TaskGroup& group);

// Queues of `fresh` jobs (those who got something) stay within quota, allowances and cost caps.
void check_quota(Case& c, const Holding& holding, const std::vector<Index>& fresh);
void check_budgets(Case& c, const Holding& later, const std::vector<Index>& fresh);

// What does not depend on who runs.
struct Ground {
  std::size_t flavors = 0;
  Sums entitled;                      // Per queue and flavor.
  Sums counted;                       // Per root and flavor.
  std::vector<std::uint32_t> height;  // Per queue.
  std::vector<Index> ranked;          // All jobs, best first.
  std::vector<std::int64_t> scores;   // Per job.
  std::vector<std::uint8_t> urgent;

  bool better(const Snapshot& snapshot, Index a, Index b) const;
};
// Of the first `min` pods of each group; by the model it has, or without a place the first named.
Sums core(const Case& c, Index job, const Placement* where);
Ground ground(const Case& c);

}  // namespace falaj::scheduler::verifying
