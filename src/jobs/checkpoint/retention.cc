#include "jobs/checkpoint/retention.h"

#include <algorithm>

namespace falaj::jobs::checkpoint {

std::set<std::int64_t> retained(std::vector<Scored> all, const Keep& keep) {
  std::set<std::int64_t> kept;
  const auto take = [&](int count) {
    for (const Scored& each : all) {
      if (count-- <= 0) break;
      kept.insert(each.number);
    }
  };
  std::sort(all.begin(), all.end(),
            [](const Scored& a, const Scored& b) { return a.number > b.number; });
  take(std::max(keep.last, 1));
  std::erase_if(all, [](const Scored& each) { return !each.metric.has_value(); });
  std::stable_sort(all.begin(), all.end(), [&](const Scored& a, const Scored& b) {
    return keep.better == Better::kHigher ? *a.metric > *b.metric : *a.metric < *b.metric;
  });
  take(keep.best);
  return kept;
}

}  // namespace falaj::jobs::checkpoint
