// scheduler/snapshot.h — everything a decision may depend on, as plain integers.
//
// A Snapshot is one moment of the whole cluster: who may use how much (queues), what is asked for
// (jobs and their shapes), what there is (nodes and their classes). It is made by the live system,
// by the simulator or from an audit record, and given to decide() (scheduler/decide.h), which reads
// nothing else. Things refer to each other by position in the vectors below. `check` says whether a
// snapshot is well formed; decide() requires it.
//
// Units: processors in milli-cores, memory in MiB, GPUs in milli-GPUs, money in millionths, power
// in watts. Thread-safe to read; copying costs its size.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace falaj::scheduler {

using Index = std::uint32_t;
inline constexpr Index kAbsent = 0xffff'ffff;
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Limits of a snapshot; `check` refuses more.
inline constexpr std::size_t kMaxFlavors = 16;
inline constexpr std::size_t kMaxDepth = 8;     // Queues above one another.
inline constexpr std::size_t kMaxDevices = 16;  // GPUs of one node.
inline constexpr std::size_t kMaxNumaNodes = 4;
inline constexpr std::size_t kMaxGroups = 8;  // Task groups of one job.

// What quota is counted in. Flavors 0 and 1 are always processors and memory; every further one is
// a GPU model, so that an H100 and a T4 are not "one GPU" each.
struct Flavor {
  std::string name;         // "cpu", "memory", "gpu.a100"
  std::int64_t weight = 1;  // How much one unit counts when resources are added up.
};
inline constexpr Index kCpu = 0;
inline constexpr Index kMemory = 1;

// How far apart pods may be, nearest first. kHost is the node itself, kZone is where bytes may be.
enum class Level : std::uint8_t { kHost, kNvlink, kRack, kBlock, kZone, kCluster };
inline constexpr std::size_t kLevels = 6;

// Whether and how a GPU can be cut. The tables are in scheduler/mig.h.
enum class MigGeometry : std::uint8_t { kNone, kA100, kH100 };
enum class MigProfile : std::uint8_t { kWhole, k1g, k1gDouble, k2g, k3g, k4g, k7g };

// Nodes that are alike in everything but place and use.
struct NodeClass {
  std::string name;
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  Index gpu_flavor = kAbsent;  // The model of its GPUs, all alike; kAbsent: no GPU.
  std::uint32_t gpus = 0;
  std::int64_t gpu_memory = 0;  // MiB each.
  MigGeometry mig = MigGeometry::kNone;
  std::uint64_t labels = 0;  // A bit per label.
  // Sets of GPUs that are near each other (NVLink island, PCIe switch), smallest first. Pods get
  // their GPUs out of the smallest set that has enough.
  std::vector<std::uint16_t> gpu_islands;
  std::uint32_t numa_nodes = 1;
  std::array<std::uint16_t, kMaxNumaNodes> numa_gpus{};  // Which GPUs hang on which.
  std::int64_t watts_per_gpu = 0;
  std::int64_t price_per_gpu_hour = 0;  // Millionths.
  std::int64_t price_per_core_hour = 0;
};

enum class NodeHealth : std::uint8_t { kUp, kHot, kCordoned, kDown };

struct Node {
  Index node_class = 0;
  Index zone = 0;  // Where its bytes are: position in Snapshot::zones.
  std::array<Index, 3>
      domain{};  // NVLink domain, rack, block: dense numbers, each within the next.
  // Only kUp gets new pods; what runs goes on while it is kHot or kCordoned. On kDown nothing runs.
  NodeHealth health = NodeHealth::kUp;
  Timestamp drain_at = Timestamp::max();  // Begin of the next maintenance window.
  std::int64_t power_cap = kUnlimited;    // Watts for its GPUs together.
};

struct Quota {
  Index flavor = 0;
  std::int64_t nominal = 0;          // Its own.
  std::int64_t borrow = kUnlimited;  // At most this much beyond its own, from the cohort.
  std::int64_t lend = kUnlimited;    // At most this much of its own to the cohort.
};

// What may be spent in a window of time. Charged when a job is admitted, by its predicted p90.
enum class AllowanceKind : std::uint8_t { kGpuSeconds, kMoney, kEnergy };
struct Allowance {
  AllowanceKind kind = AllowanceKind::kGpuSeconds;
  std::int64_t limit = 0;  // Milli-GPU-seconds, millionths, or watt-seconds.
  std::int64_t spent = 0;  // In this window so far.
  Timestamp window_end;    // When the next window begins.
};

enum class Reclaim : std::uint8_t { kNever, kLowerPriority, kAny };
// kSubmittedLater: a lower priority, or the same and submitted later.
enum class WithinQueue : std::uint8_t { kNever, kLowerPriority, kSubmittedLater };

struct Queue {
  std::string name;
  Index parent = kAbsent;  // A smaller position than its own. Queues below one parent are a cohort.
  std::vector<Quota> quotas;   // A flavor that is not listed has nominal 0.
  std::int64_t weight = 1000;  // Its part of what is shared, in thousandths.
  // What its own jobs used of each flavor, in unit-seconds, halved per half-life (quota.h). Flavors
  // past its end: nothing.
  std::vector<std::int64_t> decayed_use;
  Reclaim reclaim = Reclaim::kAny;  // Whom its jobs may push out of other queues, by any right.
  WithinQueue within = WithinQueue::kLowerPriority;
  Duration min_run = Duration{};  // Its jobs run at least so long between preemptions.
  std::vector<Allowance> allowances;
};

