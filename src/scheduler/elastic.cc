#include "scheduler/elastic.h"

#include <algorithm>

#include "scheduler/preempt.h"

namespace falaj::scheduler {
namespace {

struct Grower {
  Index job;
  std::size_t group;
  Index admit;  // Position in Decisions::admit, or kAbsent: it runs.
};

const Placement& placement_of(const Cycle& cycle, const Grower& grower) {
  return grower.admit == kAbsent ? cycle.placement(grower.job)
                                 : cycle.out.admit[grower.admit].placement;
}

// Where the pods of group `g` end.
std::size_t end_of_group(const Placement& placement, std::size_t g) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= g; ++i) end += placement.counts[i];
  return end;
}

// A gang of one pod beside those that are there: same model, same required domain.
std::optional<PodPlacement> one_more(Cycle& cycle, Index job, std::size_t g,
                                     const Placement& placement) {
  const Shape& shape = cycle.shape(job);
  Gang gang = cycle.gang(job, 0);
  std::fill(gang.counts.begin(), gang.counts.end(), 0);
  gang.counts[g] = 1;
  const auto same_domain = [&](Index node) {
    return shape.required == Level::kCluster ||
           domain_of(cycle.snapshot.nodes[node], node, shape.required) ==
               domain_of(cycle.snapshot.nodes[placement.pods[0].node], placement.pods[0].node,
                         shape.required);
  };
  const auto own_pods = [&](Index node) {
    const std::size_t end = end_of_group(placement, g);
    return static_cast<std::uint32_t>(std::count_if(
        placement.pods.begin() + static_cast<std::ptrdiff_t>(end - placement.counts[g]),
        placement.pods.begin() + static_cast<std::ptrdiff_t>(end),
        [&](const PodPlacement& pod) { return pod.node == node; }));
  };
  NodeState nothing;
  nothing.cpu = nothing.memory = nothing.watts = -1;
  const Narrow promised = cycle.board.narrow(gang.end);
  const Narrow narrow = [&](Index node, const NodeState& state) -> const NodeState* {
    if (!same_domain(node) || own_pods(node) >= shape.groups[g].max_per_node) return &nothing;
    return promised ? promised(node, state) : nullptr;
  };
  for (gang.choice = 0; gang.choice < gang.rules->choices; ++gang.choice) {
    Placed placed = cycle.placer.place(cycle.board.both(), gang, narrow);
    if (placed.placement) return placed.placement->pods[0];
  }
  return std::nullopt;
}

Placement with_pod(Placement placement, std::size_t g, const PodPlacement& pod) {
  const auto end = static_cast<std::ptrdiff_t>(end_of_group(placement, g));
  placement.pods.insert(placement.pods.begin() + end, pod);
  ++placement.counts[g];
  return placement;
}

// The pod for itself by quota and allowances, the job with it by its cap.
bool affordable(const Cycle& cycle, const Grower& grower, const PodPlacement& pod) {
  const Index job = grower.job;
  const Placement one = single(cycle.shape(job), grower.group, pod);
  return money_or_quota(cycle, job, one, cycle.board.use_now()).code == ReasonCode::kNone &&
         money_or_quota(cycle, job, one, cycle.board.use_later()).code == ReasonCode::kNone &&
         beyond_cap(cycle, job, with_pod(placement_of(cycle, grower), grower.group, pod)) == 0;
}

bool grow_once(Cycle& cycle, const Grower& grower) {
  const Placement& before = placement_of(cycle, grower);
  if (before.counts[grower.group] >= cycle.shape(grower.job).groups[grower.group].max) return false;
  const auto pod = one_more(cycle, grower.job, grower.group, before);
  if (!pod || !affordable(cycle, grower, *pod)) return false;
  cycle.board.add_pod(grower.job, grower.group, *pod);
  if (grower.admit != kAbsent) {
    Placement& started = cycle.out.admit[grower.admit].placement;
    started = with_pod(std::move(started), grower.group, *pod);
    return true;
  }
  if (cycle.resized[grower.job] == kAbsent) {
    cycle.out.resize.push_back({grower.job, kAbsent, before});
    cycle.resized[grower.job] = static_cast<Index>(cycle.out.resize.size() - 1);
  }
  Placement& placement = cycle.out.resize[cycle.resized[grower.job]].placement;
  placement = with_pod(std::move(placement), grower.group, *pod);
  return true;
}

// A running job starts again to grow, so it has run for as long as it may not be preempted.
bool may_grow(const Cycle& cycle, Index i) {
  const Job& job = cycle.snapshot.jobs[i];
  if (job.state != JobState::kRunning) return false;
  if (cycle.leaving[i] != 0 || cycle.resized[i] != kAbsent) return false;
  return has_run_enough(cycle, job);
}

void add_growers(const Cycle& cycle, Index job, Index admit, std::vector<Grower>& growers) {
  const Shape& shape = cycle.shape(job);
  if ((shape.needs & shape.tags) != 0) return;  // It would keep itself company.
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const Grower grower{job, g, admit};
    if (placement_of(cycle, grower).counts[g] < shape.groups[g].max) growers.push_back(grower);
  }
}

}  // namespace

void grow(Cycle& cycle) {
  std::vector<Grower> growers;
  for (Index i = 0; i < cycle.snapshot.jobs.size(); ++i) {
    if (may_grow(cycle, i)) add_growers(cycle, i, kAbsent, growers);
  }
  for (Index i = 0; i < cycle.out.admit.size(); ++i) {
    add_growers(cycle, cycle.out.admit[i].job, i, growers);
  }
  std::sort(growers.begin(), growers.end(), [&](const Grower& a, const Grower& b) {
    const Rank& x = cycle.ranks[a.job];
    const Rank& y = cycle.ranks[b.job];
    if (!(x == y)) return x.before(y);
    return a.job != b.job ? a.job < b.job : a.group < b.group;
  });
  while (!growers.empty()) {
    std::erase_if(growers, [&](const Grower& grower) { return !grow_once(cycle, grower); });
  }
}

}  // namespace falaj::scheduler
