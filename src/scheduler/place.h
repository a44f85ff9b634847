// scheduler/place.h — a place for a whole gang: in the smallest domain that has room, on the nodes
// where it leaves the least that nobody else can use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/fleet.h"
#include "scheduler/rules.h"
#include "scheduler/snapshot.h"
#include "scheduler/topology.h"

namespace falaj::scheduler {

// What is free everywhere at one moment, with an index from "how much is free" to nodes, so that a
// pod is placed without looking at ten thousand of them.
class Site {
 public:
  explicit Site(const Snapshot& snapshot);

  const NodeState& at(Index node) const { return states_[node]; }
  void set(Index node, const NodeState& state);
  const std::vector<NodeState>& states() const { return states_; }

  // Nodes of a class by key: GPUs that are wholly free, or the binary magnitude of the free
  // processors of a class without GPU. In no particular, but always the same order.
  std::span<const Index> bucket(Index node_class, std::uint32_t key) const {
    return buckets_[node_class * kKeys + key];
  }
  // Nodes with a GPU that is shared or cut and not full.
  std::span<const Index> shared(Index node_class) const { return shared_[node_class]; }
  // Wholly free GPUs, and free processors, in a domain of kNvlink, kRack, kBlock or kZone.
  std::int64_t free_gpus(Level level, std::size_t domain) const {
    return gpus_[static_cast<std::size_t>(level)][domain];
  }
  std::int64_t free_cpu(Level level, std::size_t domain) const {
    return cpu_[static_cast<std::size_t>(level)][domain];
  }
  static constexpr std::uint32_t kKeys = 48;
  std::uint32_t key_of(const NodeState& state, const NodeClass& node_class) const;

 private:
  void account(Index node, std::int64_t sign);
  void insert(std::vector<Index>& list, Index node, std::vector<Index>& position);
  void remove(std::vector<Index>& list, Index node, std::vector<Index>& position);

  const Snapshot& snapshot_;
  std::vector<NodeState> states_;
  std::vector<std::vector<Index>> buckets_;
  std::vector<std::vector<Index>> shared_;
  std::vector<Index> position_;
  std::vector<Index> shared_position_;
  std::array<std::vector<std::int64_t>, kLevels> gpus_;
  std::array<std::vector<std::int64_t>, kLevels> cpu_;
};

// A gang that wants a place.
struct Gang {
  const Shape* shape = nullptr;
  const ShapeRules* rules = nullptr;
  std::uint32_t choice = 0;
  std::vector<std::uint32_t> counts;  // Pods per group.
  Timestamp end;                      // It probably runs until then,
  Timestamp gone;                     // … and for certain not after this: for drains.
  // For saying what would help: as if hot nodes had cooled down, or every node were up.
  enum class Doors : std::uint8_t { kAsTheyAre, kHotToo, kAll };
  Doors doors = Doors::kAsTheyAre;
};

// What narrows a node further, such as reservations that the gang would delay: the state to use
// instead of the given one. Empty: nothing does.
using Narrow = std::function<const NodeState*(Index node, const NodeState& state)>;

struct Placed {
  std::optional<Placement> placement;
  std::uint64_t most_pods = 0;  // Without a place: how many would have fitted in the best domain.
};

class Placer {
 public:
  Placer(const Snapshot& snapshot, const Topology& topology);

  // Looks only; changes nothing. Cost: a few microseconds for a pod or a gang on one host, a scan
  // of the domain's nodes otherwise.
  Placed place(const Site& site, const Gang& gang, const Narrow& narrow = {});

 private:
  struct Candidate {
    std::uint32_t fits;
    std::int64_t left;  // GPUs, then processors, that stay free beside the pods.
    Index node;
  };

  bool usable(const Gang& gang, std::size_t group, Index node) const;
  const NodeState& state(const Site& site, const Narrow& narrow, Index node);
  NodeState& scratch(const Site& site, const Narrow& narrow, Index node);
  void forget();

  std::optional<PodPlacement> one_pod(const Site& site, const Gang& gang, const Narrow& narrow,
                                      std::size_t group);
  std::optional<PodPlacement> try_node(const Site& site, const Gang& gang, const Narrow& narrow,
                                       std::size_t group, Index node);
  bool on_one_host(const Site& site, const Gang& gang, const Narrow& narrow, Placed& placed);
  bool in_domains(const Site& site, const Gang& gang, const Narrow& narrow, Level level,
                  Placed& placed);
  bool fill(const Site& site, const Gang& gang, const Narrow& narrow, std::span<const Index> nodes,
            Placed& placed);
  std::uint32_t fill_group(const Site& site, const Gang& gang, const Narrow& narrow,
                           std::size_t group, std::span<const Index> nodes,
                           std::vector<PodPlacement>& pods);

  const Snapshot& snapshot_;
  const Topology& topology_;
  std::vector<Index> slot_;  // Into overlay_, per node.
  std::vector<NodeState> overlay_;
  std::vector<Index> touched_;
  std::vector<Candidate> candidates_;
};

}  // namespace falaj::scheduler
