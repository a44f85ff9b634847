#include "scheduler/snapshot.h"

#include <algorithm>
#include <bit>

namespace falaj::scheduler {
namespace {

Error wrong(std::string_view what, std::size_t index, std::string_view why) {
  return Error(Code::kInvalidArgument, std::string(what) + " " + std::to_string(index) +
                                           " of the " + "snapshot: " + std::string(why));
}

Status check_class(const Snapshot& s, std::size_t i) {
  const NodeClass& c = s.classes[i];
  if (c.cpu < 0 || c.memory < 0 || c.gpu_memory < 0 || c.watts_per_gpu < 0 ||
      c.price_per_gpu_hour < 0 || c.price_per_core_hour < 0) {
    return wrong("node class", i, "an amount is negative");
  }
  if (c.gpus > kMaxDevices) return wrong("node class", i, "has more than 16 GPUs");
  if (c.gpus > 0 && (c.gpu_flavor < 2 || c.gpu_flavor >= s.flavors.size())) {
    return wrong("node class", i, "its GPUs have no flavor");
  }
  if (c.numa_nodes < 1 || c.numa_nodes > kMaxNumaNodes) {
    return wrong("node class", i, "it has 1 to 4 NUMA nodes");
  }
  return {};
}

Status check_node(const Snapshot& s, std::size_t i) {
  const Node& n = s.nodes[i];
  if (n.node_class >= s.classes.size()) return wrong("node", i, "its class does not exist");
  if (n.zone >= s.zones.size()) return wrong("node", i, "its zone does not exist");
  for (const Index domain : n.domain) {
    if (domain >= s.nodes.size()) return wrong("node", i, "domains are numbered below the nodes");
  }
  if (n.power_cap < 0) return wrong("node", i, "its power cap is negative");
  return {};
}

// Every domain lies within one of the next wider kind: a place in a near domain is then also within
// every wider one.
Status check_nested(const Snapshot& s) {
  std::array<std::vector<Index>, 3> around;
  for (auto& list : around) list.assign(s.nodes.size(), kAbsent);
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const Node& n = s.nodes[i];
    const Index wider[] = {n.domain[1], n.domain[2], n.zone};
    for (std::size_t level = 0; level < 3; ++level) {
      Index& known = around[level][n.domain[level]];
      if (known == kAbsent) known = wider[level];
      if (known != wider[level])
        return wrong("node", i, "its domains do not lie within each other");
    }
  }
  return {};
}

Status check_queue(const Snapshot& s, std::size_t i, std::vector<std::uint8_t>& depth) {
  const Queue& q = s.queues[i];
  if (q.parent != kAbsent && q.parent >= i) {
    return wrong("queue", i, "its parent does not stand before it");
  }
  depth[i] = q.parent == kAbsent ? std::uint8_t{1} : static_cast<std::uint8_t>(depth[q.parent] + 1);
  if (depth[i] > kMaxDepth) return wrong("queue", i, "more than 8 queues above one another");
  if (q.weight < 1 || q.weight > 1'000'000'000)
    return wrong("queue", i, "its weight is not positive");
  if (q.decayed_use.size() > s.flavors.size()) return wrong("queue", i, "used what there is not");
  for (const std::int64_t used : q.decayed_use) {
    if (used < 0) return wrong("queue", i, "used less than nothing");
  }
  std::uint32_t seen = 0;
  for (const Quota& quota : q.quotas) {
    if (quota.flavor >= s.flavors.size())
      return wrong("queue", i, "a quota's flavor does not exist");
    if ((seen >> quota.flavor & 1U) != 0) return wrong("queue", i, "two quotas for one flavor");
    seen |= 1U << quota.flavor;
    if (quota.nominal < 0 || quota.borrow < 0 || quota.lend < 0) {
      return wrong("queue", i, "a quota is negative");
    }
  }
  return {};
}

Status check_group(const Snapshot& s, std::size_t i, const TaskGroup& g) {
  if (g.min > g.max || g.max < 1)
    return wrong("shape", i, "a group needs 0 <= min <= max, max > 0");
  if (g.cpu < 0 || g.memory < 0 || g.gpu.memory < 0) return wrong("shape", i, "a negative amount");
  if (g.max_per_node < 1) return wrong("shape", i, "at most 0 pods per node");
  if (g.gpu.count == 0) return {};
  if (g.gpu.count > kMaxDevices) return wrong("shape", i, "more than 16 GPUs a pod");
  if (g.gpu.models.empty()) return wrong("shape", i, "GPUs without a model");
  for (const Index model : g.gpu.models) {
    if (model < 2 || model >= s.flavors.size()) return wrong("shape", i, "no such GPU model");
  }
  if (g.gpu.fraction < 1 || g.gpu.fraction > 1000) {
    return wrong("shape", i, "a fraction is within 1 and 1000");
  }
  const bool part = g.gpu.fraction < 1000 || g.gpu.mig != MigProfile::kWhole;
  if (part && g.gpu.count != 1) return wrong("shape", i, "a part of more than one GPU");
  if (g.gpu.fraction < 1000 && g.gpu.mig != MigProfile::kWhole) {
    return wrong("shape", i, "a fraction of an instance");
  }
  return {};
}

Status check_shape(const Snapshot& s, std::size_t i) {
  const Shape& shape = s.shapes[i];
  if (shape.groups.empty() || shape.groups.size() > kMaxGroups) {
    return wrong("shape", i, "it has 1 to 8 task groups");
  }
  std::uint64_t pods = 0;
  for (const TaskGroup& group : shape.groups) {
    FALAJ_TRY(check_group(s, i, group));
    pods += group.min;
  }
  if (pods == 0) return wrong("shape", i, "it asks for no pod at all");
  return {};
}

Status check_job(const Snapshot& s, std::size_t i) {
  const Job& j = s.jobs[i];
  if (j.id == 0) return wrong("job", i, "it has no id");
  if (j.queue >= s.queues.size()) return wrong("job", i, "its queue does not exist");
  if (j.shape >= s.shapes.size()) return wrong("job", i, "its shape does not exist");
  if (j.array != kAbsent && j.array >= s.arrays.size()) {
    return wrong("job", i, "its array does not exist");
  }
  if (j.remaining_p50.nanos < 0 || j.remaining_p90.nanos < 0 || j.restart_cost.nanos < 0 ||
      j.max_run.nanos < 0 || j.attained < 0 || j.spent < 0 || j.cost_cap < 0) {
    return wrong("job", i, "a time or an amount is negative");
  }
  if (j.state == JobState::kPending) return {};
  const Shape& shape = s.shapes[j.shape];
  if (j.placement.counts.size() != shape.groups.size()) {
    return wrong("job", i, "its placement has other groups than its shape");
  }
  std::uint64_t pods = 0;
  for (const auto count : j.placement.counts) pods += count;
  if (pods != j.placement.pods.size()) return wrong("job", i, "its placement misses pods");
  for (const PodPlacement& pod : j.placement.pods) {
    if (pod.node >= s.nodes.size()) return wrong("job", i, "it is placed on no node");
    const NodeClass& c = s.classes[s.nodes[pod.node].node_class];
    if (pod.gpus >> c.gpus != 0) return wrong("job", i, "it is placed on a GPU that is not there");
    if (pod.numa != 0xff && pod.numa >= c.numa_nodes) return wrong("job", i, "no such NUMA node");
    if (pod.mig_start != 0xff && pod.mig_start > 7) return wrong("job", i, "no such memory slice");
  }
  return {};
}

Status check_ids(const Snapshot& s) {
  std::vector<std::uint64_t> ids;
  ids.reserve(s.jobs.size());
  for (const Job& job : s.jobs) ids.push_back(job.id);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return wrong("job id", *twice, "stands twice");
  return {};
}

}  // namespace

Status check(const Snapshot& s) {
  if (s.flavors.size() < 2 || s.flavors.size() > kMaxFlavors) {
    return wrong("flavor", s.flavors.size(), "there are 2 to 16: cpu, memory, GPU models");
  }
  if (s.zones.size() > 64) return wrong("zone", s.zones.size(), "there are at most 64");
  for (std::size_t i = 0; i < s.classes.size(); ++i) FALAJ_TRY(check_class(s, i));
  for (std::size_t i = 0; i < s.nodes.size(); ++i) FALAJ_TRY(check_node(s, i));
  FALAJ_TRY(check_nested(s));
  std::vector<std::uint8_t> depth(s.queues.size());
  for (std::size_t i = 0; i < s.queues.size(); ++i) FALAJ_TRY(check_queue(s, i, depth));
  for (std::size_t i = 0; i < s.shapes.size(); ++i) FALAJ_TRY(check_shape(s, i));
  for (std::size_t i = 0; i < s.jobs.size(); ++i) FALAJ_TRY(check_job(s, i));
  return check_ids(s);
}

Index domain_of(const Node& node, Index position, Level level) {
  const auto& [nvlink, rack, block] = node.domain;
  const std::array<Index, kLevels> domains = {position, nvlink, rack, block, node.zone, 0};
  return domains[static_cast<std::size_t>(level)];
}

std::vector<Index> ancestors(const Snapshot& snapshot, Index queue) {
  std::vector<Index> way;
  for (; queue != kAbsent; queue = snapshot.queues[queue].parent) way.push_back(queue);
  return way;
}

Quota quota_of(const Snapshot& snapshot, Index queue, Index flavor) {
  Quota found{flavor, 0, kUnlimited, kUnlimited};
  for (const Quota& quota : snapshot.queues[queue].quotas) {
    if (quota.flavor == flavor) found = quota;
  }
  if (snapshot.queues[queue].parent == kAbsent) found.borrow = 0;
  return found;
}

bool is_counted(const Snapshot& snapshot, Index queue, Index flavor) {
  const Index root = ancestors(snapshot, queue).back();
  for (Index q = 0; q < snapshot.queues.size(); ++q) {
    const auto& quotas = snapshot.queues[q].quotas;
    const bool mentions = std::any_of(quotas.begin(), quotas.end(),
                                      [&](const Quota& quota) { return quota.flavor == flavor; });
    if (mentions && ancestors(snapshot, q).back() == root) return true;
  }
  return false;
}

}  // namespace falaj::scheduler
