// scheduler/allowances.h — budgets over time: what running jobs will still spend in each window,
// and whether there is enough for another one.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/amounts.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

class Allowances {
 public:
  Allowances(const Snapshot& snapshot, Timestamp now);

  struct Shortfall {
    Index queue = kAbsent;  // kAbsent: there is enough.
    std::int64_t missing = 0;
    Index allowance = kAbsent;  // Which of the queue's.
    std::int64_t wanted = 0;
  };
  // Of the queue and those above it, the first that has too little for a job that runs this long.
  Shortfall shortfall(Index queue, const Rates& rates, Duration run) const;
  // Money that does not come out even is rounded up for who comes, down for pods that leave a job:
  // one by one they never give back more than was charged for all of them.
  enum class Rounding : std::uint8_t { kUp, kDown };
  void commit(Index queue, const Rates& rates, Duration run, std::int64_t sign = 1,
              Rounding rounding = Rounding::kUp);
  bool any() const { return any_; }

 private:
  std::int64_t amount(const Allowance& allowance, const Rates& rates, Duration run,
                      Rounding rounding) const;

  const Snapshot& snapshot_;
  Timestamp now_;
  bool any_ = false;
  std::vector<std::vector<std::int64_t>> committed_;  // Per queue and allowance.
};

}  // namespace falaj::scheduler
