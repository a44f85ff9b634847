#include <algorithm>
#include <bit>

#include "scheduler/place.h"

namespace falaj::scheduler {
namespace {

bool has_shared(const NodeState& s, const NodeClass& c) {
  for (std::uint32_t d = 0; d < c.gpus; ++d) {
    if ((s.milli[d] > 0 && s.milli[d] < 1000 && s.slices[d] == 0) ||
        (s.slices[d] != 0 && s.slices[d] != 0xff && s.milli[d] == 0)) {
      return true;
    }
  }
  return false;
}

constexpr Level kCounted[] = {Level::kNvlink, Level::kRack, Level::kBlock, Level::kZone};

}  // namespace

Site::Site(const Snapshot& snapshot) : snapshot_(snapshot) {
  const std::size_t nodes = snapshot.nodes.size();
  states_.reserve(nodes);
  buckets_.resize(snapshot.classes.size() * kKeys);
  shared_.resize(snapshot.classes.size());
  position_.assign(nodes, kAbsent);
  shared_position_.assign(nodes, kAbsent);
  for (const Level level : kCounted) {
    Index domains = 0;
    for (Index i = 0; i < nodes; ++i) {
      domains = std::max(domains, domain_of(snapshot.nodes[i], i, level) + 1);
    }
    gpus_[static_cast<std::size_t>(level)].assign(domains, 0);
    cpu_[static_cast<std::size_t>(level)].assign(domains, 0);
  }
  for (Index i = 0; i < nodes; ++i) {
    const Node& node = snapshot.nodes[i];
    const NodeClass& c = snapshot.classes[node.node_class];
    states_.push_back(empty_state(c, node.power_cap));
    insert(buckets_[node.node_class * kKeys + key_of(states_[i], c)], i, position_);
    account(i, 1);
  }
}

std::uint32_t Site::key_of(const NodeState& s, const NodeClass& c) const {
  if (c.gpus > 0) return static_cast<std::uint32_t>(std::popcount(s.whole));
  const auto cpu = static_cast<std::uint64_t>(std::max<std::int64_t>(s.cpu, 0));
  return std::min<std::uint32_t>(static_cast<std::uint32_t>(std::bit_width(cpu)), kKeys - 1);
}

void Site::set(Index node, const NodeState& next) {
  const Index kind = snapshot_.nodes[node].node_class;
  const NodeClass& c = snapshot_.classes[kind];
  const std::uint32_t from = key_of(states_[node], c);
  const std::uint32_t to = key_of(next, c);
  account(node, -1);
  states_[node] = next;
  account(node, 1);
  if (from != to) {
    remove(buckets_[kind * kKeys + from], node, position_);
    insert(buckets_[kind * kKeys + to], node, position_);
  }
  const bool listed = shared_position_[node] != kAbsent;
  if (has_shared(next, c) == listed) return;
  if (listed) {
    remove(shared_[kind], node, shared_position_);
  } else {
    insert(shared_[kind], node, shared_position_);
  }
}

void Site::account(Index node, std::int64_t sign) {
  const Node& n = snapshot_.nodes[node];
  if (n.health != NodeHealth::kUp) return;
  const NodeState& s = states_[node];
  for (const Level level : kCounted) {
    const Index domain = domain_of(n, node, level);
    gpus_[static_cast<std::size_t>(level)][domain] += sign * std::popcount(s.whole);
    cpu_[static_cast<std::size_t>(level)][domain] += sign * std::max<std::int64_t>(s.cpu, 0);
  }
}

void Site::insert(std::vector<Index>& list, Index node, std::vector<Index>& position) {
  position[node] = static_cast<Index>(list.size());
  list.push_back(node);
}

void Site::remove(std::vector<Index>& list, Index node, std::vector<Index>& position) {
  const Index at = position[node];
  list[at] = list.back();
  position[list[at]] = at;
  list.pop_back();
  position[node] = kAbsent;
}

}  // namespace falaj::scheduler
