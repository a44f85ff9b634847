#include "scheduler/amounts.h"

#include <algorithm>
#include <limits>

#include "scheduler/mig.h"

namespace falaj::scheduler {
namespace {
__extension__ using Wide = __int128;

std::int64_t saturated(Wide wide) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return wide > kMost ? kMost : static_cast<std::int64_t>(wide);
}

void charge(const Snapshot& snapshot, const TaskGroup& group, const PodPlacement& pod,
            Amounts& to) {
  to[kCpu] += group.cpu;
  to[kMemory] += group.memory;
  if (group.gpu.count == 0) return;
  to[snapshot.classes[snapshot.nodes[pod.node].node_class].gpu_flavor] += gpu_milli(group.gpu);
}

}  // namespace

void add(Amounts& to, const Amounts& what) {
  for (std::size_t f = 0; f < kMaxFlavors; ++f) to[f] += what[f];
}

void subtract(Amounts& from, const Amounts& what) {
  for (std::size_t f = 0; f < kMaxFlavors; ++f) from[f] -= what[f];
}

std::int64_t weighted(const Snapshot& snapshot, const Amounts& amounts) {
  std::int64_t sum = 0;
  for (std::size_t f = 0; f < snapshot.flavors.size(); ++f) {
    sum += snapshot.flavors[f].weight * amounts[f];
  }
  return sum;
}

std::int64_t gpu_milli(const GpuRequest& request) {
  if (request.count == 0) return 0;
  if (request.mig != MigProfile::kWhole) return mig_charge(request.mig);
  return request.fraction * std::int64_t{request.count};
}

Index model_at(const TaskGroup& group, std::uint32_t choice) {
  if (group.gpu.count == 0) return kAbsent;
  return group.gpu.models[std::min<std::size_t>(choice, group.gpu.models.size() - 1)];
}

std::uint32_t choices(const Shape& shape) {
  std::size_t most = 1;
  for (const TaskGroup& group : shape.groups) {
    if (group.gpu.count > 0) most = std::max(most, group.gpu.models.size());
  }
  return static_cast<std::uint32_t>(most);
}

Amounts core_request(const Shape& shape, std::uint32_t choice) {
  Amounts sum{};
  for (const TaskGroup& group : shape.groups) {
    sum[kCpu] += group.cpu * std::int64_t{group.min};
    sum[kMemory] += group.memory * std::int64_t{group.min};
    if (group.gpu.count > 0) {
      sum[model_at(group, choice)] += gpu_milli(group.gpu) * std::int64_t{group.min};
    }
  }
  return sum;
}

Amounts placed_amounts(const Snapshot& snapshot, const Shape& shape, const Placement& placement) {
  Amounts sum{};
  for_each_pod(shape, placement,
               [&](const TaskGroup& group, const PodPlacement& pod, std::uint32_t) {
                 charge(snapshot, group, pod, sum);
               });
  return sum;
}

Amounts placed_core(const Snapshot& snapshot, const Shape& shape, const Placement& placement) {
  Amounts sum{};
  for_each_pod(shape, placement,
               [&](const TaskGroup& group, const PodPlacement& pod, std::uint32_t i) {
                 if (i < group.min) charge(snapshot, group, pod, sum);
               });
  return sum;
}

Placement single(const Shape& shape, std::size_t group, const PodPlacement& pod) {
  Placement one;
  one.counts.assign(shape.groups.size(), 0);
  one.counts[group] = 1;
  one.pods = {pod};
  return one;
}

Rates placed_rates(const Snapshot& snapshot, const Shape& shape, const Placement& placement) {
  Rates rates;
  for_each_pod(shape, placement,
               [&](const TaskGroup& group, const PodPlacement& pod, std::uint32_t) {
                 const NodeClass& c = snapshot.classes[snapshot.nodes[pod.node].node_class];
                 const std::int64_t gpus = gpu_milli(group.gpu);
                 rates.gpu_milli += gpus;
                 rates.watts += gpus * c.watts_per_gpu / 1000;
                 rates.money_per_hour += scaled(gpus, c.price_per_gpu_hour, 1000) +
                                         scaled(group.cpu, c.price_per_core_hour, 1000);
               });
  return rates;
}

Duration upper_run(const Job& job, const Policy& policy) {
  const Duration known = job.remaining_p90.nanos > 0 ? job.remaining_p90 : policy.unknown_run;
  return std::min(std::max(known, job.remaining_p50), job.max_run);
}

Duration middle_run(const Job& job, const Policy& policy) {
  const Duration known =
      job.remaining_p50.nanos > 0 ? job.remaining_p50 : Duration{policy.unknown_run.nanos / 2};
  return std::min(known, job.max_run);
}

Timestamp gone_by(const Job& job, const Policy& policy, Timestamp now) {
  const Duration run = job.max_run == Duration::max() ? upper_run(job, policy) : job.max_run;
  return run.nanos > Timestamp::max().nanos - now.nanos ? Timestamp::max() : now + run;
}

std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
  return saturated(static_cast<Wide>(a) * b / c);
}

std::int64_t scaled_up(std::int64_t a, std::int64_t b, std::int64_t c) {
  return saturated((static_cast<Wide>(a) * b + c - 1) / c);
}

}  // namespace falaj::scheduler
