// jobs/replay.h — what the queue would have done to the same jobs under other queues or another
// policy: jobs/admission.h over simulated time.
//
// Every job comes when it came. Once judge() admits it, it runs as long as it ran; who is preempted
// leaves at once and begins anew. The ledger learns as it would have learnt. Pure.
#pragma once

#include <string>
#include <vector>

#include "jobs/admission.h"
#include "scheduler/simulate/metrics.h"

namespace falaj::jobs {

struct PastJob {
  Candidate job;  // `queued_at` is when it came; its stage and sequence are not looked at.
  Duration run{};
};

struct Rules {
  std::string name;  // "current"
  std::vector<QueueSpec> queues;
  SchedulingPolicy policy = first_come();
};

// Tenants are queues, GPUs are those of the machine, or its processors when it has none. Jobs that
// these rules would never start count as refused. Fragmentation is not measured: there is one
// machine. Deterministic. Cost: one judge() for every instant at which something happens, fewer
// when many wait.
scheduler::simulate::Summary replay(const Machine& machine, const Rules& rules,
                                    const std::vector<PastJob>& jobs);

}  // namespace falaj::jobs
