#include "scheduler/place.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace falaj::scheduler {
namespace {

// Of the whole gang, to pass over domains that cannot hold it.
struct Need {
  std::int64_t gpus = 0;
  std::int64_t cpu = 0;
};

Need need_of(const Gang& gang) {
  Need need;
  for (std::size_t g = 0; g < gang.counts.size(); ++g) {
    const TaskGroup& group = gang.shape->groups[g];
    need.cpu += group.cpu * std::int64_t{gang.counts[g]};
    if (group.gpu.fraction == 1000 && group.gpu.mig == MigProfile::kWhole) {
      need.gpus += std::int64_t{group.gpu.count} * gang.counts[g];
    }
  }
  return need;
}

std::uint64_t pods_of(const Gang& gang) {
  return std::accumulate(gang.counts.begin(), gang.counts.end(), std::uint64_t{0});
}

bool takes_part(const TaskGroup& group) {
  return group.gpu.count > 0 && (group.gpu.fraction < 1000 || group.gpu.mig != MigProfile::kWhole);
}

}  // namespace

Placer::Placer(const Snapshot& snapshot, const Topology& topology)
    : snapshot_(snapshot), topology_(topology), slot_(snapshot.nodes.size(), kAbsent) {}

bool Placer::usable(const Gang& gang, std::size_t group, Index node) const {
  const Node& n = snapshot_.nodes[node];
  return gang.rules->allows(gang.choice, group, gang.counts.size(), n.node_class,
                            snapshot_.classes.size()) &&
         (gang.rules->zones >> n.zone & 1U) != 0 &&
         (gang.doors == Gang::Doors::kAll ||
          (gang.doors == Gang::Doors::kHotToo ? open_once_cool(n, gang.gone)
                                              : open_until(n, gang.gone)));
}

const NodeState& Placer::state(const Site& site, const Narrow& narrow, Index node) {
  if (slot_[node] != kAbsent) return overlay_[slot_[node]];
  if (narrow) {
    if (const NodeState* other = narrow(node, site.at(node))) return *other;
  }
  return site.at(node);
}

NodeState& Placer::scratch(const Site& site, const Narrow& narrow, Index node) {
  if (slot_[node] == kAbsent) {
    overlay_.push_back(state(site, narrow, node));
    slot_[node] = static_cast<Index>(overlay_.size() - 1);
    touched_.push_back(node);
  }
  return overlay_[slot_[node]];
}

void Placer::forget() {
  for (const Index node : touched_) slot_[node] = kAbsent;
  touched_.clear();
  overlay_.clear();
}

std::optional<PodPlacement> Placer::try_node(const Site& site, const Gang& gang,
                                             const Narrow& narrow, std::size_t group, Index node) {
  if (!usable(gang, group, node)) return std::nullopt;
  const NodeState& s = state(site, narrow, node);
  if (!bears(s, *gang.shape)) return std::nullopt;
  auto pod = fit(s, snapshot_.classes[snapshot_.nodes[node].node_class], gang.shape->groups[group]);
  if (pod) pod->node = node;
  return pod;
}

// The fullest node that still has room: first those with GPUs that are shared already (for a part
// of one), then by how many whole GPUs are left, then, for pods without GPU, nodes without GPU
// first.
std::optional<PodPlacement> Placer::one_pod(const Site& site, const Gang& gang,
                                            const Narrow& narrow, std::size_t g) {
  const TaskGroup& group = gang.shape->groups[g];
  const auto allowed = [&](Index kind) {
    return gang.rules->allows(gang.choice, g, gang.counts.size(), kind, snapshot_.classes.size());
  };
  const auto kinds = static_cast<Index>(snapshot_.classes.size());
  if (takes_part(group)) {
    for (Index kind = 0; kind < kinds; ++kind) {
      if (!allowed(kind)) continue;
      for (const Index node : site.shared(kind)) {
        if (auto pod = try_node(site, gang, narrow, g, node)) return pod;
      }
    }
  }
  const auto magnitude = static_cast<std::uint32_t>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(group.cpu, 0))));
  for (const bool with_gpus : {false, true}) {
    if (group.gpu.count > 0 && !with_gpus) continue;
    const std::uint32_t least = with_gpus ? (takes_part(group) ? 1 : group.gpu.count) : magnitude;
    for (std::uint32_t key = least; key < Site::kKeys; ++key) {
      for (Index kind = 0; kind < kinds; ++kind) {
        if ((snapshot_.classes[kind].gpus > 0) != with_gpus || !allowed(kind)) continue;
        for (const Index node : site.bucket(kind, key)) {
          if (auto pod = try_node(site, gang, narrow, g, node)) return pod;
        }
      }
    }
  }
  return std::nullopt;
}

Placed Placer::place(const Site& site, const Gang& gang, const Narrow& narrow) {
  Placed placed;
  if (pods_of(gang) == 1) {
    const auto g = static_cast<std::size_t>(std::find(gang.counts.begin(), gang.counts.end(), 1U) -
                                            gang.counts.begin());
    if (const auto pod = one_pod(site, gang, narrow, g)) {
      placed.placement = Placement{gang.counts, {*pod}};
    }
    return placed;
  }
  bool done = on_one_host(site, gang, narrow, placed);
  for (std::size_t l = 1; !done && l <= static_cast<std::size_t>(gang.shape->required); ++l) {
    done = in_domains(site, gang, narrow, static_cast<Level>(l), placed);
  }
  return placed;
}

