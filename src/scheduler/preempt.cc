#include "scheduler/preempt.h"

#include <algorithm>

namespace falaj::scheduler {
namespace {

constexpr std::size_t kAllPods = ~std::size_t{0};

// A whole job, or one pod beyond an elastic job's minimum.
struct Candidate {
  Index job = 0;
  std::size_t pod = kAllPods;
  std::size_t group = 0;
  PreemptCause cause = PreemptCause::kOrder;
  std::int64_t lost = 0;
};

// The children of the lowest common queue on both ways up; kAbsent if the trees differ or one queue
// stands above the other.
struct Fork {
  Index mine = kAbsent;
  Index theirs = kAbsent;
};

Fork fork_of(const QuotaTree& tree, Index mine, Index theirs) {
  std::vector<Index> up;
  for (Index q = mine; q != kAbsent; q = tree.parent(q)) up.push_back(q);
  Index below = kAbsent;
  for (Index q = theirs; q != kAbsent; below = q, q = tree.parent(q)) {
    const auto it = std::find(up.begin(), up.end(), q);
    if (it == up.end()) continue;
    if (it == up.begin() || below == kAbsent) return {};
    return {*(it - 1), below};
  }
  return {};
}

bool in_scope(const Cycle& cycle, Scope scope, Index a, Index b) {
  switch (scope) {
    case Scope::kNever:
      return false;
    case Scope::kQueue:
      return a == b;
    case Scope::kCohort:
      return cycle.board.tree().root(a) == cycle.board.tree().root(b);
    case Scope::kCluster:
      return true;
  }
  return false;
}

bool may_by_priority(const Cycle& cycle, const Job& job, const Job& victim) {
  if (victim.priority >= job.priority) return false;
  if (job.queue == victim.queue) {
    return cycle.snapshot.queues[job.queue].within != WithinQueue::kNever;
  }
  return in_scope(cycle, cycle.policy.preemption.priority, job.queue, victim.queue);
}

// In a queue that says so, who came later gives way among its priority. No margin is needed: who
// came first never changes, and may_claim() still asks that the order agrees.
bool came_later(const Cycle& cycle, const Job& job, const Job& victim) {
  if (job.queue != victim.queue || job.priority != victim.priority) return false;
  if (cycle.snapshot.queues[job.queue].within != WithinQueue::kSubmittedLater) return false;
  return job.submitted != victim.submitted ? job.submitted < victim.submitted : job.id < victim.id;
}

bool may_by_order(const Cycle& cycle, Index j, Index v) {
  const Job& job = cycle.snapshot.jobs[j];
  const Job& victim = cycle.snapshot.jobs[v];
  if (came_later(cycle, job, victim)) return true;
  const Rank& mine = cycle.ranks[j];
  const Rank& theirs = cycle.ranks[v];
  if (victim.priority != job.priority || !mine.before(theirs)) return false;
  if (mine.urgent == theirs.urgent && theirs.score - mine.score < cycle.policy.preemption.margin) {
    return false;
  }
  return in_scope(cycle, cycle.policy.preemption.order, job.queue, victim.queue);
}

// Whether the job's queue lets it push out that one of another queue, by whatever right.
bool may_reach(const Cycle& cycle, const Job& job, const Job& victim) {
  if (job.queue == victim.queue) return true;
  const Reclaim reclaim = cycle.snapshot.queues[job.queue].reclaim;
  return reclaim == Reclaim::kAny ||
         (reclaim == Reclaim::kLowerPriority && victim.priority < job.priority);
}

// One attempt to find victims for one job and one choice of GPU models.
class Attempt {
 public:
  Attempt(Cycle& cycle, Index job, std::uint32_t choice)
      : cycle_(cycle),
        job_(job),
        gang_(cycle.gang(job, choice)),
        request_(core_request(cycle.shape(job), choice)),
        before_(cycle.marks()),
        theirs_(cycle.snapshot.jobs.size(), 0) {
    for (std::size_t i = 0; i < before_.jobs.size(); ++i) {
      theirs_[before_.jobs[i]] = before_.heights[i];
    }
  }

  bool run() {
    collect();
    if (!free_quota()) return undo();
    if (!free_place()) return undo();
    prune();
    if (!may_claim()) return undo();
    commit();
    return true;
  }

 private:
  const Job& job() const { return cycle_.snapshot.jobs[job_]; }

  void collect();
  void collect_extras(Index victim);
  std::optional<PreemptCause> cause_over(Index victim);
  bool relieves(const Candidate& candidate, const Shortage& shortage) const;
  void evict(std::size_t candidate);
  void unevict(std::size_t candidate);
  bool free_quota();
  bool free_place();
  // Copies of nodes from which candidates have been taken off.
  struct Ladder {
    std::vector<Index> slot;
    std::vector<NodeState> states;
  };
  Index climb(std::size_t candidate, std::size_t group, Ladder& ladder) const;
  bool touches(const Candidate& candidate, Index node) const;
  bool one_node();
  bool prefix();
  void prune();
  bool may_claim();
  void commit();
  bool undo();
  void say_resized(const Candidate& candidate);

