// scheduler/fleet.h — what is free on a node, and whether a pod fits there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "scheduler/snapshot.h"

namespace falaj::scheduler {

// Of one node, at one moment. Plain values: taken, given back and copied freely.
struct NodeState {
  std::int64_t cpu = 0;  // Free.
  std::int64_t memory = 0;
  std::int64_t watts = 0;
  std::array<std::int64_t, kMaxNumaNodes> numa_cpu{};  // Not yet bound to a pod.
  std::uint16_t whole = 0;                             // GPUs that nobody uses any part of.
  std::array<std::uint16_t, kMaxDevices> milli{};      // Used of each, if shared by fractions.
  std::array<std::uint8_t, kMaxDevices> slices{};      // Used of each, if cut into instances.
  std::uint64_t tags = 0;                              // Of the jobs on it.
  std::uint64_t company = 0;                           // The same; in both moments after both_of().
  std::uint64_t avoids = 0;
  bool operator==(const NodeState&) const = default;
};

NodeState empty_state(const NodeClass& node_class, std::int64_t power_cap);

// The pod with devices chosen: GPUs out of the smallest island that has enough, parts on devices
// that are already shared, instances where they leave room for large ones; nullopt if it does not
// fit. `node` is left to the caller.
std::optional<PodPlacement> fit(const NodeState& state, const NodeClass& node_class,
                                const TaskGroup& group);

// How many such pods fit, counting up to `most`.
std::uint32_t fit_count(const NodeState& state, const NodeClass& node_class, const TaskGroup& group,
                        std::uint32_t most);

void take(NodeState& state, const NodeClass& node_class, const TaskGroup& group,
          const PodPlacement& pod);
// The opposite. Tags are not counted: who gives back sets them again.
void give(NodeState& state, const NodeClass& node_class, const TaskGroup& group,
          const PodPlacement& pod);
// Whether exactly these devices are free.
bool fits_at(const NodeState& state, const NodeClass& node_class, const TaskGroup& group,
             const PodPlacement& pod);

// What is free at both of two moments.
NodeState both_of(const NodeState& a, const NodeState& b);

// Whether the jobs on the node and a job of this shape bear each other.
inline bool bears(const NodeState& state, const Shape& shape) {
  return (state.tags & shape.avoids) == 0 && (state.avoids & shape.tags) == 0 &&
         (shape.needs & ~state.company) == 0;
}

}  // namespace falaj::scheduler
