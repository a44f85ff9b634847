#include "scheduler/decide.h"

#include <algorithm>
#include <unordered_map>

#include "scheduler/cycle.h"
#include "scheduler/elastic.h"
#include "scheduler/encode.h"
#include "scheduler/explain.h"
#include "scheduler/forecast.h"
#include "scheduler/preempt.h"
#include "scheduler/reserve.h"

namespace falaj::scheduler {
namespace {

// Whether the place that is kept for a claim may still be used by it.
bool claim_holds(Cycle& cycle, Index i) {
  const Job& job = cycle.snapshot.jobs[i];
  const Shape& shape = cycle.shape(i);
  const Timestamp end = gone_by(job, cycle.policy, cycle.now);
  std::size_t at = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    for (std::uint32_t k = 0; k < job.placement.counts[g]; ++k) {
      const Node& node = cycle.snapshot.nodes[job.placement.pods[at++].node];
      const ShapeRules& rules = cycle.rule(i);
      bool allowed = (rules.zones >> node.zone & 1U) != 0 && open_until(node, end);
      bool some = false;
      for (std::uint32_t c = 0; c < rules.choices; ++c) {
        some = some || rules.allows(c, g, shape.groups.size(), node.node_class,
                                    cycle.snapshot.classes.size());
      }
      if (!allowed || !some) return false;
    }
  }
  return job.unmet_dependencies == 0 && cycle.board.free_later(i, job.placement) &&
         money_or_quota(cycle, i, job.placement, cycle.board.use_later()).code == ReasonCode::kNone;
}

// Claims first: those that no longer hold are released, those whose place has come free start.
// Returns the jobs that wait for a turn, released ones among them, best rank first.
std::vector<Index> settle_claims(Cycle& cycle) {
  std::vector<Index> claims;
  for (const Index i : cycle.ranked) {
    if (cycle.snapshot.jobs[i].state == JobState::kClaimed) claims.push_back(i);
  }
  std::erase_if(claims, [&](Index i) {
    const bool holds = claim_holds(cycle, i);
    if (holds) {
      cycle.board.claim(i, cycle.snapshot.jobs[i].placement);
    } else {
      cycle.out.released.push_back(i);
    }
    return !holds;
  });
  for (const Index i : claims) {
    const Job& job = cycle.snapshot.jobs[i];
    const Amounts amounts = placed_amounts(cycle.snapshot, cycle.shape(i), job.placement);
    if (cycle.board.free_now(i, job.placement) &&
        cycle.board.use_now().shortage(job.queue, amounts).queue == kAbsent) {
      cycle.board.start_claimed(i);
      cycle.needed |= cycle.shape(i).needs;
      cycle.out.admit.push_back({i, job.placement});
    } else {
      Hold hold{i, {}};
      hold.reason.code = ReasonCode::kVictimsLeaving;
      cycle.out.hold.push_back(hold);
    }
  }
  std::vector<Index> waiting;
  for (const Index i : cycle.ranked) {
    const auto& released = cycle.out.released;
    if (cycle.snapshot.jobs[i].state == JobState::kPending ||
        std::find(released.begin(), released.end(), i) != released.end()) {
      waiting.push_back(i);
    }
  }
  return waiting;
}

// The jobs that wait, one after the other: start, or claim, or get a promise, or wait.
class Turns {
 public:
  explicit Turns(Cycle& cycle) : cycle_(cycle), first_(cycle.snapshot.shapes.size() + 1, 0) {
    for (std::size_t s = 0; s < cycle.snapshot.shapes.size(); ++s) {
      first_[s + 1] = first_[s] + cycle.rules[s].choices;
      for (std::uint32_t c = 0; c < cycle.rules[s].choices; ++c) {
        tried_.push_back(
            {Timestamp::max(), Timestamp::max(), {}, core_request(cycle.snapshot.shapes[s], c)});
      }
    }
    blocked_by_.assign(cycle.snapshot.queues.size(), kAbsent);
  }

  void consider(Index job) {
    const Reason reason = start(job);
    if (reason.code == ReasonCode::kNone) return;
    Hold hold{job, reason};
    if (may_need_victims(reason.code) && preempt(job)) {
      hold.reason = {};
      hold.reason.code = ReasonCode::kVictimsLeaving;
    } else {
      if (needs_place(reason.code)) promise(job);
      if (cycle_.policy.strict_fifo != 0 && blocked_by_[queue(job)] == kAbsent) {
        blocked_by_[queue(job)] = job;
      }
    }
    cycle_.out.hold.push_back(hold);
  }

 private:
  // What is known of a shape at a choice of models.
  struct Tried {
    Timestamp failed_end;   // Gangs that end then or later, and are gone …
    Timestamp failed_gone;  // … then or later, found no place.
    Reason reason;
    Amounts request;
  };

  static bool needs_place(ReasonCode code) {
    return code == ReasonCode::kCapacity || code == ReasonCode::kFragmented ||
           code == ReasonCode::kReserved;
  }
  static bool may_need_victims(ReasonCode code) {
    return needs_place(code) || code == ReasonCode::kQuota;
  }
  Index queue(Index job) const { return cycle_.snapshot.jobs[job].queue; }

  Reason gate(Index job) const;
  Reason start(Index job);
  Reason start_at(Index job, std::uint32_t choice);
  bool preempt(Index job);
  void promise(Index job);