  Cycle& cycle_;
  Index job_;
  Gang gang_;
  Amounts request_;
  const Marks& before_;  // Cycle remembers them; nobody asks for others while this runs.
  std::optional<std::uint8_t> mine_;   // Heights at which the job would be entitled, once asked.
  std::vector<std::uint8_t> theirs_;   // Heights at which each running job is.
  std::vector<Candidate> candidates_;  // Cheapest first.
  std::vector<std::uint8_t> taken_;
  Placement place_;
  Comparison comparison_;
};

// Pods beyond the minimum: the last ones of each group. Not of a job that was resized already.
void Attempt::collect_extras(Index v) {
  const Shape& shape = cycle_.shape(v);
  const Placement& placement = cycle_.snapshot.jobs[v].placement;
  if (cycle_.resized[v] != kAbsent) return;
  std::size_t at = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    for (std::uint32_t i = 0; i < placement.counts[g]; ++i, ++at) {
      if (i < shape.groups[g].min) continue;
      candidates_.push_back({v, at, g, PreemptCause::kOrder, 0});
    }
  }
}

void Attempt::collect() {
  const std::uint64_t needed = cycle_.needed | cycle_.shape(job_).needs;
  const Costs& costs = cycle_.costs();
  for (const Index v : costs.elastic) {
    const bool keeps = cycle_.leaving[v] != 0 || (cycle_.shape(v).tags & needed) != 0;
    if (!keeps && !cause_over(v)) collect_extras(v);
  }
  for (const Index v : costs.order) {
    if (cycle_.leaving[v] != 0 || cycle_.resized[v] != kAbsent) continue;
    if ((cycle_.shape(v).tags & needed) != 0) continue;
    if (const auto cause = cause_over(v)) {
      candidates_.push_back({v, kAllPods, 0, *cause, lost_work(cycle_, v)});
    }
  }
  taken_.assign(candidates_.size(), 0);
}

// By what right the job may push out `v`; nullopt: by none.
std::optional<PreemptCause> Attempt::cause_over(Index v) {
  const Job& victim = cycle_.snapshot.jobs[v];
  if (!has_run_enough(cycle_, victim) || !may_reach(cycle_, job(), victim)) return std::nullopt;
  if (may_by_priority(cycle_, job(), victim)) return PreemptCause::kPriority;
  if (may_by_order(cycle_, job_, v)) return PreemptCause::kOrder;
  if (job().queue == victim.queue) return std::nullopt;
  const QuotaTree& tree = cycle_.board.tree();
  const Fork fork = fork_of(tree, job().queue, victim.queue);
  if (fork.mine == kAbsent) return std::nullopt;
  if ((theirs_[v] >> tree.height(fork.theirs) & 1U) != 0) return std::nullopt;
  if (!mine_) {
    mine_ = cycle_.board.standing().marks_with(cycle_.ranked, job_, request_).of(job_);
  }
  const bool entitled = (*mine_ >> tree.height(fork.mine) & 1U) != 0;
  return entitled ? std::optional(PreemptCause::kReclaim) : std::nullopt;
}

void Attempt::evict(std::size_t i) {
  const Candidate& c = candidates_[i];
  taken_[i] = 1;
  if (c.pod == kAllPods) {
    cycle_.board.evict(c.job);
  } else {
    cycle_.board.drop_pod(c.job, c.group, cycle_.snapshot.jobs[c.job].placement.pods[c.pod]);
  }
}

void Attempt::unevict(std::size_t i) {
  const Candidate& c = candidates_[i];
  taken_[i] = 0;
  if (c.pod == kAllPods) {
    cycle_.board.unevict(c.job);
  } else {
    cycle_.board.drop_pod(c.job, c.group, cycle_.snapshot.jobs[c.job].placement.pods[c.pod], -1);
  }
}

// Whether its end may help: it is somewhere below the queue that lacks, and uses what is lacking.
bool Attempt::relieves(const Candidate& c, const Shortage& shortage) const {
  Index q = cycle_.snapshot.jobs[c.job].queue;
  while (q != kAbsent && q != shortage.queue) q = cycle_.board.tree().parent(q);
  if (q == kAbsent) return false;
  return placed_amounts(cycle_.snapshot, cycle_.shape(c.job),
                        cycle_.snapshot.jobs[c.job].placement)[shortage.flavor] > 0;
}

bool Attempt::free_quota() {
  Shortage shortage = cycle_.board.use_later().shortage(job().queue, request_);
  for (std::size_t i = 0; i < candidates_.size() && shortage.queue != kAbsent; ++i) {
    if (!relieves(candidates_[i], shortage)) continue;
    evict(i);
    const Shortage next = cycle_.board.use_later().shortage(job().queue, request_);
    const bool helps = next.queue != shortage.queue || next.flavor != shortage.flavor ||
                       next.missing < shortage.missing;
    if (helps) {
      shortage = next;
    } else {
      unevict(i);
    }
  }
  return shortage.queue == kAbsent;
}

bool Attempt::free_place() {
  const Narrow narrow = cycle_.board.narrow(gang_.end);
  Placed placed = cycle_.placer.place(cycle_.board.later(), gang_, narrow);
  if (placed.placement) {
    place_ = std::move(*placed.placement);
    return true;
  }
  std::uint64_t pods = 0;
  for (const std::uint32_t count : gang_.counts) pods += count;
  return pods == 1 ? one_node() : prefix();
}

// Gives back, in the copies of `ladder`, what candidate `i` holds; the first of its nodes on which
// the pod then fits, or kAbsent.
Index Attempt::climb(std::size_t i, std::size_t g, Ladder& ladder) const {
  const Candidate& c = candidates_[i];
  const Shape& shape = cycle_.shape(c.job);
  const Placement& placement = cycle_.snapshot.jobs[c.job].placement;
  Index found = kAbsent;
  std::size_t at = 0;
  for (std::size_t vg = 0; vg < shape.groups.size(); ++vg) {
    for (std::uint32_t k = 0; k < placement.counts[vg]; ++k, ++at) {
      if (c.pod != kAllPods && c.pod != at) continue;
      const PodPlacement& pod = placement.pods[at];
      const Node& node = cycle_.snapshot.nodes[pod.node];
      if (!gang_.rules->allows(gang_.choice, g, gang_.counts.size(), node.node_class,
                               cycle_.snapshot.classes.size()) ||
          (gang_.rules->zones >> node.zone & 1U) == 0 || !open_until(node, gang_.gone)) {
        continue;
      }
      if (ladder.slot[pod.node] == kAbsent) {
        ladder.slot[pod.node] = static_cast<Index>(ladder.states.size());
        ladder.states.push_back(cycle_.board.later().at(pod.node));
      }
      NodeState& state = ladder.states[ladder.slot[pod.node]];
      const NodeClass& kind = cycle_.snapshot.classes[node.node_class];
      give(state, kind, shape.groups[vg], pod);
      if (found == kAbsent && fit(state, kind, gang_.shape->groups[g])) found = pod.node;
    }
  }
  return found;
}

// One pod: candidates are let go cheapest first, each on its own nodes; the first node on which the
// pod fits is the one whose costliest victim is the cheapest.
bool Attempt::one_node() {
  const auto g = static_cast<std::size_t>(std::find(gang_.counts.begin(), gang_.counts.end(), 1U) -
                                          gang_.counts.begin());
  Ladder ladder;
  ladder.slot.assign(cycle_.snapshot.nodes.size(), kAbsent);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (taken_[i] != 0) continue;
    const Index node = climb(i, g, ladder);
    if (node == kAbsent) continue;
    for (std::size_t k = 0; k <= i; ++k) {
      if (taken_[k] == 0 && touches(candidates_[k], node)) evict(k);
    }
    Placed placed =
        cycle_.placer.place(cycle_.board.later(), gang_, cycle_.board.narrow(gang_.end));
    if (!placed.placement) return false;
    place_ = std::move(*placed.placement);
    return true;
  }
  return false;
}

