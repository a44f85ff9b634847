#include "scheduler/explain.h"

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "scheduler/parallel.h"

namespace falaj::scheduler {
namespace {

// What of a flavor is free on nodes that the shape may use, in units of quota.
std::int64_t free_units(const Cycle& cycle, const Gang& gang, Index flavor) {
  std::int64_t sum = 0;
  for (Index i = 0; i < cycle.snapshot.nodes.size(); ++i) {
    const Node& node = cycle.snapshot.nodes[i];
    if ((gang.rules->zones >> node.zone & 1U) == 0 || !open_until(node, gang.end)) continue;
    const NodeClass& c = cycle.snapshot.classes[node.node_class];
    const NodeState& state = cycle.board.both().at(i);
    if (flavor == kCpu) {
      sum += std::max<std::int64_t>(0, state.cpu);
    } else if (flavor == kMemory) {
      sum += std::max<std::int64_t>(0, state.memory);
    } else if (c.gpu_flavor == flavor) {
      sum += 1000 * std::popcount(state.whole);
    }
  }
  return sum;
}

// The flavor by which a shape is measured: its first GPU model, else processors.
Index main_flavor(const Shape& shape) {
  for (const TaskGroup& group : shape.groups) {
    if (group.gpu.count > 0 && group.min > 0) return group.gpu.models[0];
  }
  return kCpu;
}

bool waits_its_turn(ReasonCode code) {
  switch (code) {
    case ReasonCode::kQuota:
    case ReasonCode::kCapacity:
    case ReasonCode::kFragmented:
    case ReasonCode::kReserved:
    case ReasonCode::kFifo:
    case ReasonCode::kArrayLimit:
    case ReasonCode::kNotTried:
      return true;
    default:
      return false;
  }
}

// How much of one flavor has come free by when.
class Curve {
 public:
  void add(Timestamp at, std::int64_t amount) { points_.push_back({at, amount}); }
  void finish() {
    std::sort(points_.begin(), points_.end());
    std::int64_t sum = 0;
    for (auto& point : points_) point.second = sum += point.second;
  }
  // When `amount` has come free. Beyond what runs now, the curve repeats itself.
  Timestamp when(std::int64_t amount, Timestamp now) const {
    if (amount <= 0) return now;
    if (points_.empty() || points_.back().second <= 0) return Timestamp::max();
    const std::int64_t all = points_.back().second;
    const std::int64_t rounds = (amount - 1) / all;
    const auto it = std::lower_bound(
        points_.begin(), points_.end(), amount - rounds * all,
        [](const auto& point, std::int64_t wanted) { return point.second < wanted; });
    const std::int64_t round = std::max<std::int64_t>(0, (points_.back().first - now).nanos);
    return it->first + Duration{scaled(round, rounds, 1)};
  }

