// scheduler/forecast.h — when those who wait will probably start, and what those before them would
// take of a raise.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// The flavor by which a shape is measured: its first GPU model, else processors.
Index main_flavor(const Shape& shape);

// Those who wait for the same thing (quota of one queue, a budget, places of an array), in order.
class Line {
 public:
  // One more at the end, who lacks `missing` of the `wanted` that it asks for. Returns how much of
  // the smallest raise that admits it goes to those before: they take what they can, in order, and
  // who asks for more than is left is passed over. Exact while at most kLooked stand before it;
  // then enough for all of them.
  std::int64_t join(std::int64_t missing, std::int64_t wanted);
  std::int64_t wanted() const { return sum_; }  // By all of them.

  static constexpr std::size_t kLooked = 64;

 private:
  struct Waiter {
    std::int64_t missing;
    std::int64_t wanted;
  };
  std::vector<Waiter> first_;
  std::size_t count_ = 0;
  std::int64_t sum_ = 0;
};

// Fills in Reason::ahead and the interval of start times of all holds: from when running jobs end
// (middle and upper prediction), what that leaves in the queue or on the nodes that it waits for,
// and how much those before it in `order` ask for there.
void forecast(Cycle& cycle, const std::vector<Index>& order);

}  // namespace falaj::scheduler
