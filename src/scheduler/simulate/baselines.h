// scheduler/simulate/baselines.h — the policies that ours is measured against, in the same engine.
//
// Each is the plain textbook form. Those whose name says oracle know each job's run time, which no
// real scheduler does; they show what remains to be won.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/simulate/world.h"

namespace falaj::scheduler::simulate {

// By submission; a head that does not fit blocks all.
std::unique_ptr<Strategy> strict_fifo();
// By submission; what does not fit is passed over.
std::unique_ptr<Strategy> greedy_fifo();
// The head has a reservation at the earliest instant it can have; others may start now if they do
// not move it. Knows run times.
std::unique_ptr<Strategy> easy_backfill_oracle();
// The tenant that holds the fewest GPUs goes first; by submission within a tenant, whose head
// blocks that tenant alone.
std::unique_ptr<Strategy> max_min_by_tenant();

// Least attained service (GPUs × time) in levels, first come first served within a level, with
// preemption: Tiresias without knowledge of run times. A level ends at a threshold.
struct LasOptions {
  std::string name = "las";
  // Those of the published simulator of Tiresias, in GPU-seconds.
  std::vector<Duration> level_ends = {Duration::seconds(3'250), Duration::seconds(7'200),
                                      Duration::seconds(18'000)};
};
// Levels a decade apart up to a hundred GPU-hours: what one would choose who had seen heavy tails.
LasOptions las_decades();
std::unique_ptr<Strategy> least_attained_service(const LasOptions& options = {});
// Shortest remaining service (GPUs × remaining time) first, with preemption. Knows run times.
std::unique_ptr<Strategy> shortest_remaining_service_oracle();

}  // namespace falaj::scheduler::simulate