bool Attempt::touches(const Candidate& c, Index node) const {
  const auto& pods = cycle_.snapshot.jobs[c.job].placement.pods;
  if (c.pod != kAllPods) return pods[c.pod].node == node;
  return std::any_of(pods.begin(), pods.end(),
                     [&](const PodPlacement& pod) { return pod.node == node; });
}

// A gang: the shortest run of candidates, cheapest first, that makes room; prune() then lets go of
// those whose place is not needed.
bool Attempt::prefix() {
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (taken_[i] == 0) mine.push_back(i);
  }
  const Narrow narrow = cycle_.board.narrow(gang_.end);
  std::size_t done = 0;  // How many of `mine` are evicted.
  const auto move_to = [&](std::size_t target) {
    for (; done < target; ++done) evict(mine[done]);
    while (done > target) unevict(mine[--done]);
  };
  // Twice as many each time, then the least of them that is enough.
  const std::size_t most = std::min<std::size_t>(mine.size(), 4 * cycle_.budget.max_preemptions);
  std::size_t low = 0;
  std::size_t high = 1;
  Placed best;
  for (;; low = high, high = std::min(2 * high, most)) {
    move_to(std::min(high, most));
    best = cycle_.placer.place(cycle_.board.later(), gang_, narrow);
    if (best.placement) break;
    if (high >= most) return false;
  }
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    move_to(middle);
    Placed placed = cycle_.placer.place(cycle_.board.later(), gang_, narrow);
    if (placed.placement) {
      best = std::move(placed);
      high = middle;
    } else {
      low = middle;
    }
  }
  move_to(high);
  place_ = std::move(*best.placement);
  return true;
}

