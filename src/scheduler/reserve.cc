#include "scheduler/reserve.h"

#include <algorithm>

namespace falaj::scheduler {
namespace {

// A running job's place comes free at `at`.
struct Release {
  Timestamp at;
  Index job;
};

std::vector<Release> releases(const Cycle& cycle) {
  std::vector<Release> list;
  for (Index i = 0; i < cycle.snapshot.jobs.size(); ++i) {
    const bool runs = cycle.snapshot.jobs[i].state == JobState::kRunning;
    if (runs && cycle.leaving[i] == 0) list.push_back({cycle.board.end_of(i), i});
  }
  for (const Admit& admit : cycle.out.admit) {
    list.push_back({cycle.board.end_of(admit.job), admit.job});
  }
  std::sort(list.begin(), list.end(), [](const Release& a, const Release& b) {
    return a.at != b.at ? a.at < b.at : a.job < b.job;
  });
  return list;
}

// The fleet as it will be after the first `done` releases, moved back and forth.
class Future {
 public:
  explicit Future(Cycle& cycle) : cycle_(cycle), site_(cycle.board.later()) {
    list_ = releases(cycle);
    admitted_.assign(cycle.snapshot.jobs.size(), kAbsent);
    for (std::size_t i = 0; i < cycle.out.admit.size(); ++i) {
      admitted_[cycle.out.admit[i].job] = static_cast<Index>(i);
    }
    for (const Board::Promise& promise : cycle.board.promises()) {
      change(promise.job, promise.placement, take);
    }
  }

  std::size_t size() const { return list_.size(); }
  Timestamp time(std::size_t done) const { return done == 0 ? cycle_.now : list_[done - 1].at; }
  const Site& site() const { return site_; }

  void move_to(std::size_t done) {
    for (; done_ < done; ++done_) change(list_[done_].job, place_of(list_[done_].job), give);
    while (done_ > done) {
      --done_;
      change(list_[done_].job, place_of(list_[done_].job), take);
    }
  }

 private:
  using Change = void (*)(NodeState&, const NodeClass&, const TaskGroup&, const PodPlacement&);

  const Placement& place_of(Index job) const {
    if (admitted_[job] != kAbsent) return cycle_.out.admit[admitted_[job]].placement;
    return cycle_.placement(job);
  }

  void change(Index job, const Placement& placement, Change how) {
    const Shape& shape = cycle_.shape(job);
    std::size_t at = 0;
    for (std::size_t g = 0; g < placement.counts.size(); ++g) {
      for (std::uint32_t i = 0; i < placement.counts[g]; ++i) {
        const PodPlacement& pod = placement.pods[at++];
        NodeState state = site_.at(pod.node);
        how(state, cycle_.snapshot.classes[cycle_.snapshot.nodes[pod.node].node_class],
            shape.groups[g], pod);
        site_.set(pod.node, state);
      }
    }
  }

  Cycle& cycle_;
  Site site_;
  std::vector<Release> list_;
  std::vector<Index> admitted_;
  std::size_t done_ = 0;
};

Board::Promise make_promise(Cycle& cycle, Index job, const Future& future, Timestamp from,
                            Placement placement) {
  Board::Promise promise;
  promise.job = job;
  promise.from = from;
  for (const PodPlacement& pod : placement.pods) promise.nodes.push_back(pod.node);
  std::sort(promise.nodes.begin(), promise.nodes.end());
  promise.nodes.erase(std::unique(promise.nodes.begin(), promise.nodes.end()), promise.nodes.end());
  for (const Index node : promise.nodes) promise.then.push_back(future.site().at(node));
  std::size_t at = 0;
  for (std::size_t g = 0; g < placement.counts.size(); ++g) {
    for (std::uint32_t i = 0; i < placement.counts[g]; ++i) {
      const PodPlacement& pod = placement.pods[at++];
      const auto it = std::lower_bound(promise.nodes.begin(), promise.nodes.end(), pod.node);
      take(promise.then[static_cast<std::size_t>(it - promise.nodes.begin())],
           cycle.snapshot.classes[cycle.snapshot.nodes[pod.node].node_class],
           cycle.shape(job).groups[g], pod);
    }
  }
  promise.placement = std::move(placement);
  return promise;
}

}  // namespace

std::optional<Board::Promise> earliest_start(Cycle& cycle, Index job) {
  Future future(cycle);
  Gang gang = cycle.gang(job, 0);
  std::optional<Board::Promise> best;
  for (gang.choice = 0; gang.choice < cycle.rule(job).choices; ++gang.choice) {
    std::size_t low = 0;
    std::size_t high = future.size();
    future.move_to(high);
    Placed found = cycle.placer.place(future.site(), gang);
    if (!found.placement) continue;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      future.move_to(middle);
      Placed placed = cycle.placer.place(future.site(), gang);
      if (placed.placement) {
        found = std::move(placed);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (best && best->from <= future.time(high)) continue;
    future.move_to(high);
    best = make_promise(cycle, job, future, future.time(high), std::move(*found.placement));
  }
  return best;
}

bool promise_to(Cycle& cycle, Index job) {
  auto promise = earliest_start(cycle, job);
  if (!promise) return false;
  cycle.out.reserve.push_back({job, ReserveKind::kForecast, promise->from, promise->placement});
  cycle.board.promise(std::move(*promise));
  return true;
}

}  // namespace falaj::scheduler