bool Placer::on_one_host(const Site& site, const Gang& gang, const Narrow& narrow, Placed& placed) {
  const Need need = need_of(gang);
  if (need.gpus > static_cast<std::int64_t>(kMaxDevices)) return false;
  const auto kinds = static_cast<Index>(snapshot_.classes.size());
  const auto magnitude =
      static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(need.cpu)));
  for (const bool with_gpus : {false, true}) {
    const std::uint32_t least = with_gpus ? static_cast<std::uint32_t>(need.gpus) : magnitude;
    for (std::uint32_t key = least; key < Site::kKeys; ++key) {
      for (Index kind = 0; kind < kinds; ++kind) {
        if ((snapshot_.classes[kind].gpus > 0) != with_gpus) continue;
        if (!with_gpus && need.gpus > 0) continue;
        if (!gang.rules->allows(gang.choice, 0, gang.counts.size(), kind, kinds)) continue;
        for (const Index node : site.bucket(kind, key)) {
          if (site.at(node).cpu < need.cpu) continue;
          if (fill(site, gang, narrow, std::span(&node, 1), placed)) return true;
        }
      }
    }
  }
  return false;
}

bool Placer::in_domains(const Site& site, const Gang& gang, const Narrow& narrow, Level level,
                        Placed& placed) {
  const Need need = need_of(gang);
  if (level == Level::kCluster) {
    return fill(site, gang, narrow, topology_.nodes(level, 0), placed);
  }
  // The domain with the least room that is enough; among equals the one in the fuller surroundings.
  std::vector<std::tuple<std::int64_t, std::int64_t, Index>> order;
  const auto room = [&](Level where, std::size_t d) {
    return need.gpus > 0 ? site.free_gpus(where, d) : site.free_cpu(where, d);
  };
  const auto wider = level < Level::kZone ? static_cast<Level>(static_cast<int>(level) + 1) : level;
  for (std::size_t d = 0; d < topology_.domains(level); ++d) {
    const std::int64_t gpus = site.free_gpus(level, d);
    const std::int64_t cpu = site.free_cpu(level, d);
    if (gpus < need.gpus || cpu < need.cpu) continue;
    const auto nodes = topology_.nodes(level, d);
    if (nodes.empty()) continue;
    const Index around = domain_of(snapshot_.nodes[nodes[0]], nodes[0], wider);
    order.emplace_back(room(level, d), room(wider, around), static_cast<Index>(d));
  }
  std::sort(order.begin(), order.end());
  // A near domain is a wish; the required and the preferred one must be found if there is one.
  const bool must = level == gang.shape->required || level == gang.shape->preferred;
  const std::size_t tries = must ? order.size() : std::min<std::size_t>(order.size(), 8);
  for (std::size_t i = 0; i < tries; ++i) {
    if (fill(site, gang, narrow, topology_.nodes(level, std::get<2>(order[i])), placed))
      return true;
  }
  return false;
}

bool Placer::fill(const Site& site, const Gang& gang, const Narrow& narrow,
                  std::span<const Index> nodes, Placed& placed) {
  std::vector<PodPlacement> pods;
  pods.reserve(pods_of(gang));
  bool whole = true;
  for (std::size_t g = 0; g < gang.counts.size() && whole; ++g) {
    whole = fill_group(site, gang, narrow, g, nodes, pods) == gang.counts[g];
  }
  forget();
  placed.most_pods = std::max<std::uint64_t>(placed.most_pods, pods.size());
  if (whole) placed.placement = Placement{gang.counts, std::move(pods)};
  return whole;
}

std::uint32_t Placer::fill_group(const Site& site, const Gang& gang, const Narrow& narrow,
                                 std::size_t g, std::span<const Index> nodes,
                                 std::vector<PodPlacement>& pods) {
  const TaskGroup& group = gang.shape->groups[g];
  const std::uint32_t most = std::min(gang.counts[g], group.max_per_node);
  candidates_.clear();
  for (const Index node : nodes) {
    if (!usable(gang, g, node)) continue;
    const NodeState& s = state(site, narrow, node);
    if (!bears(s, *gang.shape)) continue;
    const NodeClass& c = snapshot_.classes[snapshot_.nodes[node].node_class];
    const std::uint32_t fits = fit_count(s, c, group, most);
    if (fits == 0) continue;
    const std::int64_t gpus = std::popcount(s.whole) - std::int64_t{fits} * group.gpu.count;
    candidates_.push_back({fits, gpus * 1'000'000'000 + s.cpu - group.cpu * fits, node});
  }
  // Few nodes, and on those the least left over.
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    if (a.fits != b.fits) return a.fits > b.fits;
    return a.left != b.left ? a.left < b.left : a.node < b.node;
  });
  std::uint32_t done = 0;
  for (const Candidate& candidate : candidates_) {
    if (done == gang.counts[g]) break;
    const NodeClass& c = snapshot_.classes[snapshot_.nodes[candidate.node].node_class];
    NodeState& s = scratch(site, narrow, candidate.node);
    for (std::uint32_t i = 0; i < candidate.fits && done < gang.counts[g]; ++i) {
      auto pod = fit(s, c, group);
      if (!pod) break;
      pod->node = candidate.node;
      take(s, c, group, *pod);
      pods.push_back(*pod);
      ++done;
    }
  }
  return done;
}

}  // namespace falaj::scheduler
