#include "serving/budget/overcommit.h"

#include <algorithm>

namespace falaj::serving::budget {

std::vector<std::size_t> to_unload(std::span<const Loaded> loaded, std::int64_t missing,
                                   Timestamp now) {
  std::vector<std::size_t> by_use;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    if (loaded[i].bytes > 0 && now - loaded[i].used >= kAtWork) by_use.push_back(i);
  }
  std::stable_sort(by_use.begin(), by_use.end(),
                   [&](std::size_t a, std::size_t b) { return loaded[a].used < loaded[b].used; });
  std::size_t count = 0;
  while (count < by_use.size() && missing > 0) missing -= loaded[by_use[count++]].bytes;
  by_use.resize(missing > 0 ? 0 : count);
  return by_use;
}

std::optional<std::size_t> to_prefetch(std::span<const Resting> resting, std::int64_t free) {
  std::optional<std::size_t> best;
  const auto better = [](const Resting& a, const Resting& b) {
    if (a.wanted != b.wanted) return a.wanted == Resting::Wanted::kMoved;
    return a.used > b.used;
  };
  for (std::size_t i = 0; i < resting.size(); ++i) {
    if (resting[i].bytes > free) continue;
    if (!best.has_value() || better(resting[i], resting[*best])) best = i;
  }
  return best;
}

}  // namespace falaj::serving::budget
