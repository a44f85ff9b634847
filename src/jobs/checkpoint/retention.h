// jobs/checkpoint/retention.h — which checkpoints are kept: the newest, and the best by a metric.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace falaj::jobs::checkpoint {

enum class Better : std::uint8_t { kHigher, kLower };

struct Keep {
  int last = 2;  // At least 1. Two, so that there is one to fall back to.
  int best = 1;  // Of those that have a metric.
  Better better = Better::kHigher;
};

struct Scored {
  std::int64_t number = 0;
  std::optional<double> metric;
};

// The numbers to keep. Pure. Of equal metrics the newer is better; one without never is.
std::set<std::int64_t> retained(std::vector<Scored> all, const Keep& keep);

}  // namespace falaj::jobs::checkpoint