  Cycle& cycle_;
  std::vector<std::size_t> first_;  // Per shape: position of its first choice in tried_.
  std::vector<Tried> tried_;
  std::vector<Index> blocked_by_;  // Per queue, in a strict FIFO.
  // Queue and shape for which none were found; where those who came earlier may push out more, by
  // one that came then.
  std::unordered_map<std::uint64_t, Timestamp> no_victims_;
  std::uint32_t failures_ = 0;
  std::uint32_t preemption_tries_ = 0;
};

// What stands against a job before any place is looked for.
Reason Turns::gate(Index i) const {
  const Job& job = cycle_.snapshot.jobs[i];
  Reason reason;
  if (job.unmet_dependencies > 0) {
    reason.code = ReasonCode::kDependency;
    reason.missing = job.unmet_dependencies;
  } else if (cycle_.rule(i).never.code != ReasonCode::kNone) {
    return cycle_.rule(i).never;
  } else if (job.array != kAbsent && cycle_.board.array_running()[job.array] >=
                                         cycle_.snapshot.arrays[job.array].max_running) {
    reason.code = ReasonCode::kArrayLimit;
    reason.missing = reason.wanted = 1;
    reason.subject = job.array;
  } else if (blocked_by_[job.queue] != kAbsent) {
    reason.code = ReasonCode::kFifo;
    reason.subject = blocked_by_[job.queue];
  }
  return reason;
}

Reason Turns::start(Index job) {
  Reason reason = gate(job);
  if (reason.code != ReasonCode::kNone) return reason;
  const std::size_t first = first_[cycle_.snapshot.jobs[job].shape];
  const std::uint32_t choices = cycle_.rule(job).choices;
  // A model within the queue's own quota goes before one that has to be borrowed.
  for (const bool borrowing : {false, true}) {
    for (std::uint32_t choice = 0; choice < choices; ++choice) {
      const Amounts& request = tried_[first + choice].request;
      const bool own = cycle_.board.use_later().within_nominal(queue(job), request);
      if (own == borrowing) continue;
      const Reason here = start_at(job, choice);
      if (here.code == ReasonCode::kNone) return here;
      if (reason.code == ReasonCode::kNone || reason.code == ReasonCode::kQuota) reason = here;
    }
  }
  return reason;
}

Reason Turns::start_at(Index job, std::uint32_t choice) {
  Tried& tried = tried_[first_[cycle_.snapshot.jobs[job].shape] + choice];
  for (const QuotaUse* use : {&cycle_.board.use_now(), &cycle_.board.use_later()}) {
    const Shortage shortage = use->shortage(queue(job), tried.request);
    if (shortage.queue == kAbsent) continue;
    Reason reason;
    reason.code = ReasonCode::kQuota;
    reason.subject = shortage.queue;
    reason.flavor = shortage.flavor;
    reason.missing = shortage.missing;
    reason.wanted = shortage.wanted;
    return reason;
  }
  // Nothing comes free while turns are taken: what found no place will find none.
  const Gang gang = cycle_.gang(job, choice);
  if (gang.end >= tried.failed_end && gang.gone >= tried.failed_gone) return tried.reason;
  if (failures_ >= cycle_.budget.placement_tries) {
    Reason reason;
    reason.code = ReasonCode::kNotTried;
    return reason;
  }
  Placed placed = cycle_.placer.place(cycle_.board.both(), gang, cycle_.board.narrow(gang.end));
  if (!placed.placement) {
    ++failures_;
    tried.failed_end = gang.end;
    tried.failed_gone = gang.gone;
    tried.reason = capacity_reason(cycle_, job, placed);
    return tried.reason;
  }
  const Reason against = money_or_quota(cycle_, job, *placed.placement, cycle_.board.use_later());
  if (against.code != ReasonCode::kNone) return against;
  cycle_.board.start(job, *placed.placement);
  cycle_.needed |= cycle_.shape(job).needs;
  cycle_.out.admit.push_back({job, std::move(*placed.placement)});
  return {};
}

bool Turns::preempt(Index job) {
  const std::uint64_t key = std::uint64_t{queue(job)} << 32 | cycle_.snapshot.jobs[job].shape;
  const Timestamp submitted = cycle_.snapshot.jobs[job].submitted;
  const auto known = no_victims_.find(key);
  const bool hopeless = known != no_victims_.end() && submitted >= known->second;
  if (hopeless || preemption_tries_ >= cycle_.budget.preemption_tries) return false;
  ++preemption_tries_;
  if (preempt_for(cycle_, job)) return true;
  const bool by_age = cycle_.snapshot.queues[queue(job)].within == WithinQueue::kSubmittedLater;
  no_victims_[key] = by_age ? submitted : Timestamp::min();
  return false;
}

void Turns::promise(Index job) {
  if (cycle_.board.promises().size() >= cycle_.policy.reservations) return;
  if (cycle_.snapshot.jobs[job].submitted + cycle_.policy.reserve_after > cycle_.now) return;
  promise_to(cycle_, job);
}

}  // namespace

Decisions decide(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                 const Budget& budget) {
  Cycle cycle(snapshot, policy, now, budget);
  cycle.out.certificate.epoch = snapshot.epoch;
  if (budget.digest != 0) {
    cycle.out.certificate.snapshot = digest(snapshot);
    cycle.out.certificate.policy = digest(policy);
  }
  const std::vector<Index> order = settle_claims(cycle);
  Turns turns(cycle);
  for (const Index job : order) turns.consider(job);
  grow(cycle);
  if (!cycle.out.certificate.steps.empty()) {
    cycle.out.certificate.order = cycle.ranked;
    cycle.out.certificate.entitled = cycle.board.standing().entitled();
  }
  std::sort(cycle.out.hold.begin(), cycle.out.hold.end(),
            [](const Hold& a, const Hold& b) { return a.job < b.job; });
  if (budget.explain == Explain::kFull) forecast(cycle, order);
  return std::move(cycle.out);
}

}  // namespace falaj::scheduler
