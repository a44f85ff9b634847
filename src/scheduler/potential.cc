#include "scheduler/potential.h"

#include <algorithm>

namespace falaj::scheduler {

std::uint8_t Marks::of(Index job) const {
  const auto it = std::find(jobs.begin(), jobs.end(), job);
  return it == jobs.end() ? std::uint8_t{0} : heights[static_cast<std::size_t>(it - jobs.begin())];
}

Standing::Standing(const Snapshot& snapshot, const QuotaTree& tree,
                   std::vector<std::int64_t> entitled)
    : snapshot_(snapshot),
      tree_(tree),
      entitled_(std::move(entitled)),
      runs_(snapshot.jobs.size(), 0),
      cores_(snapshot.jobs.size() * tree.flavors(), 0) {}

void Standing::add(Index job, const Amounts& core) {
  runs_[job] = 1;
  std::copy_n(core.begin(), tree_.flavors(),
              cores_.begin() + static_cast<std::ptrdiff_t>(job * tree_.flavors()));
  fingerprint_ ^= fingerprint_of(job);
}

void Standing::remove(Index job) {
  runs_[job] = 0;
  fingerprint_ ^= fingerprint_of(job);
}

std::uint64_t Standing::fingerprint_of(Index job) const {
  std::uint64_t mixed = job + 1;
  for (std::size_t f = 0; f <= tree_.flavors(); ++f) {
    mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9ULL;
    if (f < tree_.flavors()) {
      mixed += static_cast<std::uint64_t>(cores_[job * tree_.flavors() + f]);
    }
  }
  return mixed ^ mixed >> 29;
}

bool Standing::fits(const std::vector<std::int64_t>& left, Index queue, Index job) const {
  for (std::size_t f = 0; f < tree_.flavors(); ++f) {
    const std::int64_t wanted = cores_[job * tree_.flavors() + f];
    if (wanted > 0 && tree_.counted(queue, f) && wanted > left[queue * tree_.flavors() + f]) {
      return false;
    }
  }
  return true;
}

std::vector<std::array<std::int64_t, kMaxFlavors>> Standing::entitled() const {
  std::vector<std::array<std::int64_t, kMaxFlavors>> own(tree_.size());
  for (Index q = 0; q < tree_.size(); ++q) {
    for (std::size_t f = 0; f < tree_.flavors(); ++f) {
      own[q][f] = tree_.counted(q, f) ? entitled_[q * tree_.flavors() + f] : kUnlimited;
    }
  }
  return own;
}

Marks Standing::marks(const std::vector<Index>& ranked) const {
  Marks marks;
  std::vector<Index> at;  // Per running job: the queue whose turn it is on its way up.
  for (const Index job : ranked) {
    if (runs_[job] == 0) continue;
    marks.jobs.push_back(job);
    at.push_back(snapshot_.jobs[job].queue);
  }
  marks.heights.assign(marks.jobs.size(), 0);
  std::vector<std::uint8_t> below(marks.jobs.size(), 0);  // Entitled at the queue before.
  std::vector<std::int64_t> left = entitled_;
  for (std::uint32_t height = 0; height <= tree_.top(); ++height) {
    for (const std::uint8_t first : {std::uint8_t{1}, std::uint8_t{0}}) {
      for (std::size_t i = 0; i < marks.jobs.size(); ++i) {
        const Index queue = at[i];
        if (queue == kAbsent || tree_.height(queue) != height || (below[i] & 1U) != first) continue;
        below[i] = static_cast<std::uint8_t>(below[i] | 2U);  // Had its turn.
        if (!fits(left, queue, marks.jobs[i])) continue;
        for (std::size_t f = 0; f < tree_.flavors(); ++f) {
          left[queue * tree_.flavors() + f] -= cores_[marks.jobs[i] * tree_.flavors() + f];
        }
        marks.heights[i] = static_cast<std::uint8_t>(marks.heights[i] | 1U << height);
      }
    }
    for (std::size_t i = 0; i < marks.jobs.size(); ++i) {
      if ((below[i] & 2U) == 0) continue;
      below[i] = marks.heights[i] >> height & 1U;
      at[i] = tree_.parent(at[i]);
    }
  }
  return marks;
}

Marks Standing::marks_with(const std::vector<Index>& ranked, Index job, const Amounts& core) {
  add(job, core);
  Marks with = marks(ranked);
  remove(job);
  return with;
}

Comparison compare(const Marks& before, const Marks& after, const std::vector<Index>& ranked) {
  // Per job of the snapshot, in the order of rank; 0 if it does not run.
  const auto spread = [&](const Marks& marks) {
    std::vector<std::uint16_t> bits(ranked.size(), 0);
    std::size_t i = 0;
    for (std::size_t r = 0; r < ranked.size() && i < marks.jobs.size(); ++r) {
      if (marks.jobs[i] != ranked[r]) continue;
      bits[r] = static_cast<std::uint16_t>(marks.heights[i++] | 1U << kMaxDepth);
    }
    return bits;
  };
  const auto old_bits = spread(before);
  const auto new_bits = spread(after);
  for (std::uint8_t level = 0; level <= kMaxDepth; ++level) {
    for (std::size_t r = 0; r < ranked.size(); ++r) {
      const auto was = old_bits[r] >> level & 1U;
      const auto is = new_bits[r] >> level & 1U;
      if (was != is) return {is > was, level, ranked[r]};
    }
  }
  return {};
}

}  // namespace falaj::scheduler
