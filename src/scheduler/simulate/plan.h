// scheduler/simulate/plan.h — what another scheduling policy would have done to the same history.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "scheduler/simulate/decide_strategy.h"
#include "scheduler/simulate/metrics.h"

namespace falaj::scheduler::simulate {

// What a new policy must not do. Shares are of the current figure: 0.05 is five per cent.
struct GuardRails {
  double jct_worse_by = 0.05;         // Mean time from submission to end, over all jobs.
  double tenant_jct_worse_by = 0.25;  // The same, of any one tenant.
  double cost_worse_by = 0.05;
  double jain_min = 0;  // Fairness between tenants.
  double preemptions_per_job_max = 1;
  bool operator==(const GuardRails&) const = default;
};

struct PolicyFile {
  DecideOptions options;
  GuardRails guard_rails;
};

// kind: SchedulingPolicy
// spec: {order: {attained: 1000, p50: 500, …}, preemption: {order: cluster, margin: 1000, min_run:
//        30m}, reservations: 4, reserve_after: 6h, strict_fifo: false,
//        queues: [{tenant: vision, weight: 2, nominal_gpus: 64, borrow_gpus: 32, lend_gpus: 64}],
//        guard_rails: {jct_worse_by: 5%, tenant_jct_worse_by: 25%, cost_worse_by: 5%,
//                      jain_min: 0.8, preemptions_per_job_max: 1}}
// Members that are absent keep the default. Refuses unknown fields and numbers out of range.
Result<PolicyFile> decode_policy(const Value& spec);

struct TenantChange {
  std::string tenant;
  double wait_before = 0;  // Means, seconds.
  double wait_after = 0;
  double jct_before = 0;
  double jct_after = 0;
  double cost_before = 0;
  double cost_after = 0;
};

struct Plan {
  Summary current;
  Summary next;
  std::vector<TenantChange> tenants;  // Who waits longer first.
  std::vector<std::string> broken;    // Guard-rails, each in words; empty: it may be applied.
};

// Pure. Both summaries are of the same trace and fleet.
Plan compare(Summary current, Summary next, const GuardRails& rails);
Value to_value(const Plan& plan);

}  // namespace falaj::scheduler::simulate
