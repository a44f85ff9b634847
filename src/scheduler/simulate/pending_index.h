// scheduler/simulate/pending_index.h — waiting jobs by size and rank: who is next, in a few steps.
//
// A gang that does not fit leaves no room for a larger one of lower rank in the same size; so a
// pass looks at the head of each size only, never at the whole queue.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "scheduler/simulate/world.h"

namespace falaj::scheduler::simulate {

// Smaller goes first. `job` makes every two differ.
struct Turn {
  std::int64_t major = 0;
  std::int64_t minor = 0;
  JobIndex job = 0;
  auto operator<=>(const Turn&) const = default;
};

class PendingIndex {
 public:
  void add(std::int32_t gpus, const Turn& rank) { by_size_[gpus].insert(rank); }
  void remove(std::int32_t gpus, const Turn& rank) {
    const auto found = by_size_.find(gpus);
    found->second.erase(rank);
    if (found->second.empty()) by_size_.erase(found);
  }
  bool empty() const { return by_size_.empty(); }

  // The first of all whose size is under `too_large`.
  std::optional<Turn> first_below(std::int32_t too_large) const {
    return first([too_large](std::int32_t gpus) { return gpus < too_large; });
  }
  // The first of those sizes for which `open(gpus)` holds.
  template <class Open>
  std::optional<Turn> first(Open open) const {
    std::optional<Turn> best;
    for (const auto& [gpus, ranks] : by_size_) {
      if (open(gpus) && (!best || *ranks.begin() < *best)) best = *ranks.begin();
    }
    return best;
  }

 private:
  std::map<std::int32_t, std::set<Turn>> by_size_;
};

}  // namespace falaj::scheduler::simulate
