#include "scheduler/forecast.h"

#include <algorithm>
#include <bit>
#include <map>

#include "scheduler/parallel.h"

namespace falaj::scheduler {
namespace {

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return b > 0 && a > kUnlimited - b ? kUnlimited : a + b;
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

// Whether somebody has to end before it starts, though enough seems to be free.
bool waits_for_an_end(ReasonCode code) {
  return code == ReasonCode::kCapacity || code == ReasonCode::kFragmented ||
         code == ReasonCode::kReserved;
}

// How much of one thing has come free by when.
class Curve {
 public:
  void add(Timestamp at, std::int64_t amount) { points_.push_back({at, amount}); }
  bool empty() const { return points_.empty(); }
  void finish() {
    std::sort(points_.begin(), points_.end());
    std::int64_t sum = 0;
    for (auto& point : points_) point.second = sum = plus(sum, point.second);
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
    const std::int64_t wait = plus(scaled(round, rounds, 1), (it->first - now).nanos);
    return wait >= kUnlimited - now.nanos ? Timestamp::max() : now + Duration{wait};
  }

 private:
  std::vector<std::pair<Timestamp, std::int64_t>> points_;
};

// One thing that is waited for: what is free of it, and what comes free.
struct Supply {
  Curve middle;
  Curve upper;
  std::int64_t free = 0;

  void add(Timestamp mid, Timestamp up, std::int64_t amount) {
    middle.add(mid, amount);
    upper.add(up, amount);
  }
  void finish() {
    middle.finish();
    upper.finish();
  }
};

// Somebody who will give back what it has.
struct Release {
  Index job = 0;
  Timestamp middle;
  Timestamp upper;
  Amounts amounts{};
};

std::vector<Release> releases(const Cycle& cycle) {
  std::vector<Release> list;
  const auto add = [&](Index job, const Placement& placement) {
    list.push_back({job, cycle.now + middle_run(cycle.snapshot.jobs[job], cycle.policy),
                    cycle.board.end_of(job),
                    placed_amounts(cycle.snapshot, cycle.shape(job), placement)});
  };
  const auto& released = cycle.out.released;
  for (Index i = 0; i < cycle.snapshot.jobs.size(); ++i) {
    const Job& job = cycle.snapshot.jobs[i];
    const bool runs = job.state == JobState::kRunning && cycle.leaving[i] == 0;
    const bool claims = job.state == JobState::kClaimed &&
                        std::find(released.begin(), released.end(), i) == released.end();
    if (runs || claims) add(i, cycle.placement(i));
  }
  for (const Admit& admit : cycle.out.admit) {
    if (cycle.snapshot.jobs[admit.job].state != JobState::kClaimed) {
      add(admit.job, admit.placement);
    }
  }
  for (const Reserve& reserve : cycle.out.reserve) {
    if (reserve.kind == ReserveKind::kClaim) add(reserve.job, reserve.placement);
  }
  return list;
}

// What is waited for: places on nodes, per flavor; quota, per queue and flavor that some hold
// names; places of arrays.
class Supplies {
 public:
  explicit Supplies(const Cycle& cycle)
      : cycle_(cycle),
        nodes_(cycle.snapshot.flavors.size()),
        arrays_(cycle.snapshot.arrays.size()),
        room_of_(cycle.snapshot.queues.size() * cycle.snapshot.flavors.size(), kAbsent) {
    const std::vector<Release> list = releases(cycle);
    for (const Release& each : list) {
      for (std::size_t f = 0; f < nodes_.size(); ++f) {
        if (each.amounts[f] > 0) nodes_[f].add(each.middle, each.upper, each.amounts[f]);
      }
      const Index array = cycle.snapshot.jobs[each.job].array;
      if (array != kAbsent) arrays_[array].add(each.middle, each.upper, 1);
    }
    count_free();
    for (const Hold& hold : cycle.out.hold) {
      if (hold.reason.code != ReasonCode::kQuota) continue;
      Index& slot = room_of_[key(hold.reason.subject, hold.reason.flavor)];
      if (slot != kAbsent) continue;
      slot = static_cast<Index>(rooms_.size());
      rooms_.emplace_back().free =
          cycle.board.tree().ceiling(hold.reason.subject, hold.reason.flavor) -
          cycle.board.use_later().used(hold.reason.subject, hold.reason.flavor);
    }
    if (!rooms_.empty()) {
      give_back(list, &Release::middle, &Supply::middle);
      give_back(list, &Release::upper, &Supply::upper);
    }
    for (auto* supplies : {&nodes_, &arrays_, &rooms_}) {
      for (Supply& each : *supplies) each.finish();
    }
    for (Index i = 0; i < cycle.snapshot.jobs.size(); ++i) {
      const bool stops = cycle.snapshot.jobs[i].state == JobState::kStopping;
      leaving_ = leaving_ || stops || cycle.leaving[i] != 0;
    }
  }

