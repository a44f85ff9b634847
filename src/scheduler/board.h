// scheduler/board.h — everything that changes while a cycle runs: what is free now, what will be
// free when those that were told to leave have left, who uses how much quota, what is promised to
// whom.
//
// Two moments are kept apart. Now: running and leaving jobs hold their places. Later: the leaving
// are gone and claims hold theirs. A job may start now only where it fits at both.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/allowances.h"
#include "scheduler/order.h"
#include "scheduler/place.h"
#include "scheduler/potential.h"
#include "scheduler/quota.h"

namespace falaj::scheduler {

class Board {
 public:
  // Loads the snapshot's running and leaving jobs. Claims are loaded by claim().
  Board(const Snapshot& snapshot, const Policy& policy, Timestamp now);

  void start(Index job, const Placement& placement);  // Now and later.
  void claim(Index job, const Placement& placement);  // Later.
  void unclaim(Index job, const Placement& placement);
  void start_claimed(Index job);  // Its claim becomes a start: now too.
  void evict(Index job);          // A running job is gone later.
  void unevict(Index job);
  // Pods of a running job come, in both moments, or go, later.
  void add_pod(Index job, std::size_t group, const PodPlacement& pod);
  void drop_pod(Index job, std::size_t group, const PodPlacement& pod, std::int64_t sign = 1);

  // Whether these very devices are free now (for a claim) or later.
  bool free_now(Index job, const Placement& placement) const;
  bool free_later(Index job, const Placement& placement, const Narrow& narrow = {}) const;

  const Site& both() const { return both_; }
  const Site& later() const { return later_; }
  const QuotaTree& tree() const { return tree_; }
  const QuotaUse& use_now() const { return use_now_; }
  const QuotaUse& use_later() const { return use_later_; }
  Standing& standing() { return standing_; }
  const Allowances& allowances() const { return allowances_; }
  const std::vector<std::uint32_t>& array_running() const { return array_running_; }
  Timestamp end_of(Index job) const;  // Its upper run time from now on.

  // A place and a time that nobody may delay. Takes effect for gangs that end after `from`.
  struct Promise {
    Index job = 0;
    Timestamp from;
    Placement placement;
    // The nodes of the placement in ascending order, what will be free there beside the gang, and
    // that together with what is free now.
    std::vector<Index> nodes;
    std::vector<NodeState> then;
    std::vector<NodeState> narrowed;
  };
  void promise(Promise promise);
  const std::vector<Promise>& promises() const { return promises_; }
  // For Placer: narrows nodes for a gang that ends at `end`. Empty if nothing is in its way.
  Narrow narrow(Timestamp end) const;

 private:
  enum class Moment : std::uint8_t { kNow, kLater, kBoth };
  void apply(Index job, const Placement& placement, Moment moment, std::int64_t sign);
  void apply_pod(Index job, std::size_t group, const PodPlacement& pod, Moment moment,
                 std::int64_t sign);
  void account(Index job, const Placement& placement, Moment moment, std::int64_t sign);
  void note_tags(Index job, Index node, Moment moment, std::int64_t sign);
  void retag(Index node);
  void refresh(Index node);
  bool is_free(Index job, const Placement& placement, const std::vector<NodeState>& states,
               const Narrow& narrow) const;

  struct Resident {
    Index job;
    std::int32_t now;  // Pods.
    std::int32_t later;
  };

  const Snapshot& snapshot_;
  const Policy& policy_;
  Timestamp now_;
  QuotaTree tree_;
  QuotaUse use_now_;
  QuotaUse use_later_;
  Standing standing_;
  Allowances allowances_;
  std::vector<NodeState> now_states_;
  Site later_;
  Site both_;
  std::vector<std::uint32_t> array_running_;
  std::vector<std::vector<Resident>> residents_;  // Of jobs with tags; empty if there are none.
  std::vector<Promise> promises_;
  std::vector<std::uint8_t> promised_;  // Per node: some promise holds it.
};

}  // namespace falaj::scheduler
