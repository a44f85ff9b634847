// scheduler/simulate/decide_strategy.h — Falaj's own policy in the simulator: the same decide()
// that the live system calls, over a snapshot of the simulated world.
//
// Every instant the world is told to decide() as it is: who waits, who runs where and for how long,
// what the predictor says from the jobs that have ended. Who is told to leave leaves at once, and
// who claimed the place starts there; the cost of a restart is the world's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/decide.h"
#include "scheduler/policy.h"
#include "scheduler/predictor.h"
#include "scheduler/simulate/policy_file.h"
#include "scheduler/simulate/world.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler::simulate {

struct DecideOptions {
  std::string name = "falaj";
  Policy policy = default_policy();
  // Decisions are up to so far apart when many wait, as in a live system; bursts share one.
  Duration cycle = Duration::seconds(60);
  std::vector<TenantQueue> queues;         // When empty, quotas are not counted at all.
  Duration half_life = Duration::days(7);  // Of what tenants have used, where order.share asks.
  Predictor::Options predictor;
  // kFull: waiting jobs are told when they will start, and it is counted who did (Promises). The
  // replay of a crowded history then takes about ten times as long.
  Explain explain = Explain::kCode;

  // Least attained service, bent by the prediction, with a discount for gangs; tuned on the first
  // 60 % of the public Philly table's first half (docs/guides/compute.md).
  static Policy default_policy();
};

std::unique_ptr<Strategy> decide_strategy(const FleetSpec& fleet, const DecideOptions& options);

}  // namespace falaj::scheduler::simulate
