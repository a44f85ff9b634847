// scheduler/simulate/metrics.h — what a replay was like, for those who waited and those who pay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"
#include "scheduler/simulate/engine.h"

namespace falaj::scheduler::simulate {

struct Spread {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

struct TenantSummary {
  std::string name;
  std::int64_t jobs = 0;
  double gpu_hours = 0;
  double wait_mean = 0;      // Seconds.
  double jct_mean = 0;       // Seconds.
  double slowdown_mean = 0;  // Bounded.
  double cost = 0;           // Of the GPU time it held.
};

struct SizeSummary {
  std::int32_t gpus = 0;
  std::int64_t jobs = 0;
  double jct_mean = 0;
  double slowdown_mean = 0;
};

struct Summary {
  std::string policy;
  std::int64_t jobs = 0;      // That ended.
  std::int64_t refused = 0;   // Larger than the fleet.
  Spread jct;                 // Submission to end, seconds.
  Spread wait;                // Of it without GPUs, seconds.
  Spread slowdown;            // Bounded: jct / max(run time, kSlowdownFloor), at least 1.
  double large_slowdown = 0;  // Mean over jobs of kLargeGpus and more; 0 when there is none.
  std::int64_t large_jobs = 0;
  double jain = 0;           // Over tenants, of 1 / mean bounded slowdown: 1 is equally served.
  double utilisation = 0;    // Share of GPU time in use, first to last submission.
  double fragmentation = 0;  // Share of GPU time free although a small enough job waited.
  double scattered = 0;      // Share of free GPU time on nodes partly in use.
  std::int64_t preemptions = 0;
  double preemptions_per_job = 0;
  std::int64_t node_failures = 0;
  double lost_gpu_hours = 0;  // Restarts and work done twice.
  double energy_kwh = 0;      // Busy and idle, first submission to last end.
  double cost = 0;            // Of the GPU time that jobs held.
  double lost_cost = 0;       // Of it, for what was lost.
  double makespan_hours = 0;
  Promises promises;  // Of start times; filled in by who replays.
  // Jobs that ended too late, or never; filled in by who replays jobs with deadlines.
  std::vector<std::string> deadlines_missed;
  std::int64_t passes = 0;
  double replay_seconds = 0;           // Of this machine's time; filled in by who measures.
  std::vector<TenantSummary> tenants;  // By GPU time, largest first.
  std::vector<SizeSummary> sizes;      // By GPUs.
  std::vector<double> jct_quantiles;   // 0 %, 1 %, … 100 %, for plots.
  std::vector<Stretch> timeline;
};

inline constexpr double kSlowdownFloorSeconds = 10;
inline constexpr std::int32_t kLargeGpus = 32;

Summary summarise(std::string policy, const Trace& trace, const FleetSpec& fleet,
                  const Outcome& outcome);

// Everything but the quantiles and the timeline, which are for the report.
Value to_value(const Summary& summary);

}  // namespace falaj::scheduler::simulate
