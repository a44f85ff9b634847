// scheduler/simulate/engine.h — replays a trace on a fleet under one policy.
//
// Discrete events: submissions, ends, node failures and repairs, and the instants a policy asked to
// be called at. Everything that happens at one instant happens before the policy is asked once.
// Deterministic: the same trace, fleet, faults (with their seed) and policy give the same outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/simulate/world.h"

namespace falaj::scheduler::simulate {

struct Faults {
  Duration node_mtbf{};  // Mean time between failures of one node; zero: nodes never fail.
  Duration repair = Duration::hours(2);
  std::int32_t straggler_permille = 0;          // Of the runs, those that straggle.
  std::int32_t straggler_speed_permille = 600;  // How fast they then go.
  std::uint64_t seed = 1;
};

struct Scenario {
  FleetSpec fleet;
  Interruption interruption;
  Faults faults;
  // Called about a hundred times with the share of the jobs that ended; may be empty.
  std::function<void(double)> on_progress;
};

// Means over one stretch of simulated time, for plots.
struct Stretch {
  Timestamp from{};
  double busy_gpus = 0;
  double pending_jobs = 0;
  double pending_gpus = 0;
};

struct Outcome {
  std::vector<JobTrack> jobs;  // By index into the trace; kDone or kRefused, each of them.
  Timestamp begin{};           // First submission.
  Timestamp end{};             // Last end.
  std::int64_t passes = 0;     // Times that the policy was asked.
  std::int64_t node_failures = 0;
  std::vector<Duration> busy_by_group;  // GPU time held, by node group.
  // GPU time over [begin, last submission], the stretch in which there is demand:
  Duration window{};
  double busy_in_window = 0;      // Share of all GPU time.
  double idle_while_waiting = 0;  // Share of all GPU time that was free although a job waited that
                                  // asks for no more GPUs than were free: fragmentation and
                                  // reservations.
  double scattered = 0;           // Share of the free GPU time that was on nodes partly in use.
  std::vector<Stretch> timeline;  // At most kStretchesMax.
};

inline constexpr std::size_t kStretchesMax = 512;

// Stops the process when the policy leaves a job that fits the fleet waiting for ever: a policy
// that does so is wrong, and its averages would lie.
Outcome replay(const Trace& trace, const Scenario& scenario, Strategy& strategy);

}  // namespace falaj::scheduler::simulate
