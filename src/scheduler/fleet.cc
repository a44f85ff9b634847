#include "scheduler/fleet.h"

#include <algorithm>
#include <bit>

#include "scheduler/amounts.h"
#include "scheduler/mig.h"

namespace falaj::scheduler {
namespace {

std::int64_t pod_watts(const NodeClass& c, const TaskGroup& group) {
  return gpu_milli(group.gpu) * c.watts_per_gpu / 1000;
}

// Its processors, memory and power. A cap that is overdrawn (it was lowered under its jobs) is no
// concern of who takes no power.
bool amounts_free(const NodeState& s, const NodeClass& c, const TaskGroup& group) {
  const std::int64_t watts = pod_watts(c, group);
  return s.cpu >= group.cpu && s.memory >= group.memory && (watts == 0 || s.watts >= watts);
}

std::uint16_t lowest_bits(std::uint16_t mask, std::uint32_t count) {
  std::uint16_t chosen = 0;
  for (; count > 0; --count) {
    const auto low = static_cast<std::uint16_t>(mask & -mask);
    chosen = static_cast<std::uint16_t>(chosen | low);
    mask = static_cast<std::uint16_t>(mask ^ low);
  }
  return chosen;
}

// `count` of the free GPUs: from the tightest of the smallest islands that have enough.
std::uint16_t choose_whole(const NodeClass& c, std::uint16_t free, std::uint32_t count) {
  std::uint16_t best = free;
  int best_size = static_cast<int>(kMaxDevices) + 1;
  int best_free = best_size;
  for (const std::uint16_t island : c.gpu_islands) {
    const auto here = static_cast<std::uint16_t>(free & island);
    const int size = std::popcount(island);
    const int have = std::popcount(here);
    if (have < static_cast<int>(count) || size > best_size) continue;
    if (size == best_size && have >= best_free) continue;
    best = here;
    best_size = size;
    best_free = have;
  }
  return lowest_bits(best, count);
}

// A device for a fraction: the fullest shared one that has room, else an untouched one.
std::uint16_t choose_shared(const NodeState& s, const NodeClass& c, std::uint16_t allowed,
                            std::int64_t fraction) {
  int best = -1;
  for (std::uint32_t d = 0; d < c.gpus; ++d) {
    if ((allowed >> d & 1U) == 0 || s.milli[d] == 0 || s.slices[d] != 0) continue;
    if (s.milli[d] + fraction > 1000) continue;
    if (best < 0 || s.milli[d] > s.milli[static_cast<std::size_t>(best)])
      best = static_cast<int>(d);
  }
  if (best >= 0) return static_cast<std::uint16_t>(1U << best);
  const auto free = static_cast<std::uint16_t>(s.whole & allowed);
  return free == 0 ? std::uint16_t{0} : choose_whole(c, free, 1);
}

// A device for an instance: the one with most slices in use that has room, else an untouched one.
std::uint16_t choose_sliced(const NodeState& s, const NodeClass& c, std::uint16_t allowed,
                            MigProfile profile) {
  int best = -1;
  for (std::uint32_t d = 0; d < c.gpus; ++d) {
    if ((allowed >> d & 1U) == 0 || s.milli[d] != 0 || s.slices[d] == 0) continue;
    if (mig_start(profile, s.slices[d]) == 0xff) continue;
    if (best < 0 ||
        std::popcount(s.slices[d]) > std::popcount(s.slices[static_cast<std::size_t>(best)])) {
      best = static_cast<int>(d);
    }
  }
  if (best >= 0) return static_cast<std::uint16_t>(1U << best);
  const auto free = static_cast<std::uint16_t>(s.whole & allowed);
  return free == 0 ? std::uint16_t{0} : choose_whole(c, free, 1);
}

std::uint32_t device_of(std::uint16_t mask) {
  return static_cast<std::uint32_t>(std::countr_zero(mask));
}

// The GPUs for one pod out of `allowed`; 0 if it needs some and there are none.
std::uint16_t choose(const NodeState& s, const NodeClass& c, const GpuRequest& gpu,
                     std::uint16_t allowed) {
  if (gpu.mig != MigProfile::kWhole) return choose_sliced(s, c, allowed, gpu.mig);
  if (gpu.fraction < 1000) return choose_shared(s, c, allowed, gpu.fraction);
  const auto free = static_cast<std::uint16_t>(s.whole & allowed);
  if (std::popcount(free) < static_cast<int>(gpu.count)) return 0;
  return choose_whole(c, free, gpu.count);
}

PodPlacement chosen(const NodeState& s, const TaskGroup& group, std::uint16_t gpus,
                    std::uint8_t numa) {
  PodPlacement pod;
  pod.gpus = gpus;
  pod.numa = numa;
  if (group.gpu.count > 0 && group.gpu.mig != MigProfile::kWhole) {
    pod.mig_start = mig_start(group.gpu.mig, s.slices[device_of(gpus)]);
  }
  return pod;
}

std::optional<PodPlacement> fit_numa(const NodeState& s, const NodeClass& c,
                                     const TaskGroup& group) {
  std::optional<PodPlacement> best;
  int best_free = 0;
  for (std::uint32_t n = 0; n < c.numa_nodes; ++n) {
    if (s.numa_cpu[n] < group.cpu) continue;
    std::uint16_t gpus = 0;
    if (group.gpu.count > 0) {
      gpus = choose(s, c, group.gpu, c.numa_gpus[n]);
      if (gpus == 0) continue;
    }
    const int free = std::popcount(static_cast<std::uint16_t>(s.whole & c.numa_gpus[n]));
    if (best && free >= best_free) continue;
    best = chosen(s, group, gpus, static_cast<std::uint8_t>(n));
    best_free = free;
  }
  return best;
}

bool plain(const TaskGroup& group) {
  return group.one_numa_node == 0 && group.gpu.fraction == 1000 &&
         group.gpu.mig == MigProfile::kWhole;
}

bool part_free(const NodeState& s, const GpuRequest& gpu, const PodPlacement& pod) {
  if (std::popcount(pod.gpus) != 1) return false;
  const std::uint32_t d = device_of(pod.gpus);
  if (gpu.mig != MigProfile::kWhole) {
    if (pod.mig_start > 7 || (mig_shape(gpu.mig).starts >> pod.mig_start & 1U) == 0) return false;
    return s.milli[d] == 0 && (s.slices[d] & mig_slices(gpu.mig, pod.mig_start)) == 0;
  }
  return s.slices[d] == 0 && s.milli[d] + gpu.fraction <= 1000;
}

bool gpus_free(const NodeState& s, const GpuRequest& gpu, const PodPlacement& pod) {
  if (gpu.count == 0) return true;
  if (gpu.mig != MigProfile::kWhole || gpu.fraction < 1000) return part_free(s, gpu, pod);
  return std::popcount(pod.gpus) == static_cast<int>(gpu.count) && (pod.gpus & ~s.whole) == 0;
}

}  // namespace

NodeState empty_state(const NodeClass& c, std::int64_t power_cap) {
  NodeState s;
  s.cpu = c.cpu;
  s.memory = c.memory;
  s.watts = power_cap;
  for (std::uint32_t n = 0; n < c.numa_nodes; ++n) s.numa_cpu[n] = c.cpu / c.numa_nodes;
  s.whole = static_cast<std::uint16_t>((1U << c.gpus) - 1U);
  return s;
}

std::optional<PodPlacement> fit(const NodeState& s, const NodeClass& c, const TaskGroup& group) {
  if (!amounts_free(s, c, group)) return std::nullopt;
  if (group.one_numa_node != 0) return fit_numa(s, c, group);
  if (group.gpu.count == 0) return PodPlacement{};
  const std::uint16_t gpus = choose(s, c, group.gpu, 0xffff);
  if (gpus == 0) return std::nullopt;
  return chosen(s, group, gpus, 0xff);
}

std::uint32_t fit_count(const NodeState& s, const NodeClass& c, const TaskGroup& group,
                        std::uint32_t most) {
  if (!plain(group)) {
    NodeState scratch = s;
    std::uint32_t count = 0;
    for (; count < most; ++count) {
      const auto pod = fit(scratch, c, group);
      if (!pod) break;
      take(scratch, c, group, *pod);
    }
    return count;
  }
  std::int64_t count = most;
  if (group.cpu > 0) count = std::min(count, s.cpu / group.cpu);
  if (group.memory > 0) count = std::min(count, s.memory / group.memory);
  if (group.gpu.count > 0) {
    count =
        std::min<std::int64_t>(count, std::popcount(s.whole) / static_cast<int>(group.gpu.count));
    if (const std::int64_t watts = pod_watts(c, group); watts > 0) {
      count = std::min(count, s.watts / watts);
    }
  }
  return static_cast<std::uint32_t>(std::max<std::int64_t>(count, 0));
}

void take(NodeState& s, const NodeClass& c, const TaskGroup& group, const PodPlacement& pod) {
  s.cpu -= group.cpu;
  s.memory -= group.memory;
  if (s.watts != kUnlimited) s.watts -= pod_watts(c, group);
  if (pod.numa != 0xff) s.numa_cpu[pod.numa] -= group.cpu;
  if (group.gpu.count == 0) return;
  s.whole = static_cast<std::uint16_t>(s.whole & ~pod.gpus);
  // None when its device is gone since it began.
  for (std::uint16_t rest = pod.gpus; rest != 0;
       rest = static_cast<std::uint16_t>(rest & (rest - 1))) {
    const std::uint32_t d = device_of(rest);
    if (group.gpu.mig != MigProfile::kWhole) {
      s.slices[d] =
          static_cast<std::uint8_t>(s.slices[d] | mig_slices(group.gpu.mig, pod.mig_start));
    } else {
      s.milli[d] = static_cast<std::uint16_t>(s.milli[d] + group.gpu.fraction);
    }
  }
}

void give(NodeState& s, const NodeClass& c, const TaskGroup& group, const PodPlacement& pod) {
  s.cpu += group.cpu;
  s.memory += group.memory;
  if (s.watts != kUnlimited) s.watts += pod_watts(c, group);
  if (pod.numa != 0xff) s.numa_cpu[pod.numa] += group.cpu;
  if (group.gpu.count == 0) return;
  for (std::uint16_t rest = pod.gpus; rest != 0;
       rest = static_cast<std::uint16_t>(rest & (rest - 1))) {
    const std::uint32_t d = device_of(rest);
    if (group.gpu.mig != MigProfile::kWhole) {
      // Of one that is nobody knows where, others may have some: all stays taken until it is gone.
      if (pod.mig_start > 7) continue;
      s.slices[d] =
          static_cast<std::uint8_t>(s.slices[d] & ~mig_slices(group.gpu.mig, pod.mig_start));
    } else {
      s.milli[d] = static_cast<std::uint16_t>(s.milli[d] - group.gpu.fraction);
    }
    if (s.milli[d] == 0 && s.slices[d] == 0)
      s.whole = static_cast<std::uint16_t>(s.whole | 1U << d);
  }
}

bool fits_at(const NodeState& s, const NodeClass& c, const TaskGroup& group,
             const PodPlacement& pod) {
  if (!amounts_free(s, c, group)) return false;
  if (pod.numa != 0xff && s.numa_cpu[pod.numa] < group.cpu) return false;
  return gpus_free(s, group.gpu, pod);
}

NodeState both_of(const NodeState& a, const NodeState& b) {
  NodeState s = a;
  s.cpu = std::min(a.cpu, b.cpu);
  s.memory = std::min(a.memory, b.memory);
  s.watts = std::min(a.watts, b.watts);
  for (std::size_t n = 0; n < kMaxNumaNodes; ++n)
    s.numa_cpu[n] = std::min(a.numa_cpu[n], b.numa_cpu[n]);
  s.whole = static_cast<std::uint16_t>(a.whole & b.whole);
  for (std::size_t d = 0; d < kMaxDevices; ++d) {
    s.milli[d] = std::max(a.milli[d], b.milli[d]);
    s.slices[d] = static_cast<std::uint8_t>(a.slices[d] | b.slices[d]);
  }
  s.tags = a.tags | b.tags;
  s.company = a.company & b.company;
  s.avoids = a.avoids | b.avoids;
  return s;
}

}  // namespace falaj::scheduler
