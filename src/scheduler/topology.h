// scheduler/topology.h — which nodes are in which domain, level by level.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "scheduler/snapshot.h"

namespace falaj::scheduler {

class Topology {
 public:
  explicit Topology(const Snapshot& snapshot);

  std::size_t domains(Level level) const {
    return begin_[static_cast<std::size_t>(level)].size() - 1;
  }
  // By position in the snapshot.
  std::span<const Index> nodes(Level level, std::size_t domain) const {
    const auto& begin = begin_[static_cast<std::size_t>(level)];
    const auto& nodes = nodes_[static_cast<std::size_t>(level)];
    return std::span(nodes).subspan(begin[domain], begin[domain + 1] - begin[domain]);
  }

 private:
  std::array<std::vector<Index>, kLevels> begin_;
  std::array<std::vector<Index>, kLevels> nodes_;
};

}  // namespace falaj::scheduler
