// scheduler/simulate/cluster.h — which GPUs of a simulated fleet are free, and where a gang fits.
//
// The rule of placement is the one that every policy here shares, so that they differ by policy
// alone: a job that fits into one node runs on one node, on the fullest that has room; a larger one
// takes whole empty nodes of the largest size. Not thread-safe; a copy is a snapshot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace falaj::scheduler::simulate {

// Nodes that are alike. Money is in millionths, as everywhere.
struct NodeGroup {
  std::int32_t nodes = 1;
  std::int32_t gpus = 8;  // Of each node.
  std::string model = "gpu";
  std::int64_t micros_per_gpu_hour = 2'000'000;
  std::int32_t busy_watts = 300;  // Of each GPU, with its share of the host.
  std::int32_t idle_watts = 60;
  bool operator==(const NodeGroup&) const = default;
};

struct FleetSpec {
  std::vector<NodeGroup> groups;
  std::int64_t gpus() const;
  std::int64_t nodes() const;
};

// {groups: [{nodes: 60, gpus: 8, model: v100, price_per_gpu_hour: 2.0, busy_watts: 300, idle_watts:
// 60}]}; refuses unknown fields, more than 100 000 nodes or 16 GPUs a node.
Result<FleetSpec> decode_fleet(const Value& value);

struct Slot {
  std::int32_t node = 0;
  std::int32_t gpus = 0;
  bool operator==(const Slot&) const = default;
};
using Slots = std::vector<Slot>;

class Cluster {
 public:
  explicit Cluster(const FleetSpec& fleet);

  // Where a gang of `gpus` goes by the rule above; empty when it does not fit now. O(1) on one
  // node, O(nodes taken) on several.
  Slots find(std::int32_t gpus) const;
  bool fits(std::int32_t gpus) const;
  // True when an empty fleet would hold it.
  bool could_ever_fit(std::int32_t gpus) const;

  void take(const Slots& placement);  // Stops the process when the GPUs are not free.
  void give_back(const Slots& placement);
  // A node that is down has no free GPUs; what ran on it has been given back before.
  void set_down(std::int32_t node);
  void set_up(std::int32_t node);

  std::int32_t node_count() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t free(std::int32_t node) const { return free_[index(node)]; }
  std::int32_t size(std::int32_t node) const { return size_[index(node)]; }
  std::int32_t node_size_max() const { return node_size_max_; }
  // Nodes that a gang larger than one node takes.
  std::int32_t nodes_for(std::int32_t gpus) const {
    return (gpus + node_size_max_ - 1) / node_size_max_;
  }
  bool is_up(std::int32_t node) const { return up_[index(node)] != 0; }
  std::int64_t free_total() const { return free_total_; }
  std::int64_t total() const { return total_; }
  // Free GPUs on nodes that are partly in use.
  std::int64_t scattered() const { return free_total_ - whole_free_; }

 private:
  static std::size_t index(std::int32_t n) { return static_cast<std::size_t>(n); }
  void set_free(std::int32_t node, std::int32_t gpus);

  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> size_;
  std::vector<char> up_;
  std::vector<std::vector<std::int32_t>> by_free_;  // Nodes with so many free GPUs.
  std::vector<std::int32_t> at_;                    // A node's place in its list.
  std::int64_t whole_free_ = 0;                     // GPUs of nodes that are wholly free.
  std::int32_t node_size_max_ = 0;
  std::int32_t largest_nodes_ = 0;
  std::int64_t free_total_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace falaj::scheduler::simulate
