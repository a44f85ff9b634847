// scheduler/simulate/testing/small_world.h — traces that fit on a line of a test.
#pragma once

#include <string>
#include <vector>

#include "scheduler/simulate/engine.h"

namespace falaj::scheduler::simulate {

struct SmallJob {
  std::int64_t at = 0;  // Seconds.
  std::int64_t runs = 0;
  std::int32_t gpus = 1;
  std::uint32_t tenant = 0;
};

inline Trace small_trace(const std::vector<SmallJob>& jobs) {
  Trace trace;
  trace.tenants = {"a", "b", "c"};
  for (const SmallJob& job : jobs) {
    trace.jobs.push_back({.submit = Timestamp::from_seconds(job.at),
                          .duration = Duration::seconds(job.runs),
                          .gpus = job.gpus,
                          .tenant = job.tenant});
  }
  return trace;
}

inline Scenario small_scenario(std::int32_t nodes, std::int32_t gpus) {
  Scenario scenario;
  scenario.fleet.groups = {{.nodes = nodes, .gpus = gpus}};
  scenario.interruption.restart_cost = Duration::seconds(60);
  return scenario;
}

// When each job ended, in whole seconds.
inline std::vector<std::int64_t> ends(const Outcome& outcome) {
  std::vector<std::int64_t> out;
  for (const JobTrack& job : outcome.jobs) out.push_back(job.end.nanos / 1'000'000'000);
  return out;
}

}  // namespace falaj::scheduler::simulate
