#include "scheduler/encode.h"

namespace falaj::scheduler {

void Encoder::text(std::string_view value) {
  put(static_cast<std::uint64_t>(value.size()));
  out_.append(value);
}

void Encoder::bytes(std::span<const std::uint8_t> value) {
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void Encoder::placement(const Placement& placement) {
  list(placement.counts, [&](std::uint32_t count) { put(count); });
  list(placement.pods,
       [&](const PodPlacement& pod) { put(pod.node, pod.gpus, pod.numa, pod.mig_start); });
}

namespace {

void put(Encoder& out, const NodeClass& c) {
  out.text(c.name);
  out.put(c.cpu, c.memory, c.gpu_flavor, c.gpus, c.gpu_memory, c.mig, c.labels, c.numa_nodes,
          c.watts_per_gpu, c.price_per_gpu_hour, c.price_per_core_hour);
  out.list(c.gpu_islands, [&](std::uint16_t mask) { out.put(mask); });
  for (const auto mask : c.numa_gpus) out.put(mask);
}

void put(Encoder& out, const Queue& q) {
  out.text(q.name);
  out.put(q.parent, q.weight, q.decayed_use, q.reclaim, q.within, q.min_run);
  out.list(q.quotas, [&](const Quota& x) { out.put(x.flavor, x.nominal, x.borrow, x.lend); });
  out.list(q.allowances,
           [&](const Allowance& a) { out.put(a.kind, a.limit, a.spent, a.window_end); });
}

void put(Encoder& out, const Shape& s) {
  out.put(s.required, s.preferred, s.labels_required, s.labels_forbidden, s.tags, s.avoids,
          s.needs);
  out.list(s.data_zones, [&](std::uint64_t zones) { out.put(zones); });
  out.list(s.groups, [&](const TaskGroup& g) {
    out.put(g.min, g.max, g.cpu, g.memory, g.max_per_node, g.one_numa_node);
    out.put(g.gpu.count, g.gpu.fraction, g.gpu.mig, g.gpu.memory);
    out.list(g.gpu.models, [&](Index flavor) { out.put(flavor); });
  });
}

void put(Encoder& out, const Job& j) {
  out.put(j.id, j.queue, j.shape, j.state, j.priority, j.submitted, j.started, j.deadline,
          j.remaining_p50, j.remaining_p90, j.max_run, j.attained, j.checkpoint, j.restart_cost,
          j.spent, j.cost_cap, j.unmet_dependencies, j.array);
  out.placement(j.placement);
}

void put(Encoder& out, const Node& n) {
  out.put(n.node_class, n.zone, n.domain[0], n.domain[1], n.domain[2], n.health, n.drain_at,
          n.power_cap);
}

// In pieces, so that a large snapshot is never twice in memory.
template <class List>
void hash_list(Sha256Hasher& hasher, const List& values) {
  Encoder out;
  out.put(static_cast<std::uint64_t>(values.size()));
  for (const auto& value : values) {
    put(out, value);
    if (out.str().size() < 65536) continue;
    hasher.update(out.str());
    out.clear();
  }
  hasher.update(out.str());
}

}  // namespace

Sha256 digest(const Snapshot& snapshot) {
  Encoder head;
  head.put(snapshot.epoch);
  head.list(snapshot.flavors, [&](const Flavor& f) {
    head.text(f.name);
    head.put(f.weight);
  });
  head.list(snapshot.zones, [&](const std::string& zone) { head.text(zone); });
  head.list(snapshot.arrays, [&](const JobArray& array) { head.put(array.max_running); });
  Sha256Hasher hasher;
  hasher.update(head.str());
  hash_list(hasher, snapshot.classes);
  hash_list(hasher, snapshot.nodes);
  hash_list(hasher, snapshot.queues);
  hash_list(hasher, snapshot.shapes);
  hash_list(hasher, snapshot.jobs);
  return hasher.finish();
}

Sha256 digest(const Policy& p) {
  Encoder out;
  out.put(p.order.p50, p.order.p90, p.order.size, p.order.attained, p.order.share, p.order.age,
          p.order.points_per_hour, p.order.age_cap, p.order.deadline_slack);
  out.put(p.preemption.entitlement, p.preemption.priority, p.preemption.order, p.preemption.margin,
          p.preemption.score_weight, p.preemption.grace, p.preemption.min_run);
  out.put(p.reservations, p.reserve_after, p.unknown_run, p.strict_fifo);
  return sha256(out.str());
}

}  // namespace falaj::scheduler
