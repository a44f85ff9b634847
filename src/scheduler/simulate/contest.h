// scheduler/simulate/contest.h — the policies by name, and one of them replayed and summed up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/simulate/decide_strategy.h"
#include "scheduler/simulate/engine.h"
#include "scheduler/simulate/metrics.h"

namespace falaj::scheduler::simulate {

// "falaj" first, then the baselines.
const std::vector<std::string>& strategy_names();

// FJ-1016 with the nearest name when there is none such. `options` are for "falaj".
Result<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const FleetSpec& fleet,
                                                const DecideOptions& options);

// Replays and sums up; replay_seconds are measured.
Summary contest(const Trace& trace, const Scenario& scenario, Strategy& strategy);

// How each figure of `ours` stands to that of another: under 1 it is smaller.
struct Ratio {
  std::string to;
  double jct_mean = 0;
  double jct_p99 = 0;
  double large_slowdown = 0;
};
std::vector<Ratio> ratios(const Summary& ours, const std::vector<Summary>& all);

}  // namespace falaj::scheduler::simulate
