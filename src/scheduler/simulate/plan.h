// scheduler/simulate/plan.h — what another scheduling policy would have done to the same history.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "scheduler/simulate/metrics.h"
#include "scheduler/simulate/policy_file.h"

namespace falaj::scheduler::simulate {

struct TenantChange {
  std::string tenant;
  double wait_before = 0;  // Means, seconds.
  double wait_after = 0;
  double jct_before = 0;
  double jct_after = 0;
  double cost_before = 0;
  double cost_after = 0;
};

struct Plan {
  Summary current;
  Summary next;
  std::vector<TenantChange> tenants;  // Who waits longer first.
  std::vector<std::string> broken;    // Guard-rails, each in words; empty: it may be applied.
};

// Pure. Both summaries are of the same trace and fleet.
Plan compare(Summary current, Summary next, const GuardRails& rails);
Value to_value(const Plan& plan);

}  // namespace falaj::scheduler::simulate