  const Supply& nodes(Index flavor) const { return nodes_[flavor]; }
  const Supply& room(Index queue, Index flavor) const {
    return rooms_[room_of_[key(queue, flavor)]];
  }
  const Supply& array(Index array) const { return arrays_[array]; }
  std::int64_t promised(Index flavor) const { return promised_[flavor]; }
  bool somebody_leaves() const { return leaving_; }

 private:
  std::size_t key(Index queue, Index flavor) const { return queue * nodes_.size() + flavor; }

  void count_free() {
    const Snapshot& s = cycle_.snapshot;
    for (Index i = 0; i < s.nodes.size(); ++i) {
      if (s.nodes[i].health != NodeHealth::kUp) continue;
      const NodeClass& c = s.classes[s.nodes[i].node_class];
      const NodeState& state = cycle_.board.later().at(i);
      nodes_[kCpu].free += std::max<std::int64_t>(0, state.cpu);
      nodes_[kMemory].free += std::max<std::int64_t>(0, state.memory);
      if (c.gpus > 0) nodes_[c.gpu_flavor].free += 1000 * std::popcount(state.whole);
    }
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      arrays_[a].free = std::int64_t{s.arrays[a].max_running} - cycle_.board.array_running()[a];
    }
    for (const Board::Promise& promise : cycle_.board.promises()) {
      add(promised_, placed_amounts(s, cycle_.shape(promise.job), promise.placement));
    }
  }

  // What the end of each leaves in the queues that are looked at: less than it had, where a queue
  // keeps some of its own to itself.
  void give_back(const std::vector<Release>& list, Timestamp Release::*when, Curve Supply::*curve) {
    std::vector<Index> order(list.size());
    for (Index i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](Index a, Index b) {
      return list[a].*when != list[b].*when ? list[a].*when < list[b].*when : a < b;
    });
    const QuotaTree& tree = cycle_.board.tree();
    QuotaUse use = cycle_.board.use_later();
    std::vector<std::tuple<Index, Index, Index, std::int64_t>> touched;
    for (const Index at : order) {
      const Release& each = list[at];
      touched.clear();
      const Index queue = cycle_.snapshot.jobs[each.job].queue;
      for (Index f = 0; f < nodes_.size(); ++f) {
        if (each.amounts[f] == 0) continue;
        for (Index q = queue; q != kAbsent; q = tree.parent(q)) {
          const Index slot = room_of_[key(q, f)];
          if (slot != kAbsent) touched.emplace_back(slot, q, f, use.used(q, f));
        }
      }
      use.add(queue, each.amounts, -1);
      for (const auto& [slot, q, f, before] : touched) {
        const std::int64_t freed = before - use.used(q, f);
        if (freed > 0) (rooms_[slot].*curve).add(each.*when, freed);
      }
    }
  }