struct GpuRequest {
  std::uint32_t count = 0;              // Per pod.
  std::int64_t fraction = 1000;         // Milli of one GPU, if count is 1; else 1000.
  MigProfile mig = MigProfile::kWhole;  // Or an instance, if count is 1.
  std::int64_t memory = 0;              // MiB that each GPU (or instance) has at least.
  std::vector<Index> models;            // Flavors, best first.
};

// Pods that are alike.
struct TaskGroup {
  std::uint32_t min = 1;  // All of them start together or none does.
  std::uint32_t max = 1;  // It may grow up to this.
  std::int64_t cpu = 0;   // Per pod.
  std::int64_t memory = 0;
  GpuRequest gpu;
  std::uint32_t max_per_node = kAbsent;  // Anti-affinity with its own kind.
  std::uint8_t one_numa_node = 0;        // 1: its processors and GPUs from one NUMA node.
};

// What a job asks for. Jobs that ask for the same share a shape: placement is then tried once.
struct Shape {
  std::vector<TaskGroup> groups;
  Level required = Level::kCluster;   // All pods within one domain of this level.
  Level preferred = Level::kCluster;  // … if it can be had; nearer ones are tried first anyway.
  // Where each dataset, checkpoint and log it touches may be: a bit per zone. A node must be in
  // all.
  std::vector<std::uint64_t> data_zones;
  std::uint64_t labels_required = 0;
  std::uint64_t labels_forbidden = 0;
  // Affinity among jobs on one node: what it is, whom it must not meet, whom it must.
  std::uint64_t tags = 0;
  std::uint64_t avoids = 0;
  std::uint64_t needs = 0;
};

// Where one pod is.
struct PodPlacement {
  Index node = kAbsent;
  std::uint16_t gpus = 0;         // Which devices.
  std::uint8_t numa = 0xff;       // 0xff: not bound.
  std::uint8_t mig_start = 0xff;  // First memory slice of its instance; 0xff: no instance.
  auto operator<=>(const PodPlacement&) const = default;
};

// Where a job is: the pods of group 0, then of group 1, …
struct Placement {
  std::vector<std::uint32_t> counts;  // Pods per group.
  std::vector<PodPlacement> pods;
  bool operator==(const Placement&) const = default;
};

enum class JobState : std::uint8_t {
  kPending,  // Waits.
  kClaimed,  // Waits for its victims to leave: `placement` is kept free for it.
  kRunning,
  kStopping,  // Told to leave; still holds `placement`.
};

struct Job {
  std::uint64_t id = 0;  // Never 0, unique; the last tie-breaker of every order.
  Index queue = 0;
  Index shape = 0;
  JobState state = JobState::kPending;
  std::int32_t priority = 0;  // Higher goes first.
  Timestamp submitted;
  Timestamp started = Timestamp::min();  // Of this attempt.
  Timestamp deadline = Timestamp::max();
  // What a predictor says about the remaining run time, given how long it has run. Zero: unknown.
  Duration remaining_p50;
  Duration remaining_p90;
  Duration max_run = Duration::max();       // Remaining until it is stopped.
  std::int64_t attained = 0;                // GPU-seconds so far (core-seconds without GPU).
  Timestamp checkpoint = Timestamp::min();  // Last complete one, or when this attempt began.
  Duration restart_cost;                    // To be where the checkpoint is.
  std::int64_t spent = 0;                   // Millionths.
  std::int64_t cost_cap = kUnlimited;
  std::uint32_t unmet_dependencies = 0;
  Index array = kAbsent;  // Position in Snapshot::arrays.
  Placement placement;    // Unless kPending.
};

// Jobs of one array: at most so many at a time.
struct JobArray {
  std::uint32_t max_running = kAbsent;
};

struct Snapshot {
  std::uint64_t epoch = 0;
  std::vector<Flavor> flavors;
  std::vector<std::string> zones;  // At most 64.
  std::vector<NodeClass> classes;
  std::vector<Node> nodes;
  std::vector<Queue> queues;
  std::vector<Shape> shapes;
  std::vector<JobArray> arrays;
  std::vector<Job> jobs;  // Pending ones in any order; no finished ones.
};

// What the words above mean, for everybody who reads a snapshot.

// Calls f(group, pod, how many pods of its group stand before it).
template <class F>
void for_each_pod(const Shape& shape, const Placement& placement, F f) {
  std::size_t at = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    for (std::uint32_t i = 0; i < placement.counts[g]; ++i) {
      f(shape.groups[g], placement.pods[at++], i);
    }
  }
}
// Which domain of the level a node is in; `position` is its own.
Index domain_of(const Node& node, Index position, Level level);
// The queue itself, its parent, …, and at last the root of its tree.
std::vector<Index> ancestors(const Snapshot& snapshot, Index queue);
// The root of a tree has nobody to borrow from.
Quota quota_of(const Snapshot& snapshot, Index queue, Index flavor);
// Whether a queue of the same tree mentions the flavor: if none does, it is not counted there.
bool is_counted(const Snapshot& snapshot, Index queue, Index flavor);

// kInvalidArgument names the first thing that is not well formed: an index out of range, a
// placement that does not match its shape, a negative amount, queues above one another too deep.
// Cost: one pass.
Status check(const Snapshot& snapshot);

}  // namespace falaj::scheduler
