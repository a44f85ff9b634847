#include "scheduler/submit.h"

#include "scheduler/amounts.h"
#include "scheduler/place.h"
#include "scheduler/quota.h"

namespace falaj::scheduler {
namespace {

// What the placement would cost beyond what the job and its queues may ever spend.
Reason too_dear(const Snapshot& snapshot, const Policy& policy, const Job& job,
                const Placement& placement) {
  Reason reason;
  reason.latest = Timestamp::max();
  const Rates rates = placed_rates(snapshot, snapshot.shapes[job.shape], placement);
  const std::int64_t seconds = upper_run(job, policy).nanos / 1'000'000'000;
  const std::int64_t cost = scaled(rates.money_per_hour, seconds, 3600);
  if (job.cost_cap != kUnlimited && cost > job.cost_cap - job.spent) {
    reason.code = ReasonCode::kCostCap;
    reason.missing = cost - (job.cost_cap - job.spent);
  }
  return reason;
}

Reason over_quota(const QuotaTree& tree, const Job& job, const Amounts& request) {
  Reason reason;
  const Shortage shortage = QuotaUse(tree).shortage(job.queue, request);
  if (shortage.queue == kAbsent) return reason;
  reason.code = ReasonCode::kQuota;
  reason.subject = shortage.queue;
  reason.flavor = shortage.flavor;
  reason.missing = shortage.missing;
  reason.latest = Timestamp::max();
  return reason;
}

}  // namespace

Reason never_starts(const Snapshot& snapshot, const Policy& policy, Index position) {
  const Job& job = snapshot.jobs[position];
  const Shape& shape = snapshot.shapes[job.shape];
  const ShapeRules rules = shape_rules(snapshot, shape);
  if (rules.never.code != ReasonCode::kNone) return rules.never;
  const Topology topology(snapshot);
  const QuotaTree tree(snapshot);
  const Site empty(snapshot);
  Placer placer(snapshot, topology);
  Gang gang;
  gang.shape = &shape;
  gang.rules = &rules;
  gang.doors = Gang::Doors::kAll;
  for (const TaskGroup& group : shape.groups) gang.counts.push_back(group.min);
  Reason reason;
  reason.code = ReasonCode::kTooLarge;
  reason.latest = Timestamp::max();
  // One choice of models that nothing stands against is enough; else the obstacle that came last.
  for (gang.choice = 0; gang.choice < rules.choices; ++gang.choice) {
    const Placed placed = placer.place(empty, gang);
    if (!placed.placement) continue;
    reason = over_quota(tree, job, core_request(shape, gang.choice));
    if (reason.code == ReasonCode::kNone) {
      reason = too_dear(snapshot, policy, job, *placed.placement);
    }
    if (reason.code == ReasonCode::kNone) return {};
  }
  return reason;
}

}  // namespace falaj::scheduler
