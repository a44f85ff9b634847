// scheduler/elastic.h — jobs that may have more pods get what nobody else can use now: those that
// start in this cycle, before they begin, and those that run. Shrinking is part of preemption
// (scheduler/preempt.h): pods beyond the minimum are the first to go.
#pragma once

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// Adds pods, one a round and job, in the order of rank, until nothing more fits, quota and promises
// included. Jobs that give something up in this cycle do not grow, nor those that have not run for
// as long as they may not be preempted: to grow, they start again.
void grow(Cycle& cycle);

}  // namespace falaj::scheduler
