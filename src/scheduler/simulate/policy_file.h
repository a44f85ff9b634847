// scheduler/simulate/policy_file.h — a SchedulingPolicy as people write it, for the simulator and
// for the live queue.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "scheduler/policy.h"

namespace falaj::scheduler::simulate {

// Quota and weight of one tenant's queue. A tenant without one has a queue without limits.
struct TenantQueue {
  std::string tenant;
  std::int64_t weight = 1000;  // Thousandths.
  std::int64_t nominal_gpus = 0;
  std::int64_t borrow_gpus = -1;  // -1: without limit; also below.
  std::int64_t lend_gpus = -1;
  bool operator==(const TenantQueue&) const = default;
};

// What a new policy must not do. Shares are of the current figure: 0.05 is five per cent.
struct GuardRails {
  double jct_worse_by = 0.05;         // Mean time from submission to end, over all jobs.
  double tenant_jct_worse_by = 0.25;  // The same, of any one tenant.
  double tenant_wait_worse_by = 0.5;  // Its mean wait, once that is more than a minute.
  double cost_worse_by = 0.05;
  double jain_min = 0;  // Fairness between tenants.
  double preemptions_per_job_max = 1;
  std::int64_t deadlines_newly_missed_max = 0;  // Of jobs that would have met theirs.
  bool operator==(const GuardRails&) const = default;
};

// What the live queue's budgets are counted by. A simulated fleet has prices of its own.
struct Prices {
  std::int64_t micros_per_cpu_hour = 0;  // Millionths.
  std::int64_t micros_per_gpu_hour = 0;
  std::int64_t watts_per_gpu = 0;
  bool operator==(const Prices&) const = default;
};

struct PolicyFile {
  Policy policy;
  std::vector<TenantQueue> queues;  // Of the simulator: the live queue has Queue objects.
  GuardRails guard_rails;
  Prices prices;
  // Named classes, by which the live queue's jobs may ask for a priority; within -1000 and 1000.
  std::map<std::string, std::int64_t> priorities;
  Duration half_life = Duration::days(7);  // Of what queues have used (order.share).
};

// kind: SchedulingPolicy
// spec: {order: {attained: 1000, p50: 500, …}, preemption: {order: cluster, margin: 1000, min_run:
//        30m}, reservations: 4, reserve_after: 6h, strict_fifo: false,
//        priorities: {urgent: 500, batch: -100}, half_life: 7d, prices: {cpu_hour: 0.05, gpu_hour:
//        2, gpu_watts: 300}, queues: [{tenant: vision, weight: 2, nominal_gpus: 64, borrow_gpus:
//        32, lend_gpus: 64}], guard_rails: {jct_worse_by: 5%, tenant_jct_worse_by: 25%,
//        tenant_wait_worse_by: 50%,
//                      cost_worse_by: 5%, jain_min: 0.8, preemptions_per_job_max: 1,
//                      deadlines_newly_missed_max: 0}}
// Members that are absent are as in `base`. Refuses unknown fields and numbers out of range.
Result<PolicyFile> decode_policy(const Value& spec, const Policy& base);

}  // namespace falaj::scheduler::simulate
