// scheduler/testing/random_world.h — clusters, queues and jobs by chance, from a seed, and what
// happens to them between two decisions.
#pragma once

#include <cstdint>

#include "scheduler/testing/cluster.h"

namespace falaj::scheduler::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t roll() {  // SplitMix64.
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(roll() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::uint64_t n) { return roll() % n == 0; }
  template <class T>
  T any(std::initializer_list<T> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(roll() % values.size()));
  }

 private:
  std::uint64_t state_;
};

inline NodeClass random_class(Dice& dice) {
  NodeClass c;
  c.cpu = dice.any<std::int64_t>({4000, 8000, 16'000});
  c.memory = dice.any<std::int64_t>({4096, 16'384});
  c.gpus = static_cast<std::uint32_t>(dice.any({0, 1, 2, 4, 8}));
  c.gpu_flavor = c.gpus > 0 ? static_cast<Index>(dice.in(2, 3)) : kAbsent;
  c.gpu_memory = dice.any<std::int64_t>({16'384, 81'920});
  c.mig = dice.any({MigGeometry::kNone, MigGeometry::kA100, MigGeometry::kH100});
  c.labels = dice.roll() & 3;
  c.numa_nodes = static_cast<std::uint32_t>(dice.in(1, 2));
  const auto all = static_cast<std::uint16_t>((1U << c.gpus) - 1U);
  c.numa_gpus[0] = c.numa_nodes == 1 ? all : static_cast<std::uint16_t>(all & 0x33);
  c.numa_gpus[1] = c.numa_nodes == 1 ? std::uint16_t{0} : static_cast<std::uint16_t>(all & 0xcc);
  if (dice.one_in(2)) c.gpu_islands = {0x03, 0x0c, 0x0f};
  c.watts_per_gpu = dice.any<std::int64_t>({0, 300});
  c.price_per_gpu_hour = dice.in(0, 3'000'000);
  c.price_per_core_hour = dice.in(0, 50'000);
  return c;
}

inline Shape random_shape(Dice& dice) {
  Shape shape;
  const std::int64_t groups = dice.one_in(4) ? 2 : 1;
  for (std::int64_t i = 0; i < groups; ++i) {
    TaskGroup g;
    g.min = static_cast<std::uint32_t>(dice.any({1, 1, 1, 2, 3, 4}));
    g.max = g.min + static_cast<std::uint32_t>(dice.one_in(4) ? dice.in(1, 3) : 0);
    g.cpu = dice.any<std::int64_t>({0, 500, 1000, 2000});
    g.memory = dice.any<std::int64_t>({0, 256, 1024});
    g.gpu.count = static_cast<std::uint32_t>(dice.any({0, 1, 1, 1, 2, 4}));
    if (g.gpu.count > 0) {
      g.gpu.models = {static_cast<Index>(dice.in(2, 3))};
      if (dice.one_in(2)) g.gpu.models.push_back(5 - g.gpu.models[0]);
      if (dice.one_in(4)) g.gpu.memory = 10'000;
    }
    if (g.gpu.count == 1 && dice.one_in(3)) g.gpu.fraction = dice.in(100, 900);
    if (g.gpu.count == 1 && g.gpu.fraction == 1000 && dice.one_in(3)) {
      g.gpu.mig = static_cast<MigProfile>(dice.in(1, 6));
    }
    if (dice.one_in(6)) g.max_per_node = static_cast<std::uint32_t>(dice.in(1, 2));
    g.one_numa_node = dice.one_in(5) ? 1 : 0;
    shape.groups.push_back(g);
  }
  shape.required = dice.any({Level::kCluster, Level::kCluster, Level::kHost, Level::kNvlink,
                             Level::kRack, Level::kBlock, Level::kZone});
  if (dice.one_in(3)) shape.preferred = static_cast<Level>(dice.in(0, 5));
  if (dice.one_in(3)) shape.data_zones.push_back(static_cast<std::uint64_t>(dice.in(1, 3)));
  if (dice.one_in(8)) shape.labels_required = 1;
  if (dice.one_in(8)) shape.labels_forbidden = 2;
  if (dice.one_in(6)) shape.tags = static_cast<std::uint64_t>(dice.in(1, 3));
  if (dice.one_in(8)) shape.avoids = static_cast<std::uint64_t>(dice.in(1, 3));
  if (dice.one_in(12)) shape.needs = 1;
  return shape;
}

inline Queue random_queue(Dice& dice, Index position) {
  Queue q;
  q.name = "q" + std::to_string(position);
  if (position > 0 && !dice.one_in(6)) q.parent = static_cast<Index>(dice.in(0, position - 1));
  for (const Index flavor : {kCpu, Index{2}, Index{3}}) {
    if (dice.one_in(4)) continue;
    Quota quota{flavor, dice.in(0, 20) * 1000, kUnlimited, kUnlimited};
    if (dice.one_in(3)) quota.borrow = dice.in(0, 4) * 1000;
    if (dice.one_in(3)) quota.lend = dice.in(0, 4) * 1000;
    q.quotas.push_back(quota);
  }
  q.weight = dice.in(1, 4) * 500;
  // Some never ran anything, some filled one thing and some another.
  const std::int64_t used = dice.in(0, 4);
  for (std::int64_t f = 0; f < used; ++f) {
    q.decayed_use.push_back(dice.any<std::int64_t>({0, 1'000, 1'000'000}) * dice.in(0, 100));
  }
  q.reclaim = dice.any({Reclaim::kNever, Reclaim::kLowerPriority, Reclaim::kAny, Reclaim::kAny});
  q.within =
      dice.any({WithinQueue::kNever, WithinQueue::kLowerPriority, WithinQueue::kSubmittedLater});
  if (dice.one_in(3)) q.min_run = Duration::minutes(dice.any<std::int64_t>({1, 5, 30, 120}));
  if (dice.one_in(5)) {
    q.allowances.push_back({static_cast<AllowanceKind>(dice.in(0, 2)), dice.in(1, 50'000'000), 0,
                            kNow + Duration::hours(dice.in(1, 24))});
  }
  return q;
}

inline Job random_job(Dice& dice, const Snapshot& s, std::uint64_t id, Timestamp now) {
  Job job;
  job.id = id;
  job.queue = static_cast<Index>(dice.in(0, static_cast<std::int64_t>(s.queues.size()) - 1));
  job.shape = static_cast<Index>(dice.in(0, static_cast<std::int64_t>(s.shapes.size()) - 1));
  job.priority = static_cast<std::int32_t>(dice.any({0, 0, 0, 1, 2}));
  job.submitted = now - Duration::minutes(dice.in(0, 600));
  if (!dice.one_in(5)) {
    job.remaining_p50 = Duration::minutes(dice.in(1, 300));
    job.remaining_p90 = job.remaining_p50 + Duration::minutes(dice.in(0, 300));
  }
  if (dice.one_in(8)) job.deadline = now + Duration::minutes(dice.in(0, 600));
  if (dice.one_in(8)) job.cost_cap = dice.in(0, 20'000'000);
  if (dice.one_in(15)) job.unmet_dependencies = 1;
  if (dice.one_in(10)) job.array = 0;
  job.restart_cost = Duration::seconds(dice.in(0, 300));
  if (dice.one_in(6)) job.max_run = Duration::minutes(dice.in(1, 900));
  return job;
}

inline Snapshot random_snapshot(Dice& dice) {
  Snapshot s;
  s.flavors = {{"cpu", 1}, {"memory", 0}, {"gpu.a100", 64}, {"gpu.h100", 96}};
  s.zones = {"ae", "eu"};
  s.arrays = {{2}};
  const std::int64_t classes = dice.in(1, 3);
  for (std::int64_t i = 0; i < classes; ++i) s.classes.push_back(random_class(dice));
  const std::int64_t nodes = dice.in(1, 8);
  for (Index i = 0; i < nodes; ++i) {
    Node node;
    node.node_class = static_cast<Index>(dice.in(0, classes - 1));
    node.zone = i / 6;
    node.domain = {i / 2, i / 2, i / 6};
    if (nodes > 4) node.domain = {i / 2, i / 4, i / 4};
    if (nodes > 4) node.zone = i / 4;
    if (dice.one_in(8)) node.drain_at = kNow + Duration::hours(dice.in(1, 12));
    if (dice.one_in(8)) node.power_cap = dice.in(0, 1200);
    s.nodes.push_back(node);
  }
  const std::int64_t queues = dice.in(1, 7);
  for (Index i = 0; i < queues; ++i) s.queues.push_back(random_queue(dice, i));
  const std::int64_t shapes = dice.in(2, 8);
  for (std::int64_t i = 0; i < shapes; ++i) s.shapes.push_back(random_shape(dice));
  const std::int64_t jobs = dice.in(3, 40);
  for (std::int64_t i = 0; i < jobs; ++i) {
    s.jobs.push_back(random_job(dice, s, static_cast<std::uint64_t>(i + 1), kNow));
  }
  return s;
}

inline Policy random_policy(Dice& dice) {
  Policy p;
  p.order.p50 = dice.in(0, 1500);
  p.order.p90 = dice.any<std::int64_t>({0, 300});
  p.order.size = dice.in(0, 1500);
  p.order.attained = dice.any<std::int64_t>({0, 500});
  p.order.share = dice.any<std::int64_t>({0, 1000});
  p.order.age = dice.any<std::int64_t>({0, 300});
  p.order.points_per_hour = dice.any<std::int64_t>({0, 100});
  p.preemption.entitlement = dice.any({Entitlement::kNominal, Entitlement::kFairShare});
  p.preemption.priority = static_cast<Scope>(dice.in(0, 3));
  p.preemption.order = static_cast<Scope>(dice.in(0, 3));
  p.preemption.margin = dice.any<std::int64_t>({0, 1, 500, 1000});
  p.preemption.score_weight = dice.any<std::int64_t>({0, 500});
  p.preemption.min_run = Duration::minutes(dice.any<std::int64_t>({0, 10, 60}));
  p.reservations = static_cast<std::uint32_t>(dice.in(0, 3));
  p.strict_fifo = dice.one_in(6) ? 1 : 0;
  return p;
}

// What may happen from outside between two decisions.
inline void disturb(Dice& dice, Snapshot& s, Timestamp now, std::uint64_t& next_id) {
  for (Job& job : s.jobs) {
    if (job.state == JobState::kStopping && !dice.one_in(3)) {
      job.state = JobState::kPending;
      job.placement = {};
    } else if (job.state == JobState::kRunning && dice.one_in(6)) {
      job = random_job(dice, s, next_id++, now);  // It has ended; another one comes.
    } else if (job.state == JobState::kRunning) {
      job.remaining_p50 = Duration::minutes(dice.in(1, 300));
      job.remaining_p90 = job.remaining_p50 + Duration::minutes(dice.in(0, 60));
      job.attained += 600;
      if (dice.one_in(3)) job.checkpoint = now;
    } else if (job.state == JobState::kPending && dice.one_in(12)) {
      job = random_job(dice, s, next_id++, now);
    }
  }
  for (Index n = 0; n < s.nodes.size(); ++n) {
    if (!dice.one_in(10)) continue;
    s.nodes[n].health = dice.any({NodeHealth::kUp, NodeHealth::kUp, NodeHealth::kCordoned,
                                  NodeHealth::kHot, NodeHealth::kDown});
    if (s.nodes[n].health != NodeHealth::kDown) continue;
    for (Job& job : s.jobs) {
      const auto& pods = job.placement.pods;
      const bool here = std::any_of(pods.begin(), pods.end(),
                                    [&](const PodPlacement& pod) { return pod.node == n; });
      if (!here || job.state == JobState::kClaimed) continue;
      job.state = JobState::kPending;
      job.placement = {};
    }
  }
  for (Queue& queue : s.queues) {
    for (Quota& quota : queue.quotas) {
      if (dice.one_in(20)) quota.nominal = dice.in(0, 8) * 1000;
    }
    for (std::int64_t& used : queue.decayed_use) {
      used = dice.one_in(4) ? used + dice.in(0, 1'000'000) : used / 2;
    }
  }
}

}  // namespace falaj::scheduler::testing