// Lets go of every victim, costliest first, without whom the place and the quota still suffice.
void Attempt::prune() {
  const Narrow narrow = cycle_.board.narrow(gang_.end);
  for (std::size_t i = candidates_.size(); i-- > 0;) {
    if (taken_[i] == 0) continue;
    unevict(i);
    const bool needed = cycle_.board.use_later().shortage(job().queue, request_).queue != kAbsent ||
                        !cycle_.board.free_later(job_, place_, narrow);
    if (needed) evict(i);
  }
}

bool Attempt::may_claim() {
  std::uint32_t whole = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (taken_[i] != 0 && candidates_[i].pod == kAllPods) ++whole;
  }
  if (cycle_.victims + whole > cycle_.budget.max_preemptions) return false;
  const Reason against = money_or_quota(cycle_, job_, place_, cycle_.board.use_later());
  if (against.code != ReasonCode::kNone) return false;
  cycle_.board.claim(job_, place_);
  comparison_ = compare(before_, cycle_.board.standing().marks(cycle_.ranked), cycle_.ranked);
  if (comparison_.better) return true;
  cycle_.board.unclaim(job_, place_);
  return false;
}

void Attempt::say_resized(const Candidate& c) {
  if (cycle_.resized[c.job] == kAbsent) {
    cycle_.resized[c.job] = static_cast<Index>(cycle_.out.resize.size());
    cycle_.out.resize.push_back({c.job, job_, cycle_.snapshot.jobs[c.job].placement});
  }
  Placement& placement = cycle_.out.resize[cycle_.resized[c.job]].placement;
  --placement.counts[c.group];
  placement.pods[c.pod].node = kAbsent;  // Taken out below, when all are known.
}

void Attempt::commit() {
  Step step;
  step.job = job_;
  step.admitted = static_cast<std::uint32_t>(cycle_.out.admit.size());
  step.level = comparison_.level;
  step.deciding = comparison_.job;
  const std::size_t resized = cycle_.out.resize.size();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (taken_[i] == 0) continue;
    const Candidate& c = candidates_[i];
    if (c.pod != kAllPods) {
      say_resized(c);
      continue;
    }
    cycle_.leaving[c.job] = 1;
    ++cycle_.victims;
    cycle_.out.preempt.push_back(
        {c.job, job_, c.cause, cycle_.now + cycle_.policy.preemption.grace, c.lost});
  }
  for (std::size_t i = resized; i < cycle_.out.resize.size(); ++i) {
    std::erase_if(cycle_.out.resize[i].placement.pods,
                  [](const PodPlacement& pod) { return pod.node == kAbsent; });
  }
  cycle_.out.reserve.push_back(
      {job_, ReserveKind::kClaim, cycle_.now + cycle_.policy.preemption.grace, place_});
  cycle_.out.certificate.steps.push_back(step);
  cycle_.needed |= cycle_.shape(job_).needs;
}

bool Attempt::undo() {
  for (std::size_t i = candidates_.size(); i-- > 0;) {
    if (taken_[i] != 0) unevict(i);
  }
  return false;
}

}  // namespace

bool has_run_enough(const Cycle& cycle, const Job& victim) {
  const Duration own = cycle.snapshot.queues[victim.queue].min_run;
  const Duration least = own.nanos > 0 ? own : cycle.policy.preemption.min_run;
  return victim.started + least <= cycle.now;
}

std::int64_t lost_work(const Cycle& cycle, Index victim) {
  const Job& job = cycle.snapshot.jobs[victim];
  const Timestamp since = std::max(job.checkpoint, job.started);
  // Nobody said when it started: nothing is known to be lost.
  const std::int64_t idle =
      since == Timestamp::min() ? 0 : std::max<std::int64_t>(0, (cycle.now - since).nanos);
  const std::int64_t seconds = (idle + job.restart_cost.nanos) / 1'000'000'000;
  return scaled(seconds, cycle.sizes[job.shape], 1000);
}

bool preempt_for(Cycle& cycle, Index job) {
  for (std::uint32_t choice = 0; choice < cycle.rule(job).choices; ++choice) {
    if (Attempt(cycle, job, choice).run()) return true;
  }
  return false;
}

}  // namespace falaj::scheduler