  const Cycle& cycle_;
  std::vector<Supply> nodes_;
  std::vector<Supply> arrays_;
  std::vector<Supply> rooms_;
  std::vector<Index> room_of_;
  Amounts promised_{};
  bool leaving_ = false;
};

// What those before a hold ask for: of its main flavor, of the one it lacks, of what it stands in
// line for.
struct Before {
  std::int64_t main = 0;
  std::int64_t lacking = 0;
  std::int64_t in_line = 0;
};

class Forecaster {
 public:
  explicit Forecaster(Cycle& cycle) : cycle_(cycle), supplies_(cycle), unused_(cycle.board.tree()) {
    for (const Shape& shape : cycle.snapshot.shapes) requests_.push_back(core_request(shape, 0));
  }

  // Who asks for how much before whom; fills in Reason::ahead.
  void stand_in_line(const std::vector<Index>& order, const std::vector<Index>& hold_of) {
    before_.assign(cycle_.out.hold.size(), {});
    Amounts asked{};   // By all who wait for a turn …
    Amounts placed{};  // … and by those who have quota already.
    std::map<std::tuple<ReasonCode, Index, Index>, Line> lines;
    for (const Index job : order) {
      if (hold_of[job] == kAbsent) continue;
      Reason& reason = cycle_.out.hold[hold_of[job]].reason;
      Before& before = before_[hold_of[job]];
      const Amounts& request = requests_[cycle_.snapshot.jobs[job].shape];
      const bool quota = reason.code == ReasonCode::kQuota;
      before.main = (quota ? placed : asked)[main_flavor(cycle_.shape(job))];
      if (reason.code == ReasonCode::kCapacity) before.lacking = asked[reason.flavor];
      if (quota || reason.code == ReasonCode::kBudget || reason.code == ReasonCode::kArrayLimit) {
        Line& line = lines[{reason.code, reason.subject, reason.flavor}];
        before.in_line = line.wanted();
        reason.ahead = line.join(reason.missing, reason.wanted);
      }
      if (!waits_its_turn(reason.code)) continue;
      add(asked, request);
      if (!quota) add(placed, request);
    }
  }

  void fill_in(std::size_t at) {
    Hold& hold = cycle_.out.hold[at];
    Reason& reason = hold.reason;
    reason.earliest = cycle_.now;
    reason.latest = Timestamp::max();
    if (reason.code == ReasonCode::kVictimsLeaving) {
      reason.latest = cycle_.now + cycle_.policy.preemption.grace;
    } else if (reason.code == ReasonCode::kBudget) {
      const Queue& queue = cycle_.snapshot.queues[reason.subject];
      const Allowance& allowance = queue.allowances[reason.flavor];
      if (reason.wanted > allowance.limit) return;  // Nor would the next window do.
      reason.earliest = reason.latest = allowance.window_end;
    } else if (waits_its_turn(reason.code)) {
      const Job& job = cycle_.snapshot.jobs[hold.job];
      const Amounts& request = requests_[job.shape];
      if (unused_.shortage(job.queue, request).queue != kAbsent) return;
      reason.latest = cycle_.now;
      wait_for_place(reason, main_flavor(cycle_.shape(hold.job)), request, before_[at]);
      if (reason.code == ReasonCode::kQuota) {
        wait_for(supplies_.room(reason.subject, reason.flavor), reason.wanted, before_[at].in_line,
                 reason);
      } else if (reason.code == ReasonCode::kArrayLimit) {
        wait_for(supplies_.array(reason.subject), 1, before_[at].in_line, reason);
      }
      reason.latest = std::max(reason.latest, reason.earliest);
    }
  }

 private:
  void wait_for(const Supply& supply, std::int64_t wanted, std::int64_t ahead,
                Reason& reason) const {
    const Timestamp middle = supply.middle.when(wanted - supply.free, cycle_.now);
    const Timestamp upper = supply.upper.when(plus(ahead, wanted) - supply.free, cycle_.now);
    reason.earliest = std::max(reason.earliest, middle);
    reason.latest = std::max(reason.latest, upper);
  }

