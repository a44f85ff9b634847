#include "scheduler/board.h"

#include <algorithm>

namespace falaj::scheduler {
namespace {

bool tagged(const Shape& shape) { return (shape.tags | shape.avoids) != 0; }

constexpr std::size_t kNowhere = ~std::size_t{0};

std::size_t place_in(const Board::Promise& promise, Index node) {
  const auto it = std::lower_bound(promise.nodes.begin(), promise.nodes.end(), node);
  if (it == promise.nodes.end() || *it != node) return kNowhere;
  return static_cast<std::size_t>(it - promise.nodes.begin());
}

}  // namespace

Board::Board(const Snapshot& snapshot, const Policy& policy, Timestamp now)
    : snapshot_(snapshot),
      policy_(policy),
      now_(now),
      tree_(snapshot),
      use_now_(tree_),
      use_later_(tree_),
      standing_(snapshot, tree_, entitlements(snapshot, tree_, policy.preemption.entitlement)),
      allowances_(snapshot, now),
      later_(snapshot),
      both_(snapshot),
      array_running_(snapshot.arrays.size(), 0),
      promised_(snapshot.nodes.size(), 0) {
  now_states_ = both_.states();
  const bool tags = std::any_of(snapshot.shapes.begin(), snapshot.shapes.end(),
                                [](const Shape& shape) { return tagged(shape); });
  if (tags) residents_.resize(snapshot.nodes.size());
  for (Index i = 0; i < snapshot.jobs.size(); ++i) {
    const Job& job = snapshot.jobs[i];
    if (job.state == JobState::kRunning) apply(i, job.placement, Moment::kBoth, 1);
    if (job.state == JobState::kStopping) apply(i, job.placement, Moment::kNow, 1);
    const bool counts = job.state == JobState::kRunning || job.state == JobState::kStopping;
    if (counts && job.array != kAbsent) ++array_running_[job.array];
  }
}

Timestamp Board::end_of(Index job) const { return now_ + upper_run(snapshot_.jobs[job], policy_); }

void Board::start(Index job, const Placement& placement) {
  apply(job, placement, Moment::kBoth, 1);
  if (snapshot_.jobs[job].array != kAbsent) ++array_running_[snapshot_.jobs[job].array];
}

void Board::claim(Index job, const Placement& placement) {
  apply(job, placement, Moment::kLater, 1);
  if (snapshot_.jobs[job].array != kAbsent) ++array_running_[snapshot_.jobs[job].array];
}

void Board::unclaim(Index job, const Placement& placement) {
  apply(job, placement, Moment::kLater, -1);
  if (snapshot_.jobs[job].array != kAbsent) --array_running_[snapshot_.jobs[job].array];
}

void Board::start_claimed(Index job) { apply(job, snapshot_.jobs[job].placement, Moment::kNow, 1); }

void Board::evict(Index job) { apply(job, snapshot_.jobs[job].placement, Moment::kLater, -1); }
void Board::unevict(Index job) { apply(job, snapshot_.jobs[job].placement, Moment::kLater, 1); }

void Board::apply(Index job, const Placement& placement, Moment moment, std::int64_t sign) {
  account(job, placement, moment, sign);
  std::size_t at = 0;
  for (std::size_t g = 0; g < placement.counts.size(); ++g) {
    for (std::uint32_t i = 0; i < placement.counts[g]; ++i) {
      apply_pod(job, g, placement.pods[at++], moment, sign);
    }
  }
}

void Board::account(Index job, const Placement& placement, Moment moment, std::int64_t sign) {
  const Job& j = snapshot_.jobs[job];
  const Shape& shape = snapshot_.shapes[j.shape];
  const Amounts amounts = placed_amounts(snapshot_, shape, placement);
  if (moment != Moment::kLater) use_now_.add(j.queue, amounts, sign);
  if (moment == Moment::kNow) return;
  use_later_.add(j.queue, amounts, sign);
  if (sign > 0) {
    standing_.add(job, placed_core(snapshot_, shape, placement));
  } else {
    standing_.remove(job);
  }
  if (allowances_.any()) {
    allowances_.commit(j.queue, placed_rates(snapshot_, shape, placement), upper_run(j, policy_),
                       sign);
  }
}

void Board::apply_pod(Index job, std::size_t g, const PodPlacement& pod, Moment moment,
                      std::int64_t sign) {
  const TaskGroup& group = snapshot_.shapes[snapshot_.jobs[job].shape].groups[g];
  const NodeClass& c = snapshot_.classes[snapshot_.nodes[pod.node].node_class];
  const auto change = [&](NodeState& state) {
    sign > 0 ? take(state, c, group, pod) : give(state, c, group, pod);
  };
  note_tags(job, pod.node, moment, sign);
  if (moment != Moment::kLater) change(now_states_[pod.node]);
  if (moment != Moment::kNow) {
    NodeState state = later_.at(pod.node);
    change(state);
    later_.set(pod.node, state);
  }
  if (promised_[pod.node] != 0 && moment != Moment::kNow) {
    for (Promise& promise : promises_) {
      if (end_of(job) <= promise.from) continue;
      if (const std::size_t i = place_in(promise, pod.node); i != kNowhere) change(promise.then[i]);
    }
  }
  refresh(pod.node);
}

void Board::refresh(Index node) {
  const NodeState state = both_of(now_states_[node], later_.at(node));
  both_.set(node, state);
  if (promised_[node] == 0) return;
  for (Promise& promise : promises_) {
    const std::size_t i = place_in(promise, node);
    if (i != kNowhere) promise.narrowed[i] = both_of(state, promise.then[i]);
  }
}

void Board::note_tags(Index job, Index node, Moment moment, std::int64_t sign) {
  if (residents_.empty() || !tagged(snapshot_.shapes[snapshot_.jobs[job].shape])) return;
  auto& list = residents_[node];
  auto it = std::find_if(list.begin(), list.end(), [&](const Resident& r) { return r.job == job; });
  if (it == list.end()) it = list.insert(list.end(), Resident{job, 0, 0});
  if (moment != Moment::kLater) it->now += static_cast<std::int32_t>(sign);
  if (moment != Moment::kNow) it->later += static_cast<std::int32_t>(sign);
  retag(node);
}

void Board::retag(Index node) {
  NodeState& now = now_states_[node];
  NodeState later = later_.at(node);
  now.tags = now.avoids = later.tags = later.avoids = 0;
  for (const Resident& r : residents_[node]) {
    const Shape& shape = snapshot_.shapes[snapshot_.jobs[r.job].shape];
    if (r.now > 0) now.tags |= shape.tags, now.avoids |= shape.avoids;
    if (r.later > 0) later.tags |= shape.tags, later.avoids |= shape.avoids;
  }
  now.company = now.tags;
  later.company = later.tags;
  later_.set(node, later);
}

void Board::add_pod(Index job, std::size_t group, const PodPlacement& pod) {
  const Job& j = snapshot_.jobs[job];
  const Shape& shape = snapshot_.shapes[j.shape];
  const Placement one = single(shape, group, pod);
  const Amounts amounts = placed_amounts(snapshot_, shape, one);
  use_now_.add(j.queue, amounts);
  use_later_.add(j.queue, amounts);
  allowances_.commit(j.queue, placed_rates(snapshot_, shape, one), upper_run(j, policy_));
  apply_pod(job, group, pod, Moment::kBoth, 1);
}

void Board::drop_pod(Index job, std::size_t group, const PodPlacement& pod, std::int64_t sign) {
  const Job& j = snapshot_.jobs[job];
  const Shape& shape = snapshot_.shapes[j.shape];
  const Placement one = single(shape, group, pod);
  use_later_.add(j.queue, placed_amounts(snapshot_, shape, one), -sign);
  allowances_.commit(j.queue, placed_rates(snapshot_, shape, one), upper_run(j, policy_), -sign,
                     Allowances::Rounding::kDown);
  apply_pod(job, group, pod, Moment::kLater, -sign);
}

bool Board::is_free(Index job, const Placement& placement, const std::vector<NodeState>& states,
                    const Narrow& narrow) const {
  const Shape& shape = snapshot_.shapes[snapshot_.jobs[job].shape];
  const auto state = [&](Index node) -> const NodeState& {
    const NodeState* narrower = narrow ? narrow(node, states[node]) : nullptr;
    return narrower != nullptr ? *narrower : states[node];
  };
  std::vector<std::pair<Index, NodeState>> seen;
  std::size_t at = 0;
  for (std::size_t g = 0; g < placement.counts.size(); ++g) {
    for (std::uint32_t i = 0; i < placement.counts[g]; ++i) {
      const PodPlacement& pod = placement.pods[at++];
      auto it = std::find_if(seen.begin(), seen.end(),
                             [&](const auto& entry) { return entry.first == pod.node; });
      if (it == seen.end()) it = seen.insert(seen.end(), {pod.node, state(pod.node)});
      const NodeClass& c = snapshot_.classes[snapshot_.nodes[pod.node].node_class];
      if (!bears(it->second, shape)) return false;
      if (!fits_at(it->second, c, shape.groups[g], pod)) return false;
      take(it->second, c, shape.groups[g], pod);
    }
  }
  return true;
}

bool Board::free_now(Index job, const Placement& placement) const {
  return is_free(job, placement, now_states_, {});
}

bool Board::free_later(Index job, const Placement& placement, const Narrow& narrow) const {
  return is_free(job, placement, later_.states(), narrow);
}

void Board::promise(Promise promise) {
  promise.narrowed.clear();
  for (std::size_t i = 0; i < promise.nodes.size(); ++i) {
    promise.narrowed.push_back(both_of(both_.at(promise.nodes[i]), promise.then[i]));
    promised_[promise.nodes[i]] = 1;
  }
  promises_.push_back(std::move(promise));
}

Narrow Board::narrow(Timestamp end) const {
  const bool delays = std::any_of(promises_.begin(), promises_.end(),
                                  [&](const Promise& promise) { return promise.from < end; });
  if (!delays) return {};
  // Of several promises on one node the narrowest in every respect would be needed; a node that is
  // promised twice is left alone instead.
  return [this, end](Index node, const NodeState&) -> const NodeState* {
    static const NodeState kNothing = [] {
      NodeState nothing;
      nothing.cpu = nothing.memory = nothing.watts = -1;
      return nothing;
    }();
    if (promised_[node] == 0) return nullptr;
    const NodeState* found = nullptr;
    for (const Promise& promise : promises_) {
      if (promise.from >= end) continue;
      const std::size_t i = place_in(promise, node);
      if (i == kNowhere) continue;
      if (found != nullptr) return &kNothing;
      found = &promise.narrowed[i];
    }
    return found;
  };
}

}  // namespace falaj::scheduler
