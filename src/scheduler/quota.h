// scheduler/quota.h — the tree of queues: how much each may use (nominal, borrowed, lent), what it
// is entitled to, and what it has used lately.
//
// The words mean what they mean in Kueue. Of a queue's quota with everything below it (`subtree`),
// `lend` goes to the cohort at most; the rest is `local`. What is used beyond `local` counts in the
// parent, and may exceed the subtree's own by at most `borrow`. A flavor that no queue of a tree
// mentions is not counted there.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/amounts.h"
#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// What does not change while a cycle runs. Positions as in Snapshot::queues.
class QuotaTree {
 public:
  explicit QuotaTree(const Snapshot& snapshot);

  Index parent(Index queue) const { return snapshot_.queues[queue].parent; }
  Index root(Index queue) const { return root_[queue]; }
  std::uint32_t height(Index queue) const { return height_[queue]; }  // 0: nothing below it.
  std::uint32_t top() const { return top_; }                          // The largest of them.
  bool counted(Index queue, std::size_t flavor) const {
    return (counted_[root_[queue]] >> flavor & 1U) != 0;
  }
  std::size_t flavors() const { return flavors_; }
  std::size_t size() const { return snapshot_.queues.size(); }

  std::int64_t subtree(Index queue, std::size_t flavor) const {
    return cell(queue, flavor).subtree;
  }
  std::int64_t local(Index queue, std::size_t flavor) const { return cell(queue, flavor).local; }
  std::int64_t nominal(Index queue, std::size_t flavor) const {
    return cell(queue, flavor).nominal;
  }
  // kUnlimited, or the most that may be used here and below.
  std::int64_t ceiling(Index queue, std::size_t flavor) const {
    return cell(queue, flavor).ceiling;
  }
  std::int64_t borrow(Index queue, std::size_t flavor) const { return cell(queue, flavor).borrow; }

 private:
  struct Cell {
    std::int64_t nominal = 0;
    std::int64_t borrow = kUnlimited;
    std::int64_t lend = kUnlimited;
    std::int64_t subtree = 0;
    std::int64_t local = 0;
    std::int64_t ceiling = kUnlimited;
  };
  Cell& cell(Index q, std::size_t f) { return cells_[q * flavors_ + f]; }
  const Cell& cell(Index q, std::size_t f) const { return cells_[q * flavors_ + f]; }

  const Snapshot& snapshot_;
  std::size_t flavors_;
  std::vector<Cell> cells_;
  std::vector<Index> root_;
  std::vector<std::uint32_t> height_;
  std::uint32_t top_ = 0;
  std::vector<std::uint32_t> counted_;  // A bit per flavor; at roots.
};

// Why a request does not fit: the first queue on the way up that has too little, and how much it
// lacks. `queue` is kAbsent when it fits.
struct Shortage {
  Index queue = kAbsent;
  Index flavor = kAbsent;
  std::int64_t missing = 0;
  std::int64_t wanted = 0;  // What the request asks of that queue: the rest is lent below it.
};

// How much is in use, at one moment. Copies are cheap enough to try things out on.
class QuotaUse {
 public:
  explicit QuotaUse(const QuotaTree& tree);

  Shortage shortage(Index queue, const Amounts& request) const;
  // Whether it fits into the queue's own quota, without borrowing.
  bool within_nominal(Index queue, const Amounts& request) const;
  void add(Index queue, const Amounts& amounts, std::int64_t sign = 1);
  std::int64_t used(Index queue, std::size_t flavor) const {
    return used_[queue * tree_.flavors() + flavor];
  }

 private:
  const QuotaTree& tree_;
  std::vector<std::int64_t> used_;  // What of the children's use counts here, and its own.
};

// What each queue may call its own, per queue and flavor: see policy.h. Depends on what is asked
// for (running and waiting alike), not on who runs, so that nobody's claim moves when jobs are
// swapped.
std::vector<std::int64_t> entitlements(const Snapshot& snapshot, const QuotaTree& tree,
                                       Entitlement kind);

// `total` divided among parts by weight, none more than it needs: what is left over by those that
// need less goes to the others. Rounds down; pure.
std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<std::int64_t>& weights,
                                    const std::vector<std::int64_t>& needs);

// `use` (not negative) after `elapsed`, halved per `half_life`. For keeping Queue::decayed_use.
// Exact for whole half-lives, else rounded down and within a billionth: many small steps lose
// little.
std::int64_t decayed(std::int64_t use, Duration elapsed, Duration half_life);
// The same when `held` units were held all the while, whose use decays as it comes.
std::int64_t decayed(std::int64_t use, std::int64_t held, Duration elapsed, Duration half_life);

// How much more than its weighted part each queue (or a queue above it) has used lately, as a
// logarithm: 1000 is twice its part, -1000 half of it. 0 when nobody used anything.
//
// Hierarchical DRF: the use of a queue and all below it is added up by flavor and its dominant part
// of all nodes is taken; that is compared with those of the queues beside it (and of their parent's
// own jobs). So a parent of one queue that fills the processors and one that fills the memory has
// used the cluster once, not twice, and neither of the two more than its half. A queue that is
// alone at its level is not compared.
std::vector<std::int64_t> overuse(const Snapshot& snapshot);

}  // namespace falaj::scheduler
