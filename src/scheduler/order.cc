#include "scheduler/order.h"

#include <algorithm>
#include <bit>

#include "scheduler/amounts.h"
#include "scheduler/parallel.h"

namespace falaj::scheduler {

std::int64_t log2_points(std::int64_t x) {
  if (x < 2) return 0;
  const auto value = static_cast<std::uint64_t>(x);
  const int power = static_cast<int>(std::bit_width(value)) - 1;
  const std::uint64_t over = value - (1ULL << power);
  const std::uint64_t part =
      power <= 53 ? over * 1000 >> power : (over >> (power - 53)) * 1000 >> 53;
  return 1000 * std::int64_t{power} + static_cast<std::int64_t>(part);
}

std::int64_t size_of(const Shape& shape) {
  std::int64_t gpus = 0;
  std::int64_t cores = 0;
  for (const TaskGroup& group : shape.groups) {
    gpus += gpu_milli(group.gpu) * std::int64_t{group.min};
    cores += group.cpu * std::int64_t{group.min};
  }
  return std::max<std::int64_t>(1, gpus > 0 ? gpus : cores / 100);
}

Rank rank_of(const Job& job, std::int64_t size, std::int64_t queue_overuse, const Policy& policy,
             Timestamp now) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const OrderWeights& w = policy.order;
  Rank rank;
  rank.priority = job.priority;
  const Duration upper = upper_run(job, policy);
  rank.urgent = job.deadline != Timestamp::max() && job.deadline < now + upper + w.deadline_slack;
  const std::int64_t age = std::max<std::int64_t>(0, (now - job.submitted).nanos / kSecond);
  const std::int64_t ageing = w.age * log2_points(1 + age) / 1000 + w.points_per_hour * age / 3600;
  rank.score = w.p50 * log2_points(1 + middle_run(job, policy).nanos / kSecond) / 1000 +
               w.p90 * log2_points(1 + upper.nanos / kSecond) / 1000 +
               w.size * log2_points(size) / 1000 +
               w.attained * log2_points(1 + job.attained) / 1000 + w.share * queue_overuse / 1000 -
               std::min(ageing, w.age_cap);
  return rank;
}

namespace {

// All that decides, side by side, so that sorting stays in the cache.
struct Key {
  Rank rank;
  Timestamp submitted;
  std::uint64_t id;
  Index job;

  bool operator<(const Key& other) const {
    if (!(rank == other.rank)) return rank.before(other.rank);
    return submitted != other.submitted ? submitted < other.submitted : id < other.id;
  }
};

}  // namespace

std::vector<Index> in_order(const Snapshot& snapshot, const std::vector<Rank>& ranks,
                            std::uint32_t threads) {
  std::vector<Key> keys(snapshot.jobs.size());
  // Ids are unique, so the order is total and every way to sort gives the same.
  const auto middle = static_cast<std::ptrdiff_t>(threads > 1 ? keys.size() / 2 : 0);
  in_parallel(threads, 2, [&](std::size_t begin, std::size_t end) {
    for (std::size_t half = begin; half < end; ++half) {
      const auto from = keys.begin() + (half == 0 ? 0 : middle);
      const auto to = half == 0 ? keys.begin() + middle : keys.end();
      for (auto it = from; it != to; ++it) {
        const auto i = static_cast<Index>(it - keys.begin());
        *it = {ranks[i], snapshot.jobs[i].submitted, snapshot.jobs[i].id, i};
      }
      std::sort(from, to);
    }
  });
  std::inplace_merge(keys.begin(), keys.begin() + middle, keys.end());
  std::vector<Index> order;
  order.reserve(keys.size());
  for (const Key& key : keys) order.push_back(key.job);
  return order;
}

}  // namespace falaj::scheduler
