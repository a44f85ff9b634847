// scheduler/submit.h — whether a job could ever start: asked when it is submitted, so that what is
// impossible is refused at once, with the reason, and does not wait for ever.
#pragma once

#include "scheduler/decisions.h"
#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// kNone if the job would start in this cluster if nothing else ran and every node were up;
// otherwise what stands against it: kZone, kDevice, kLabel, kTooLarge, kQuota (more than its
// queues may ever use) or kCostCap. Budgets begin anew and are not asked. `snapshot` passes
// check() and has the job in it.
Reason never_starts(const Snapshot& snapshot, const Policy& policy, Index job);

}  // namespace falaj::scheduler
