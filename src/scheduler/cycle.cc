#include "scheduler/cycle.h"

#include <algorithm>

#include "scheduler/parallel.h"
#include "scheduler/preempt.h"

namespace falaj::scheduler {

Cycle::Cycle(const Snapshot& s, const Policy& p, Timestamp t, const Budget& b)
    : snapshot(s),
      policy(p),
      now(t),
      budget(b),
      topology(s),
      board(s, p, t),
      placer(s, topology),
      rules(s.shapes.size()),
      ranks(s.jobs.size()),
      leaving(s.jobs.size(), 0),
      resized(s.jobs.size(), kAbsent) {
  sizes.reserve(s.shapes.size());
  for (const Shape& each : s.shapes) sizes.push_back(size_of(each));
  in_parallel(b.threads, s.shapes.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) rules[i] = shape_rules(s, s.shapes[i]);
  });
  const std::vector<std::int64_t> over = overuse(s);
  in_parallel(b.threads, s.jobs.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Job& job = s.jobs[i];
      ranks[i] = rank_of(job, sizes[job.shape], over[job.queue], p, t);
    }
  });
  ranked = in_order(s, ranks, b.threads);
}

const Placement& Cycle::placement(Index job) const {
  return resized[job] == kAbsent ? snapshot.jobs[job].placement
                                 : out.resize[resized[job]].placement;
}

const Site& Cycle::empty_site() {
  if (!empty_) empty_.emplace(snapshot);
  return *empty_;
}

const Costs& Cycle::costs() {
  if (costs_) return *costs_;
  costs_.emplace();
  std::vector<std::int64_t> cost(snapshot.jobs.size(), 0);
  for (Index i = 0; i < snapshot.jobs.size(); ++i) {
    const Job& job = snapshot.jobs[i];
    if (job.state != JobState::kRunning) continue;
    cost[i] = log2_points(1 + lost_work(*this, i)) -
              policy.preemption.score_weight * ranks[i].score / 1000;
    costs_->order.push_back(i);
  }
  std::sort(costs_->order.begin(), costs_->order.end(), [&](Index a, Index b) {
    return cost[a] != cost[b] ? cost[a] < cost[b] : snapshot.jobs[a].id > snapshot.jobs[b].id;
  });
  for (const Index i : costs_->order) {
    bool extra = false;
    for (std::size_t g = 0; g < shape(i).groups.size(); ++g) {
      extra = extra || snapshot.jobs[i].placement.counts[g] > shape(i).groups[g].min;
    }
    if (extra) costs_->elastic.push_back(i);
  }
  return *costs_;
}

const Marks& Cycle::marks() {
  if (!marks_ || marks_of_ != board.standing().fingerprint()) {
    marks_ = board.standing().marks(ranked);
    marks_of_ = board.standing().fingerprint();
  }
  return *marks_;
}

Gang Cycle::gang(Index job, std::uint32_t choice) const {
  Gang gang;
  gang.shape = &shape(job);
  gang.rules = &rule(job);
  gang.choice = choice;
  for (const TaskGroup& group : gang.shape->groups) gang.counts.push_back(group.min);
  gang.end = board.end_of(job);
  gang.gone = gone_by(snapshot.jobs[job], policy, now);
  return gang;
}

Reason money_or_quota(const Cycle& cycle, Index j, const Placement& placement,
                      const QuotaUse& use) {
  const Job& job = cycle.snapshot.jobs[j];
  const Shape& shape = cycle.shape(j);
  Reason reason;
  const Shortage shortage =
      use.shortage(job.queue, placed_amounts(cycle.snapshot, shape, placement));
  if (shortage.queue != kAbsent) {
    reason.code = ReasonCode::kQuota;
    reason.subject = shortage.queue;
    reason.flavor = shortage.flavor;
    reason.missing = shortage.missing;
    reason.wanted = shortage.wanted;
    return reason;
  }
  if (!cycle.board.allowances().any() && job.cost_cap == kUnlimited) return reason;
  const Rates rates = placed_rates(cycle.snapshot, shape, placement);
  const Duration run = upper_run(job, cycle.policy);
  const auto shortfall = cycle.board.allowances().shortfall(job.queue, rates, run);
  if (shortfall.queue != kAbsent) {
    reason.code = ReasonCode::kBudget;
    reason.subject = shortfall.queue;
    reason.missing = shortfall.missing;
    reason.wanted = shortfall.wanted;
    reason.flavor = shortfall.allowance;
    return reason;
  }
  const std::int64_t over = beyond_cap(cycle, j, placement);
  if (over > 0) {
    reason.code = ReasonCode::kCostCap;
    reason.missing = over;
  }
  return reason;
}

std::int64_t beyond_cap(const Cycle& cycle, Index j, const Placement& placement) {
  const Job& job = cycle.snapshot.jobs[j];
  if (job.cost_cap == kUnlimited) return 0;
  const Rates rates = placed_rates(cycle.snapshot, cycle.shape(j), placement);
  const std::int64_t seconds = upper_run(job, cycle.policy).nanos / 1'000'000'000;
  const std::int64_t cost = scaled(rates.money_per_hour, seconds, 3600);
  return std::max<std::int64_t>(0, cost - (job.cost_cap - job.spent));
}

}  // namespace falaj::scheduler
