#include "scheduler/explain.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/units.h"
#include "scheduler/forecast.h"

namespace falaj::scheduler {
namespace {

// Milli-GPUs that are free for such a pod: of a GPU that is in use already nothing, or for a part
// what those who cut it the same way have left.
std::int64_t free_milli(const NodeState& state, const NodeClass& c, const GpuRequest& gpu) {
  std::int64_t sum = 1000 * std::popcount(state.whole);
  const bool instance = gpu.mig != MigProfile::kWhole;
  if (!instance && gpu.fraction == 1000) return sum;
  for (std::uint32_t d = 0; d < c.gpus; ++d) {
    if (instance && state.slices[d] != 0) sum += 125 * (8 - std::popcount(state.slices[d]));
    if (!instance && state.milli[d] != 0) sum += std::max(0, 1000 - state.milli[d]);
  }
  return sum;
}

// The first of the groups that want GPUs.
const GpuRequest& gpu_of(const Shape& shape) {
  const auto found = std::find_if(shape.groups.begin(), shape.groups.end(),
                                  [](const TaskGroup& group) { return group.gpu.count > 0; });
  return found == shape.groups.end() ? shape.groups.front().gpu : found->gpu;
}

// What of a flavor is free on nodes that the shape may use, in units of quota.
std::int64_t free_units(const Cycle& cycle, const Gang& gang, Index flavor) {
  std::int64_t sum = 0;
  for (Index i = 0; i < cycle.snapshot.nodes.size(); ++i) {
    const Node& node = cycle.snapshot.nodes[i];
    if ((gang.rules->zones >> node.zone & 1U) == 0 || !open_until(node, gang.gone)) continue;
    const NodeClass& c = cycle.snapshot.classes[node.node_class];
    const NodeState& state = cycle.board.both().at(i);
    if (flavor == kCpu) {
      sum += std::max<std::int64_t>(0, state.cpu);
    } else if (flavor == kMemory) {
      sum += std::max<std::int64_t>(0, state.memory);
    } else if (c.gpu_flavor == flavor) {
      sum += free_milli(state, c, gpu_of(*gang.shape));
    }
  }
  return sum;
}

std::string amount_text(const Snapshot& snapshot, Index flavor, std::int64_t amount) {
  if (flavor == kAbsent) return std::to_string(amount);
  if (flavor == kMemory) return std::to_string(amount) + " MiB of memory";
  const std::string part = std::to_string(1000 + amount % 1000).substr(1);
  return std::to_string(amount / 1000) + (amount % 1000 == 0 ? "" : "." + part) + " of " +
         snapshot.flavors[flavor].name;
}

}  // namespace

Reason capacity_reason(Cycle& cycle, Index job, const Placed& placed) {
  const Shape& shape = cycle.shape(job);
  Reason reason;
  reason.level = shape.required;
  const Site& empty = cycle.empty_site();
  Gang gang = cycle.gang(job, 0);
  const auto fits = [&](const Site& site) {
    for (gang.choice = 0; gang.choice < gang.rules->choices; ++gang.choice) {
      if (cycle.placer.place(site, gang).placement) return true;
    }
    return false;
  };
  if (!fits(empty)) {
    gang.doors = Gang::Doors::kHotToo;
    reason.code = ReasonCode::kHot;
    if (fits(empty)) return reason;
    gang.doors = Gang::Doors::kAll;
    reason.code = fits(empty) ? ReasonCode::kMaintenance : ReasonCode::kTooLarge;
    return reason;
  }
  const Amounts request = core_request(shape, 0);
  for (Index f = 0; f < cycle.snapshot.flavors.size(); ++f) {
    if (request[f] == 0) continue;
    const std::int64_t free = free_units(cycle, gang, f);
    if (free >= request[f]) continue;
    reason.code = ReasonCode::kCapacity;
    reason.flavor = f;
    reason.missing = request[f] - free;
    return reason;
  }
  if (!cycle.board.promises().empty() && fits(cycle.board.both())) {
    reason.code = ReasonCode::kReserved;
    reason.subject = cycle.board.promises().front().job;
    return reason;
  }
  std::uint64_t pods = 0;
  for (const TaskGroup& group : shape.groups) pods += group.min;
  reason.code = ReasonCode::kFragmented;
  reason.flavor = main_flavor(shape);
  reason.missing = static_cast<std::int64_t>(pods - std::min(pods, placed.most_pods));
  return reason;
}

std::string to_text(const Snapshot& snapshot, const Reason& reason, Timestamp now) {
  std::string text(to_string(reason.code));
  if (reason.code == ReasonCode::kBudget) {
    text += ": queue " + snapshot.queues[reason.subject].name + " lacks " +
            std::to_string(reason.missing + reason.ahead) + " units";
  } else if (reason.code == ReasonCode::kQuota) {
    text += ": queue " + snapshot.queues[reason.subject].name + " lacks " +
            amount_text(snapshot, reason.flavor, reason.missing + reason.ahead);
  } else if (reason.code == ReasonCode::kCapacity) {
    text += ": " + amount_text(snapshot, reason.flavor, reason.missing) + " more must be free";
  } else if (reason.code == ReasonCode::kFragmented) {
    text += ": room for " + std::to_string(reason.missing) + " more pods must be free together";
  } else if (reason.code == ReasonCode::kReserved || reason.code == ReasonCode::kFifo) {
    text += ": job " + std::to_string(snapshot.jobs[reason.subject].id) + " goes first";
  } else if (reason.missing > 0) {
    text += ": " + std::to_string(reason.missing);
  }
  if (reason.latest == Timestamp::max()) return text + "; does not start without a change";
  return text + "; starts in " + span_text(reason.earliest - now, Round::kDown) + " to " +
         span_text(reason.latest - now, Round::kUp);
}

std::string span_text(Duration span, Round round) {
  struct Unit {
    std::int64_t seconds;
    char name;
  };
  constexpr std::array<Unit, 4> kUnits{{{86'400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}}};
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto cut = [&](std::int64_t amount, std::int64_t unit) {
    return (amount / unit + (round == Round::kUp && amount % unit != 0 ? 1 : 0)) * unit;
  };
  std::int64_t left = cut(std::max<std::int64_t>(0, span.nanos), kSecond) / kSecond;
  const auto largest = [&] {
    std::size_t at = 0;
    while (at + 1 < kUnits.size() && left < kUnits[at].seconds) ++at;
    return at;
  };
  // Rounding up may reach the next larger unit: 59m60s is 1h.
  left = cut(left, kUnits[std::min(largest() + 1, kUnits.size() - 1)].seconds);
  std::string text;
  for (std::size_t at = largest(); at < kUnits.size() && left > 0; ++at) {
    const std::int64_t count = left / kUnits[at].seconds;
    if (count > 0) text += std::to_string(count) + kUnits[at].name;
    left -= count * kUnits[at].seconds;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace falaj::scheduler
