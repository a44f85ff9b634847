// scheduler/preempt.h — a place at the cost of others: only with a right to it, and only if the
// potential (scheduler/potential.h) rises.
//
// A right is one of: reclaim (below the queue that both have in common, the job would be entitled
// and the victim only borrows), priority (higher, within the policy's scope), order (a better score
// by the policy's margin, within its scope). A job is no victim before its minimum run time is
// over. Pods beyond an elastic job's minimum may be taken by anybody.
#pragma once

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// The work that is lost when a running job stops now: since its checkpoint and for the restart,
// times its size: GPU-seconds (a hundred cores count as a GPU).
std::int64_t lost_work(const Cycle& cycle, Index victim);

// Whether a running job has run for as long as its queue, or else the policy, leaves it alone.
bool has_run_enough(const Cycle& cycle, const Job& victim);

// Looks for victims with the least loss, the costliest of which is as cheap as can be. On success
// they are marked as leaving, the job has claimed the place, and `cycle.out` says so; otherwise
// nothing has changed.
bool preempt_for(Cycle& cycle, Index job);

}  // namespace falaj::scheduler
