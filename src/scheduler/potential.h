// scheduler/potential.h — what every preemption must improve, so that preemption ends.
//
// At each queue the running jobs are laid onto what the queue is entitled to, best rank first; who
// still fits is *entitled* there, the others only borrow. At a queue above, those who are entitled
// below come first. A set of running jobs is described by marks: who is entitled at the lowest
// queues, then at those above, …, and at last who runs at all, each time in the order of rank. Of
// two sets the better one has a mark at the first place where they differ.
//
// Starting a job never makes a set worse: it changes marks only at itself and behind itself. A
// preemption is made only if the set gets better. Neither entitlements nor ranks depend on who
// runs, so no set is ever come back to. The full argument is in docs/internals/scheduler.md.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/decisions.h"
#include "scheduler/order.h"
#include "scheduler/quota.h"

namespace falaj::scheduler {

// A set of running jobs, best rank first, and for each of them a bit per height of the queue tree
// at which it is entitled.
struct Marks {
  std::vector<Index> jobs;
  std::vector<std::uint8_t> heights;

  // Of one of the jobs; 0 for another.
  std::uint8_t of(Index job) const;
};

class Standing {
 public:
  Standing(const Snapshot& snapshot, const QuotaTree& tree, std::vector<std::int64_t> entitled);

  // `job` runs with this core (its pods up to `min`; those beyond may be taken back at any time and
  // do not count), or no longer does.
  void add(Index job, const Amounts& core);
  void remove(Index job);

  // The set as it is. `ranked` are all jobs of the snapshot, best first. Cost: a pass over the jobs
  // and two per height over the running ones.
  Marks marks(const std::vector<Index>& ranked) const;
  // As if `job` ran too.
  Marks marks_with(const std::vector<Index>& ranked, Index job, const Amounts& core);
  // For the certificate: per queue and flavor.
  std::vector<std::array<std::int64_t, kMaxFlavors>> entitled() const;
  // Changes with the set, and is the same again when the set is.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::uint64_t fingerprint_of(Index job) const;
  bool fits(const std::vector<std::int64_t>& left, Index queue, Index job) const;

  const Snapshot& snapshot_;
  const QuotaTree& tree_;
  std::vector<std::int64_t> entitled_;
  std::vector<std::uint8_t> runs_;   // Per job.
  std::vector<std::int64_t> cores_;  // Per job and flavor.
  std::uint64_t fingerprint_ = 0;
};

// Where two sets first differ, and whether `after` is better there. `level` is the height, or
// kMaxDepth if only who runs differs; `job` is kAbsent if nothing does.
struct Comparison {
  bool better = false;
  std::uint8_t level = 0;
  Index job = kAbsent;
};
Comparison compare(const Marks& before, const Marks& after, const std::vector<Index>& ranked);

}  // namespace falaj::scheduler
