// jobs/scheduling_policy.h — in which order jobs start and who gives way, as the administrator
// declares it.
//
//   kind: SchedulingPolicy
//   metadata: {name: default}
//   spec: {order: {share: 1000}, half_life: 7d, prices: {cpu_hour: 0.05, gpu_hour: 2},
//          guard_rails: {tenant_wait_worse_by: 50%}}
//
// The one named `default` is in force; others are kept for later. The members are those of
// scheduler/simulate/policy_file.h, but for `queues`: what a queue has is said by its Queue.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/simulate/policy_file.h"
#include "storage/objects.h"

namespace falaj::jobs {

inline constexpr std::string_view kPolicyInForce = "default";

using SchedulingPolicy = scheduler::simulate::PolicyFile;

// What holds when nobody declared one, and what a declared one does not mention: first come, first
// served among equal priorities, with places kept for those who cannot start yet; only a queue's
// own part is cleared for it.
SchedulingPolicy first_come();
// The number that one of its `priorities` stands for; FJ-2001 when there is none of that name.
Result<std::int64_t> priority_of(const SchedulingPolicy& policy, const std::string& name);
Result<SchedulingPolicy> decode_scheduling_policy(const storage::Object& object);
// Whether this object says how the live queue decides.
bool is_in_force(const storage::Object& object);
storage::KindInfo scheduling_policy_kind();

}  // namespace falaj::jobs
