// scheduler/elastic.h — running jobs that may have more pods get what nobody else can use now.
// Shrinking is part of preemption (scheduler/preempt.h): pods beyond the minimum are the first to
// go.
#pragma once

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// Adds pods, one a round and job, in the order of rank, until nothing more fits, quota and promises
// included. Jobs that give something up in this cycle do not grow.
void grow(Cycle& cycle);

}  // namespace falaj::scheduler
