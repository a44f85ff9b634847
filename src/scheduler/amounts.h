// scheduler/amounts.h — how much of each flavor something is, and what it costs to run.
#pragma once

#include <array>
#include <cstdint>

#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

using Amounts = std::array<std::int64_t, kMaxFlavors>;

void add(Amounts& to, const Amounts& what);
void subtract(Amounts& from, const Amounts& what);
std::int64_t weighted(const Snapshot& snapshot, const Amounts& amounts);

// Milli-GPUs of one pod: whole ones, a fraction, or an instance's part.
std::int64_t gpu_milli(const GpuRequest& request);

// The GPU model that `group` gets at the `choice`-th try of its job: the last one again when it
// names fewer. kAbsent without GPUs.
Index model_at(const TaskGroup& group, std::uint32_t choice);
// How many tries there are: the most models that a group names, at least 1.
std::uint32_t choices(const Shape& shape);

// What `min` pods of every group are charged at a choice.
Amounts core_request(const Shape& shape, std::uint32_t choice);
// What a placed job is charged: all pods, or only the first `min` of each group.
Amounts placed_amounts(const Snapshot& snapshot, const Shape& shape, const Placement& placement);
Amounts placed_core(const Snapshot& snapshot, const Shape& shape, const Placement& placement);

// A placement of one pod of one group, for asking what that pod alone is charged.
Placement single(const Shape& shape, std::size_t group, const PodPlacement& pod);

// What it takes while it runs.
struct Rates {
  std::int64_t gpu_milli = 0;
  std::int64_t money_per_hour = 0;  // Millionths.
  std::int64_t watts = 0;
};
Rates placed_rates(const Snapshot& snapshot, const Shape& shape, const Placement& placement);

// The predicted remaining run time, upper and middle, never more than max_run.
Duration upper_run(const Job& job, const Policy& policy);
Duration middle_run(const Job& job, const Policy& policy);
// When a job that starts now is gone for certain: by its limit, or as upper_run() where it has
// none.
Timestamp gone_by(const Job& job, const Policy& policy, Timestamp now);

// a * b / c without overflow in between; c > 0. Saturates at kUnlimited.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c);
// The same, rounded up: parts that are scaled one by one are never less than their sum is.
std::int64_t scaled_up(std::int64_t a, std::int64_t b, std::int64_t c);

}  // namespace falaj::scheduler
