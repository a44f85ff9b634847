// jobs/queues.h — who may use how much of the machine, as a project declares it.
//
//   kind: Queue
//   metadata: {name: risk, project: payments}
//   spec: {parent: payments-all, weight: 2,
//          quota: {cpu: {nominal: 4, borrow: 2, lend: 4}, memory: {nominal: 8Gi}, gpu: {nominal:
//          1}},
//          budgets: [{per: month, gpu_hours: 500}],
//          min_run: 30m, reclaim: any, within: lower-priority}
//
// `reclaim` says whom its jobs may push out of other queues (any, lower-priority, never),
// `within` whom of itself (lower-priority; later: also of equal priority, submitted later and not
// put first by the policy; never); its jobs run at least `min_run` between
// preemptions. Kueue's words are understood too: cohort for parent; nominalQuota, borrowingLimit
// and lendingLimit; preemption: {reclaimWithinCohort, withinClusterQueue}.
//
// A queue without a parent stands below the whole machine. Of a resource that is not listed it has
// nothing of its own and may borrow all that is free; memory that is not listed is not counted.
// GPUs may be listed by model (gpu.a100), which the Node says (jobs/node.h). A job that names no
// queue goes to its project's `default`, which need not be declared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "jobs/budgets.h"
#include "storage/objects.h"

namespace falaj::jobs {

inline constexpr std::int64_t kNoLimit = INT64_MAX;

// In thousandths of processors and GPUs, and in bytes of memory.
struct ResourceQuota {
  std::int64_t nominal = 0;
  std::int64_t borrow = kNoLimit;
  std::int64_t lend = kNoLimit;
  bool operator==(const ResourceQuota&) const = default;
};

struct QueueSpec {
  std::string project;
  std::string name;
  std::string parent;  // "" for the machine.
  ResourceQuota cpu;
  ResourceQuota memory;
  ResourceQuota gpu;
  std::map<std::string, ResourceQuota> gpu_models{};  // By model, instead of `gpu` for that one.
  std::int64_t weight_milli = 1000;
  std::vector<QueueBudget> budgets{};
  scheduler::Reclaim reclaim = scheduler::Reclaim::kAny;
  scheduler::WithinQueue within = scheduler::WithinQueue::kLowerPriority;
  Duration min_run{};  // 0: what the SchedulingPolicy says.
};
Result<QueueSpec> decode_queue(const storage::Object& object);
// "payments/risk": how a queue is called among all projects; "" is the project's default.
std::string queue_name(const std::string& project, const std::string& name);
// The kinds `Queue`, `SchedulingPolicy`, `Node` and `Runtime`, for the catalog.
std::vector<storage::KindInfo> kinds();

}  // namespace falaj::jobs