 private:
  std::vector<std::pair<Timestamp, std::int64_t>> points_;
};

struct Curves {
  std::vector<Curve> middle;  // Per flavor.
  std::vector<Curve> upper;
  std::vector<std::int64_t> free;
  QuotaUse unused;  // Nobody runs.
};

void add_job(const Cycle& cycle, Index job, const Placement& placement, Curves& curves) {
  const Amounts amounts = placed_amounts(cycle.snapshot, cycle.shape(job), placement);
  const Timestamp middle = cycle.now + middle_run(cycle.snapshot.jobs[job], cycle.policy);
  const Timestamp upper = cycle.board.end_of(job);
  for (std::size_t f = 0; f < cycle.snapshot.flavors.size(); ++f) {
    if (amounts[f] == 0) continue;
    curves.middle[f].add(middle, amounts[f]);
    curves.upper[f].add(upper, amounts[f]);
  }
}

Curves make_curves(const Cycle& cycle) {
  const std::size_t flavors = cycle.snapshot.flavors.size();
  Curves curves{std::vector<Curve>(flavors), std::vector<Curve>(flavors),
                std::vector<std::int64_t>(flavors, 0), QuotaUse(cycle.board.tree())};
  for (Index i = 0; i < cycle.snapshot.jobs.size(); ++i) {
    if (cycle.snapshot.jobs[i].state == JobState::kRunning && cycle.leaving[i] == 0) {
      add_job(cycle, i, cycle.placement(i), curves);
    }
  }
  for (const Admit& admit : cycle.out.admit) add_job(cycle, admit.job, admit.placement, curves);
  for (std::size_t f = 0; f < flavors; ++f) {
    curves.middle[f].finish();
    curves.upper[f].finish();
  }
  for (Index i = 0; i < cycle.snapshot.nodes.size(); ++i) {
    if (cycle.snapshot.nodes[i].health != NodeHealth::kUp) continue;
    const NodeClass& c = cycle.snapshot.classes[cycle.snapshot.nodes[i].node_class];
    const NodeState& state = cycle.board.later().at(i);
    curves.free[kCpu] += std::max<std::int64_t>(0, state.cpu);
    curves.free[kMemory] += std::max<std::int64_t>(0, state.memory);
    if (c.gpus > 0) curves.free[c.gpu_flavor] += 1000 * std::popcount(state.whole);
  }
  return curves;
}

void fill_in(const Cycle& cycle, const Curves& curves, std::int64_t ahead, Hold& hold) {
  Reason& reason = hold.reason;
  const Job& job = cycle.snapshot.jobs[hold.job];
  reason.earliest = cycle.now;
  reason.latest = Timestamp::max();
  if (reason.code == ReasonCode::kVictimsLeaving) {
    reason.latest = cycle.now + cycle.policy.preemption.grace;
  } else if (reason.code == ReasonCode::kBudget) {
    const Queue& queue = cycle.snapshot.queues[reason.subject];
    reason.earliest = reason.latest = queue.allowances[reason.flavor].window_end;
  } else if (waits_its_turn(reason.code)) {
    const Shape& shape = cycle.shape(hold.job);
    const Amounts request = core_request(shape, 0);
    if (curves.unused.shortage(job.queue, request).queue != kAbsent) return;
    const Index flavor = main_flavor(shape);
    const std::int64_t free = curves.free[flavor];
    reason.earliest = curves.middle[flavor].when(request[flavor] - free, cycle.now);
    reason.latest = curves.upper[flavor].when(ahead + request[flavor] - free, cycle.now);
    reason.latest = std::max(reason.latest, reason.earliest);
  }
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
    gang.any_health = 1;
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

void forecast(Cycle& cycle, const std::vector<Index>& order) {
  const Curves curves = make_curves(cycle);
  std::vector<Index> hold_of(cycle.snapshot.jobs.size(), kAbsent);
  for (std::size_t i = 0; i < cycle.out.hold.size(); ++i) {
    hold_of[cycle.out.hold[i].job] = static_cast<Index>(i);
  }
  // What those before it in the order ask for, of its own main flavor.
  std::vector<std::int64_t> asked(cycle.snapshot.flavors.size(), 0);
  std::vector<std::int64_t> ahead(cycle.out.hold.size(), 0);
  std::vector<std::int64_t> amount(cycle.snapshot.shapes.size(), 0);
  std::vector<Index> flavor(cycle.snapshot.shapes.size(), 0);
  for (std::size_t s = 0; s < amount.size(); ++s) {
    flavor[s] = main_flavor(cycle.snapshot.shapes[s]);
    amount[s] = core_request(cycle.snapshot.shapes[s], 0)[flavor[s]];
  }
  for (const Index job : order) {
    if (hold_of[job] == kAbsent) continue;
    const Index shape = cycle.snapshot.jobs[job].shape;
    ahead[hold_of[job]] = asked[flavor[shape]];
    if (waits_its_turn(cycle.out.hold[hold_of[job]].reason.code)) {
      asked[flavor[shape]] += amount[shape];
    }
  }
  in_parallel(cycle.budget.threads, cycle.out.hold.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) fill_in(cycle, curves, ahead[i], cycle.out.hold[i]);
  });
  for (const Reserve& reserve : cycle.out.reserve) {
    if (reserve.kind != ReserveKind::kForecast) continue;
    Reason& reason = cycle.out.hold[hold_of[reserve.job]].reason;
    reason.latest = std::max(reserve.from, cycle.now);
    reason.earliest = std::min(reason.earliest, reason.latest);
  }
}

std::string to_text(const Snapshot& snapshot, const Reason& reason, Timestamp now) {
  std::string text(to_string(reason.code));
  if (reason.code == ReasonCode::kBudget) {
    text += ": queue " + snapshot.queues[reason.subject].name + " lacks " +
            std::to_string(reason.missing) + " units";
  } else if (reason.code == ReasonCode::kQuota) {
    text += ": queue " + snapshot.queues[reason.subject].name + " lacks " +
            amount_text(snapshot, reason.flavor, reason.missing);
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
  constexpr std::int64_t kMinute = 60'000'000'000;
  const auto minutes = [&](Timestamp t) {
    return Duration::minutes(((t - now).nanos + kMinute - 1) / kMinute);
  };
  return text + "; starts in " + falaj::to_string(minutes(reason.earliest)) + " to " +
         falaj::to_string(minutes(reason.latest));
}

}  // namespace falaj::scheduler
