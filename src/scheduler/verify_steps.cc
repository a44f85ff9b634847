#include <algorithm>
#include <array>
#include <set>

#include "scheduler/verify_parts.h"

namespace falaj::scheduler {
namespace {

using namespace verifying;

// Replays the claims of a certificate on sets of running jobs.
class Replay {
 public:
  explicit Replay(Case& c) : c_(c), g_(ground(c)), s_(c.snapshot), d_(c.decisions) {}

  void run() {
    std::set<Index> released(d_.released.begin(), d_.released.end());
    for (Index j = 0; j < s_.jobs.size(); ++j) {
      const JobState state = s_.jobs[j].state;
      const bool kept = state == JobState::kClaimed && !released.contains(j);
      if (state == JobState::kRunning || kept) running_[j] = &s_.jobs[j].placement;
    }
    std::vector<const Reserve*> claims;
    for (const Reserve& r : d_.reserve) {
      if (r.kind == ReserveKind::kClaim) claims.push_back(&r);
    }
    const auto& steps = d_.certificate.steps;
    if (steps.size() != claims.size()) c_.fail(ViolationKind::kPotential, 0, "not a step a claim");
    std::size_t admitted = 0;
    for (std::size_t i = 0; i < std::min(steps.size(), claims.size()); ++i) {
      for (; admitted < std::min<std::size_t>(steps[i].admitted, d_.admit.size()); ++admitted) {
        running_[d_.admit[admitted].job] = &d_.admit[admitted].placement;
      }
      step(steps[i], *claims[i]);
    }
  }

 private:
  // Per height, who is entitled there; at kMaxDepth, who runs.
  using Marks = std::array<std::set<Index>, kMaxDepth + 1>;

  Marks marks() const {
    Marks marks;
    std::map<Index, bool> below;
    for (const Index j : g_.ranked) {
      if (running_.contains(j)) marks[kMaxDepth].insert(j), below[j] = false;
    }
    auto left = g_.entitled;
    for (std::uint32_t height = 0; height < kMaxDepth; ++height) {
      std::map<Index, bool> next = below;
      for (const bool first : {true, false}) {
        for (const Index j : g_.ranked) {
          const Index q = running_.contains(j) ? above(s_.jobs[j].queue, height) : kAbsent;
          if (q == kAbsent || below[j] != first) continue;
          const auto sums = core(c_, j, running_.at(j));
          bool fits = true;
          for (std::size_t f = 0; f < g_.flavors; ++f) {
            const bool counts = sums[f] > 0 && g_.counted[c_.root(q) * g_.flavors + f] != 0;
            fits = fits && (!counts || sums[f] <= left[q * g_.flavors + f]);
          }
          for (std::size_t f = 0; fits && f < g_.flavors; ++f) left[q * g_.flavors + f] -= sums[f];
          if (fits) marks[height].insert(j);
          next[j] = fits;
        }
      }
      below = next;
    }
    return marks;
  }

  // The queue of this height on the way up, if there is one.
  Index above(Index q, std::uint32_t height) const {
    while (q != kAbsent && g_.height[q] != height) q = s_.queues[q].parent;
    return q;
  }

  void step(const Step& step, const Reserve& claim) {
    if (step.job != claim.job)
      c_.fail(ViolationKind::kPotential, step.job, "claims of another job");
    const Marks before = marks();
    running_[claim.job] = &claim.placement;
    const Marks with = marks();
    for (const Preempt& v : d_.preempt) {
      if (v.for_job != claim.job) continue;
      if (!right(claim, v, before, with))
        c_.fail(ViolationKind::kPreempt, v.job, "without a right");
    }
    for (const Preempt& v : d_.preempt) {
      if (v.for_job == claim.job) running_.erase(v.job);
    }
    const Marks after = marks();
    for (std::uint8_t level = 0; level <= kMaxDepth; ++level) {
      for (const Index j : g_.ranked) {
        if (before[level].contains(j) == after[level].contains(j)) continue;
        if (level != step.level || j != step.deciding) {
          c_.fail(ViolationKind::kPotential, step.job, "the sets differ elsewhere");
        }
        if (!after[level].contains(j)) {
          c_.fail(ViolationKind::kPotential, step.job, "the set is not better than before");
        }
        return;
      }
    }
    c_.fail(ViolationKind::kPotential, step.job, "nothing changes");
  }

  bool right(const Reserve& claim, const Preempt& v, const Marks& before, const Marks& with) const {
    const Job& job = s_.jobs[claim.job];
    const Job& victim = s_.jobs[v.job];
    const Duration own = s_.queues[victim.queue].min_run;
    if (victim.started + (own.nanos > 0 ? own : c_.policy.preemption.min_run) > c_.now)
      return false;
    const auto reaches = [&](Scope scope) {
      if (scope == Scope::kCohort) return c_.root(job.queue) == c_.root(victim.queue);
      return scope == Scope::kCluster || (scope == Scope::kQueue && job.queue == victim.queue);
    };
    const bool same = job.queue == victim.queue;
    const WithinQueue within = s_.queues[job.queue].within;
    if (v.cause == PreemptCause::kPriority) {
      const bool allowed =
          same ? within != WithinQueue::kNever : reaches(c_.policy.preemption.priority);
      return allowed && victim.priority < job.priority;
    }
    if (v.cause == PreemptCause::kOrder) {
      const bool allowed =
          (same && within == WithinQueue::kLaterInOrder) || reaches(c_.policy.preemption.order);
      const bool far = g_.urgent[claim.job] != g_.urgent[v.job] ||
                       g_.scores[v.job] - g_.scores[claim.job] >= c_.policy.preemption.margin;
      return allowed && far && job.priority == victim.priority && g_.better(s_, claim.job, v.job);
    }
    const Reclaim how = s_.queues[job.queue].reclaim;
    if (how == Reclaim::kNever || same) return false;
    if (how == Reclaim::kLowerPriority && victim.priority >= job.priority) return false;
    std::vector<Index> up, down;
    for (Index q = job.queue; q != kAbsent; q = s_.queues[q].parent) up.push_back(q);
    for (Index q = victim.queue; q != kAbsent; q = s_.queues[q].parent) down.push_back(q);
    if (up.back() != down.back()) return false;
    while (!up.empty() && !down.empty() && up.back() == down.back()) up.pop_back(), down.pop_back();
    if (up.empty() || down.empty()) return false;
    return with[g_.height[up.back()]].contains(claim.job) &&
           !before[g_.height[down.back()]].contains(v.job);
  }

  Case& c_;
  const Ground g_;
  const Snapshot& s_;
  const Decisions& d_;
  Holding running_;
};

}  // namespace

std::vector<Violation> verify_steps(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                                    const Decisions& decisions) {
  Case c{snapshot, policy, now, decisions, {}};
  const auto claims = std::count_if(decisions.reserve.begin(), decisions.reserve.end(),
                                    [](const Reserve& r) { return r.kind == ReserveKind::kClaim; });
  if (claims == 0 && decisions.certificate.steps.empty() && decisions.preempt.empty()) return {};
  Replay(c).run();
  return c.found;
}

}  // namespace falaj::scheduler
