// jobs/queues.h — who may use how much of the machine, as a project declares it.
//
//   kind: Queue
//   metadata: {name: risk, project: payments}
//   spec: {parent: payments-all, weight: 2,
//          quota: {cpu: {nominal: 4, borrow: 2, lend: 4}, memory: {nominal: 8Gi}, gpu: {nominal:
//          1}},
//          budgets: [{per: month, gpu_hours: 500}]}
//
// A queue without a parent stands below the whole machine. Of a resource that is not listed it has
// nothing of its own and may borrow all that is free; memory that is not listed is not counted. A
// job that names no queue goes to its project's `default`, which need not be declared.
#pragma once

#include <cstdint>
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
  std::int64_t weight_milli = 1000;
  std::vector<QueueBudget> budgets{};
};
Result<QueueSpec> decode_queue(const storage::Object& object);
// "payments/risk": how a queue is called among all projects; "" is the project's default.
std::string queue_name(const std::string& project, const std::string& name);
// The kinds `Queue`, `SchedulingPolicy` and `Runtime`, for the catalog.
std::vector<storage::KindInfo> kinds();

}  // namespace falaj::jobs
