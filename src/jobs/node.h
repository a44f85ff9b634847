// jobs/node.h — what the machine that runs jobs is, as the administrator declares it.
//
//   kind: Node
//   metadata: {name: local, labels: {disk: ssd}}
//   spec: {gpu: {model: a100, memory: 40Gi, mig: a100, islands: [[0, 1], [2, 3]]},
//          numa: [[0, 1], [2, 3]], prices: {cpu_hour: 0.04, gpu_hour: 1.8}, power_cap: 1200,
//          maintenance: [{from: 2026-12-01T22:00:00Z, to: 2026-12-02T04:00:00Z}], closed: false,
//          temperature: normal}
//
// The machine itself says how many processors, bytes and GPUs it has (jobs.node_cpus and
// jobs.node_memory narrow that), and zone.executor in which zones it stands: a declaration cannot
// move it. `numa` lists the GPUs of each NUMA node. What nobody declares, nobody can ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/constraints.h"
#include "scheduler/simulate/policy_file.h"
#include "storage/objects.h"

namespace falaj::jobs {

// There is one machine, and this is what its Node is called.
inline constexpr std::string_view kThisNode = "local";

// Nothing starts in it, nor before it what would run into it.
struct Maintenance {
  Timestamp from{};
  Timestamp to{};
  bool operator==(const Maintenance&) const = default;
};

// Each of them instead of the SchedulingPolicy's, if it is said.
struct NodePrices {
  std::optional<std::int64_t> micros_per_cpu_hour{};
  std::optional<std::int64_t> micros_per_gpu_hour{};
  std::optional<std::int64_t> watts_per_gpu{};
  scheduler::simulate::Prices over(scheduler::simulate::Prices prices) const;
};

struct NodeSpec {
  Labels labels{};
  std::string gpu_model{};            // "": not known.
  std::int64_t gpu_memory_bytes = 0;  // Of each; 0: not known.
  scheduler::MigGeometry mig = scheduler::MigGeometry::kNone;
  std::vector<std::uint16_t> gpu_islands{};  // Devices near each other, a bit each.
  std::vector<std::uint16_t> numa_gpus{};    // Of each NUMA node; empty: not declared.
  NodePrices prices{};
  std::int64_t power_cap = INT64_MAX;      // Watts, for its GPUs together.
  std::vector<Maintenance> maintenance{};  // By their beginnings.
  bool closed = false;                     // What runs goes on; nothing starts.
  bool hot = false;                        // The same, until it has cooled down.
};
Result<NodeSpec> decode_node(const storage::Object& object);

// When a machine takes no new jobs.
struct Opening {
  bool open = true;
  Timestamp until = Timestamp::max();  // Of an open one: when it closes; else when it opens again.
};
Opening opening_of(const NodeSpec& node, Timestamp now);

storage::KindInfo node_kind();
// kInvalidArgument for a Node with a power_cap when neither it nor the policy says what a GPU
// draws: the cap would cap nothing. Either may be absent.
Status check_power(const storage::Object* node, const storage::Object* policy);

}  // namespace falaj::jobs
