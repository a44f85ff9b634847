#include "scheduler/simulate/preemptive.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace falaj::scheduler::simulate {

void PreemptiveStrategy::on_pending(const World& world, JobIndex job) {
  if (waiting_rank_.empty()) waiting_rank_.resize(world.trace().jobs.size());
  waiting_rank_[job] = rank(world, job);
  waiting_.add(world.spec(job).gpus, waiting_rank_[job]);
}

void PreemptiveStrategy::schedule(World& world) {
  std::set<std::int32_t> blocked;
  bool gathered = false;
  const auto open = [&blocked](std::int32_t gpus) { return !blocked.contains(gpus); };
  while (const std::optional<Turn> next = waiting_.first(open)) {
    const std::int32_t gpus = world.spec(next->job).gpus;
    if (!world.cluster().fits(gpus)) {
      if (!gathered) gather(world);
      gathered = true;
      if (!make_room(world, *next, gpus)) {
        blocked.insert(gpus);
        continue;
      }
      blocked.clear();  // Those pushed out wait now, and may rank before the head that blocked.
      gathered = false;
    }
    waiting_.remove(gpus, *next);
    const bool started = world.start(next->job);
    FALAJ_CHECK(started);
    gathered = false;
  }
}

void PreemptiveStrategy::gather(const World& world) {
  on_node_.assign(static_cast<std::size_t>(world.cluster().node_count()), {});
  for (const JobIndex job : world.running()) {
    const Turn own = rank(world, job);
    for (const Slot& slot : world.job(job).placement) {
      on_node_[static_cast<std::size_t>(slot.node)].push_back({own, slot.gpus});
    }
  }
  for (std::vector<Victim>& jobs : on_node_) {
    std::sort(jobs.begin(), jobs.end(),
              [](const Victim& a, const Victim& b) { return b.rank < a.rank; });
  }
}

std::vector<JobIndex> PreemptiveStrategy::victims_on_one(const World& world, const Turn& wanting,
                                                         std::int32_t gpus) {
  std::vector<JobIndex> best;
  Turn best_rank{};
  for (std::int32_t node = 0; node < world.cluster().node_count(); ++node) {
    if (!world.cluster().is_up(node)) continue;
    std::int32_t room = world.cluster().free(node);
    std::vector<JobIndex> victims;
    Turn foremost{};
    for (const Victim& victim : on_node_[static_cast<std::size_t>(node)]) {
      if (room >= gpus || victim.rank < wanting) break;
      if (!may_preempt(world, victim.rank.job)) continue;
      victims.push_back(victim.rank.job);
      foremost = victim.rank;
      room += victim.gpus;
    }
    if (room < gpus || victims.empty()) continue;
    if (best.empty() || best_rank < foremost) {
      best = std::move(victims);
      best_rank = foremost;
    }
  }
  return best;
}

std::vector<JobIndex> PreemptiveStrategy::victims_on_many(const World& world, const Turn& wanting,
                                                          std::int32_t gpus) {
  std::vector<std::pair<Turn, std::int32_t>> nodes;  // With the foremost rank that would go.
  constexpr Turn kNobody{.major = std::numeric_limits<std::int64_t>::max()};
  for (std::int32_t node = 0; node < world.cluster().node_count(); ++node) {
    const std::vector<Victim>& jobs = on_node_[static_cast<std::size_t>(node)];
    const bool takeable = std::all_of(jobs.begin(), jobs.end(), [&](const Victim& victim) {
      return wanting < victim.rank && may_preempt(world, victim.rank.job);
    });
    if (!takeable || !world.cluster().is_up(node)) continue;
    nodes.emplace_back(jobs.empty() ? kNobody : jobs.back().rank, node);
  }
  std::sort(nodes.rbegin(), nodes.rend());
  std::set<JobIndex> victims;
  std::int32_t room = 0;
  for (const auto& [foremost, node] : nodes) {
    if (room >= gpus) break;
    room += world.cluster().size(node);
    for (const Victim& victim : on_node_[static_cast<std::size_t>(node)]) {
      victims.insert(victim.rank.job);
    }
  }
  if (room < gpus) return {};
  return {victims.begin(), victims.end()};
}

bool PreemptiveStrategy::make_room(World& world, const Turn& wanting, std::int32_t gpus) {
  const std::vector<JobIndex> victims = gpus <= world.cluster().node_size_max()
                                            ? victims_on_one(world, wanting, gpus)
                                            : victims_on_many(world, wanting, gpus);
  for (const JobIndex victim : victims) {
    world.preempt(victim);
    on_pending(world, victim);
  }
  return !victims.empty();
}

}  // namespace falaj::scheduler::simulate