  void wait_for_place(Reason& reason, Index flavor, const Amounts& request,
                      const Before& before) const {
    const auto look = [&](Index f, std::int64_t ahead) {
      const Supply& nodes = supplies_.nodes(f);
      std::int64_t least = request[f] - nodes.free;
      // What is free is promised to somebody else.
      if (reason.code == ReasonCode::kReserved) least = plus(least, supplies_.promised(f));
      if (waits_for_an_end(reason.code) && !supplies_.somebody_leaves() && !nodes.middle.empty()) {
        least = std::max<std::int64_t>(least, 1);
      }
      const std::int64_t most = std::max(least, plus(ahead, request[f]) - nodes.free);
      reason.earliest = std::max(reason.earliest, nodes.middle.when(least, cycle_.now));
      reason.latest = std::max(reason.latest, nodes.upper.when(most, cycle_.now));
    };
    look(flavor, before.main);
    if (reason.code == ReasonCode::kCapacity && reason.flavor != flavor) {
      look(reason.flavor, before.lacking);
    }
  }

  Cycle& cycle_;
  const Supplies supplies_;
  const QuotaUse unused_;          // Nobody runs.
  std::vector<Amounts> requests_;  // Per shape.
  std::vector<Before> before_;     // Per hold.
};

// Who is held up by another job starts no earlier; who was promised a time starts by then.
void follow_others(Cycle& cycle, const std::vector<Index>& hold_of) {
  for (const Reserve& reserve : cycle.out.reserve) {
    if (reserve.kind != ReserveKind::kForecast) continue;
    Reason& reason = cycle.out.hold[hold_of[reserve.job]].reason;
    reason.latest = std::max(reserve.from, cycle.now);
    reason.earliest = std::min(reason.earliest, reason.latest);
  }
  for (Hold& hold : cycle.out.hold) {
    if (hold.reason.code != ReasonCode::kFifo) continue;
    const Reason& first = cycle.out.hold[hold_of[hold.reason.subject]].reason;
    hold.reason.earliest = std::max(hold.reason.earliest, first.earliest);
    hold.reason.latest = std::max(hold.reason.latest, first.latest);
  }
}

}  // namespace

Index main_flavor(const Shape& shape) {
  for (const TaskGroup& group : shape.groups) {
    if (group.gpu.count > 0 && group.min > 0) return group.gpu.models[0];
  }
  return kCpu;
}

std::int64_t Line::join(std::int64_t missing, std::int64_t wanted) {
  std::int64_t ahead = sum_;
  if (count_ == first_.size()) {
    // Who lacks no more than this one is served before it in any case.
    std::int64_t raise = missing;
    for (const Waiter& each : first_) {
      if (each.missing <= missing) raise = plus(raise, each.wanted);
    }
    while (true) {
      std::int64_t taken = 0;
      for (const Waiter& each : first_) {
        if (each.missing <= raise - taken) taken = plus(taken, each.wanted);
      }
      if (missing <= raise - taken) break;
      raise = plus(missing, taken);
    }
    ahead = raise - missing;
  }
  if (first_.size() < kLooked) first_.push_back({missing, wanted});
  ++count_;
  sum_ = plus(sum_, wanted);
  return ahead;
}

void forecast(Cycle& cycle, const std::vector<Index>& order) {
  std::vector<Index> hold_of(cycle.snapshot.jobs.size(), kAbsent);
  for (std::size_t i = 0; i < cycle.out.hold.size(); ++i) {
    hold_of[cycle.out.hold[i].job] = static_cast<Index>(i);
  }
  Forecaster forecaster(cycle);
  forecaster.stand_in_line(order, hold_of);
  in_parallel(cycle.budget.threads, cycle.out.hold.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) forecaster.fill_in(i);
  });
  follow_others(cycle, hold_of);
}

}  // namespace falaj::scheduler
