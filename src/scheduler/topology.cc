#include "scheduler/topology.h"

#include <algorithm>

namespace falaj::scheduler {

Topology::Topology(const Snapshot& snapshot) {
  const auto count = static_cast<Index>(snapshot.nodes.size());
  for (std::size_t l = 0; l < kLevels; ++l) {
    const auto level = static_cast<Level>(l);
    Index domains = level == Level::kCluster ? 1 : 0;
    for (Index i = 0; i < count; ++i) {
      domains = std::max(domains, domain_of(snapshot.nodes[i], i, level) + 1);
    }
    auto& begin = begin_[l];
    begin.assign(domains + 1, 0);
    for (Index i = 0; i < count; ++i) ++begin[domain_of(snapshot.nodes[i], i, level) + 1];
    for (Index d = 0; d < domains; ++d) begin[d + 1] += begin[d];
    nodes_[l].resize(count);
    std::vector<Index> at(begin.begin(), begin.end() - 1);
    for (Index i = 0; i < count; ++i) nodes_[l][at[domain_of(snapshot.nodes[i], i, level)]++] = i;
  }
}

}  // namespace falaj::scheduler
