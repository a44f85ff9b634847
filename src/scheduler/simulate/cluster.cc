#include "scheduler/simulate/cluster.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/decode.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int64_t kNodesMax = 100'000;
constexpr std::int64_t kGpusPerNodeMax = 16;  // scheduler::kMaxDevices, which decide() is made for.
constexpr double kPriceMax = 10'000;

Result<NodeGroup> decode_group(const Value& value, const std::string& where) {
  Fields fields(value, where);
  NodeGroup group;
  group.nodes = static_cast<std::int32_t>(FALAJ_TRY(fields.integer("nodes", 1, 1, kNodesMax)));
  group.gpus = static_cast<std::int32_t>(FALAJ_TRY(fields.integer("gpus", 8, 1, kGpusPerNodeMax)));
  group.model = FALAJ_TRY(fields.text("model", group.model));
  const double price = FALAJ_TRY(fields.number("price_per_gpu_hour", 2.0));
  if (!(price >= 0 && price <= kPriceMax)) {
    return Error{ErrorId::kOutOfRange, where + ": price_per_gpu_hour is not in [0, 10000]"};
  }
  group.micros_per_gpu_hour = std::llround(price * 1e6);
  group.busy_watts =
      static_cast<std::int32_t>(FALAJ_TRY(fields.integer("busy_watts", 300, 0, 5000)));
  group.idle_watts =
      static_cast<std::int32_t>(FALAJ_TRY(fields.integer("idle_watts", 60, 0, 5000)));
  FALAJ_TRY(fields.finish());
  return group;
}

}  // namespace

std::int64_t FleetSpec::gpus() const {
  std::int64_t sum = 0;
  for (const NodeGroup& group : groups) sum += std::int64_t{group.nodes} * group.gpus;
  return sum;
}

std::int64_t FleetSpec::nodes() const {
  std::int64_t sum = 0;
  for (const NodeGroup& group : groups) sum += group.nodes;
  return sum;
}

Result<FleetSpec> decode_fleet(const Value& value) {
  Fields fields(value, "fleet");
  const Value::Array groups = FALAJ_TRY(fields.list("groups"));
  FALAJ_TRY(fields.finish());
  FleetSpec fleet;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string where = "fleet groups[" + std::to_string(i) + "]";
    fleet.groups.push_back(FALAJ_TRY(decode_group(groups[i], where)));
  }
  if (fleet.nodes() < 1 || fleet.nodes() > kNodesMax) {
    return Error{ErrorId::kOutOfRange, "fleet: " + std::to_string(fleet.nodes()) +
                                           " nodes; it needs 1 to " + std::to_string(kNodesMax)};
  }
  return fleet;
}

Cluster::Cluster(const FleetSpec& fleet) {
  for (const NodeGroup& group : fleet.groups) {
    for (std::int32_t i = 0; i < group.nodes; ++i) size_.push_back(group.gpus);
    node_size_max_ = std::max(node_size_max_, group.gpus);
  }
  total_ = fleet.gpus();
  by_free_.resize(index(node_size_max_ + 1));
  largest_nodes_ =
      static_cast<std::int32_t>(std::count(size_.begin(), size_.end(), node_size_max_));
  free_.resize(size_.size());
  at_.resize(size_.size());
  up_.resize(size_.size(), 0);
  // From the last, so that the first nodes stand at the ends of their lists and are taken first.
  for (std::int32_t node = node_count() - 1; node >= 0; --node) {
    at_[index(node)] = static_cast<std::int32_t>(by_free_[0].size());
    by_free_[0].push_back(node);
  }
  for (std::int32_t node = node_count() - 1; node >= 0; --node) set_up(node);
}

void Cluster::set_free(std::int32_t node, std::int32_t gpus) {
  std::int32_t& held = free_[index(node)];
  std::vector<std::int32_t>& from = by_free_[index(held)];
  const std::int32_t place = at_[index(node)];
  from[index(place)] = from.back();
  at_[index(from[index(place)])] = place;
  from.pop_back();
  const std::int32_t whole = size_[index(node)];
  if (held == whole) whole_free_ -= whole;
  if (gpus == whole) whole_free_ += whole;
  free_total_ += gpus - held;
  held = gpus;
  std::vector<std::int32_t>& to = by_free_[index(gpus)];
  at_[index(node)] = static_cast<std::int32_t>(to.size());
  to.push_back(node);
}

Slots Cluster::find(std::int32_t gpus) const {
  if (gpus <= node_size_max_) {
    for (std::size_t room = index(gpus); room < by_free_.size(); ++room) {
      if (!by_free_[room].empty()) return {{by_free_[room].back(), gpus}};
    }
    return {};
  }
  if (!fits(gpus)) return {};
  Slots slots;
  const std::vector<std::int32_t>& whole = by_free_.back();
  for (std::int32_t i = 0; i < nodes_for(gpus); ++i) {
    slots.push_back({whole[whole.size() - 1 - index(i)], node_size_max_});
  }
  return slots;
}

bool Cluster::fits(std::int32_t gpus) const {
  if (gpus > node_size_max_) return index(nodes_for(gpus)) <= by_free_.back().size();
  return std::any_of(by_free_.begin() + gpus, by_free_.end(),
                     [](const std::vector<std::int32_t>& nodes) { return !nodes.empty(); });
}

bool Cluster::could_ever_fit(std::int32_t gpus) const {
  return gpus <= node_size_max_ || nodes_for(gpus) <= largest_nodes_;
}

void Cluster::take(const Slots& placement) {
  for (const Slot& slot : placement) {
    FALAJ_CHECK(slot.gpus > 0 && slot.gpus <= free(slot.node));
    set_free(slot.node, free(slot.node) - slot.gpus);
  }
}

void Cluster::give_back(const Slots& placement) {
  for (const Slot& slot : placement) {
    if (!is_up(slot.node)) continue;  // It has nothing until it comes back, whole.
    FALAJ_CHECK(free(slot.node) + slot.gpus <= size(slot.node));
    set_free(slot.node, free(slot.node) + slot.gpus);
  }
}

void Cluster::set_down(std::int32_t node) {
  set_free(node, 0);
  up_[index(node)] = 0;
}

void Cluster::set_up(std::int32_t node) {
  if (is_up(node)) return;
  up_[index(node)] = 1;
  set_free(node, size(node));
}

}  // namespace falaj::scheduler::simulate
