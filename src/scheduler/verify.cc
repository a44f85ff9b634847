#include "scheduler/verify.h"

#include <algorithm>
#include <bit>
#include <set>

#include "scheduler/verify_parts.h"

namespace falaj::scheduler {
namespace verifying {

Index Case::root(Index queue) const {
  while (snapshot.queues[queue].parent != kAbsent) queue = snapshot.queues[queue].parent;
  return queue;
}

Duration Case::upper(Index job) const {
  const Job& j = snapshot.jobs[job];
  const Duration known = j.remaining_p90.nanos > 0 ? j.remaining_p90 : policy.unknown_run;
  return std::min(std::max(known, j.remaining_p50), j.max_run);
}

void Case::fail(ViolationKind kind_of, Index job, const char* what) {
  found.push_back({kind_of, "job " + std::to_string(snapshot.jobs[job].id) + ": " + what});
}

std::int64_t milli(const TaskGroup& g) {
  constexpr std::int64_t kInstance[] = {1000, 125, 250, 250, 500, 500, 1000};
  if (g.gpu.count == 0) return 0;
  return g.gpu.mig == MigProfile::kWhole ? g.gpu.fraction * g.gpu.count
                                         : kInstance[static_cast<int>(g.gpu.mig)];
}

}  // namespace verifying

namespace {

using verifying::Case;
using verifying::Holding;
using verifying::milli;

// {slices, bits of where it may begin} per profile.
constexpr int kCut[][2] = {{8, 1}, {1, 0x7f}, {2, 0x55}, {2, 0x15}, {4, 0x11}, {4, 1}, {8, 1}};

// Outcomes, gangs, places and devices.
class Checker {
 public:
  explicit Checker(Case& c) : c_(c), s_(c.snapshot), now_(c.now), d_(c.decisions) {}

  void run() {
    moments();
    if (!c_.found.empty()) return;  // The rest would only repeat it.
    for (const Index j : fresh_) place(j, *later_.at(j));
    for (const Resize& r : d_.resize) place(r.job, r.placement);
    devices(now_holding_, ViolationKind::kDevice);
    devices(later_, ViolationKind::kClaim);
    for (const Reserve& r : d_.reserve) forecast(r);
    std::vector<Index> got = fresh_;
    for (const Resize& r : d_.resize) {
      if (r.for_job == kAbsent) got.push_back(r.job);
    }
    check_quota(c_, now_holding_, got);
    check_quota(c_, later_, got);
    check_budgets(c_, later_, fresh_);
  }

 private:
  bool whole(Index j, const Placement& where) {  // All or nothing.
    bool good = where.counts.size() == c_.shape(j).groups.size();
    std::uint64_t pods = 0;
    for (std::size_t g = 0; good && g < where.counts.size(); ++g) {
      good = where.counts[g] >= c_.shape(j).groups[g].min &&
             where.counts[g] <= c_.shape(j).groups[g].max;
      pods += where.counts[g];
    }
    for (const PodPlacement& pod : where.pods) good = good && pod.node < s_.nodes.size();
    if (!good || pods != where.pods.size()) c_.fail(ViolationKind::kGang, j, "not a whole gang");
    return good && pods == where.pods.size();
  }

  void moments() {
    std::vector<int> outcomes(s_.jobs.size(), 0);
    std::set<Index> victims, released(d_.released.begin(), d_.released.end());
    std::map<Index, const Placement*> resized, claims, admitted;
    for (const Admit& a : d_.admit) ++outcomes[a.job], admitted[a.job] = &a.placement;
    for (const Hold& h : d_.hold) {
      ++outcomes[h.job];
      if (h.reason.code == ReasonCode::kNone) c_.fail(ViolationKind::kReason, h.job, "no reason");
    }
    for (const Reserve& r : d_.reserve) {
      if (admitted.contains(r.job)) c_.fail(ViolationKind::kOutcome, r.job, "starts and waits");
      if (r.kind == ReserveKind::kClaim) claims[r.job] = &r.placement;
      whole(r.job, r.placement);
    }
    for (const Preempt& v : d_.preempt) {
      const bool runs = s_.jobs[v.job].state == JobState::kRunning;
      if (!runs || !victims.insert(v.job).second)
        c_.fail(ViolationKind::kPreempt, v.job, "not running");
      if (!claims.contains(v.for_job))
        c_.fail(ViolationKind::kPreempt, v.job, "for nobody's claim");
    }
    for (const Resize& r : d_.resize) {
      const bool runs = s_.jobs[r.job].state == JobState::kRunning && !victims.contains(r.job);
      if (!runs || resized.contains(r.job))
        c_.fail(ViolationKind::kOutcome, r.job, "cannot be resized");
      resized[r.job] = &r.placement;
      whole(r.job, r.placement);
    }
    for (Index j = 0; j < s_.jobs.size(); ++j) {
      const Job& job = s_.jobs[j];
      const bool waits = job.state == JobState::kPending || job.state == JobState::kClaimed;
      if (outcomes[j] != (waits ? 1 : 0)) c_.fail(ViolationKind::kOutcome, j, "not one outcome");
      if (admitted.contains(j)) {
        if (job.unmet_dependencies > 0)
          c_.fail(ViolationKind::kOutcome, j, "dependencies are unmet");
        if (whole(j, *admitted[j])) now_holding_[j] = later_[j] = admitted[j];
        fresh_.push_back(j);
      } else if (claims.contains(j)) {
        later_[j] = claims[j];
        fresh_.push_back(j);
      } else if (job.state == JobState::kClaimed && !released.contains(j)) {
        later_[j] = &job.placement;
      } else if (!waits) {
        const Placement* after = resized.contains(j) ? resized[j] : &job.placement;
        const bool grows = after->pods.size() > job.placement.pods.size();
        now_holding_[j] = grows ? after : &job.placement;
        if (job.state == JobState::kRunning && !victims.contains(j)) later_[j] = after;
      }
    }
    std::map<Index, std::uint32_t> running;
    for (const auto& [j, where] : later_) {
      if (s_.jobs[j].array != kAbsent) ++running[s_.jobs[j].array];
    }
    for (const Index j : fresh_) {
      const Index a = s_.jobs[j].array;
      if (a != kAbsent && running[a] > s_.arrays[a].max_running) {
        c_.fail(ViolationKind::kOutcome, j, "its array has too many running");
      }
    }
  }

  Index domain(Index n, Level level) const {
    const Node& node = s_.nodes[n];
    if (level == Level::kHost) return n;
    if (level == Level::kZone) return node.zone;
    return level == Level::kCluster ? 0 : node.domain[static_cast<std::size_t>(level) - 1];
  }

  void place(Index j, const Placement& where) {
    const Shape& want = c_.shape(j);
    std::map<std::pair<const TaskGroup*, Index>, std::uint32_t> per_node;
    std::map<const TaskGroup*, Index> models;
    c_.each(j, where, [&](const TaskGroup& g, const PodPlacement& pod, std::uint32_t) {
      const auto& had = s_.jobs[j].placement.pods;
      const bool old = s_.jobs[j].state == JobState::kRunning &&
                       std::find(had.begin(), had.end(), pod) != had.end();
      if (old) return;
      const Node& node = s_.nodes[pod.node];
      const NodeClass& c = c_.kind(pod.node);
      for (const std::uint64_t zones : want.data_zones) {
        if ((zones >> node.zone & 1U) == 0)
          c_.fail(ViolationKind::kZone, j, "data in a wrong zone");
      }
      if (node.health != NodeHealth::kUp || node.drain_at < now_ + c_.upper(j)) {
        c_.fail(ViolationKind::kPlace, j, "node is closed or closes too soon");
      }
      if ((want.labels_required & ~c.labels) != 0 || (want.labels_forbidden & c.labels) != 0) {
        c_.fail(ViolationKind::kPlace, j, "labels");
      }
      if (domain(pod.node, want.required) != domain(where.pods[0].node, want.required)) {
        c_.fail(ViolationKind::kPlace, j, "topology");
      }
      if (++per_node[{&g, pod.node}] > g.max_per_node)
        c_.fail(ViolationKind::kPlace, j, "too close");
      if (g.gpu.count > 0) {
        const auto& m = g.gpu.models;
        const int part = g.gpu.mig == MigProfile::kWhole ? 8 : kCut[static_cast<int>(g.gpu.mig)][0];
        const bool fits = std::find(m.begin(), m.end(), c.gpu_flavor) != m.end() && c.gpus > 0 &&
                          c.gpu_memory * part / 8 >= g.gpu.memory &&
                          (g.gpu.mig == MigProfile::kWhole || c.mig != MigGeometry::kNone);
        if (!fits) c_.fail(ViolationKind::kDevice, j, "a device of another kind");
      }
      if ((want.tags | want.avoids | want.needs) != 0) company(j, pod.node);
    });
  }

  void company(Index j, Index node) {
    std::uint64_t tags = 0, avoids = 0;
    for (const auto& [other, where] : later_) {
      const bool here = other != j && std::any_of(where->pods.begin(), where->pods.end(),
                                                  [&](const auto& p) { return p.node == node; });
      if (here) tags |= c_.shape(other).tags, avoids |= c_.shape(other).avoids;
    }
    const Shape& want = c_.shape(j);
    if ((tags & want.avoids) != 0 || (avoids & want.tags) != 0 || (want.needs & ~tags) != 0) {
      c_.fail(ViolationKind::kPlace, j, "beside a job it must not meet, or without one it needs");
    }
  }

  // Every node that got something new, counted from nothing.
  void devices(const Holding& holding, ViolationKind what) {
    std::set<Index> touched;
    for (const Index j : fresh_) {
      if (!holding.contains(j)) continue;
      for (const PodPlacement& pod : holding.at(j)->pods) touched.insert(pod.node);
    }
    for (const Resize& r : d_.resize) {
      for (const PodPlacement& pod : r.placement.pods) touched.insert(pod.node);
    }
    count(holding, touched, what);
  }

  void count(const Holding& holding, const std::set<Index>& touched, ViolationKind what) {
    struct Use {
      std::int64_t cpu = 0, memory = 0, watts = 0;
      std::map<int, std::int64_t> numa, shared;
      std::map<int, int> slices;
      Index job = 0;
      bool bad = false;
    };
    std::map<Index, Use> uses;
    for (const auto& [j, where] : holding) {
      c_.each(j, *where, [&, j = j](const TaskGroup& g, const PodPlacement& pod, std::uint32_t) {
        if (!touched.contains(pod.node)) return;
        Use& use = uses[pod.node];
        const NodeClass& c = c_.kind(pod.node);
        use.job = j;
        use.cpu += g.cpu;
        use.memory += g.memory;
        use.watts += milli(g) * c.watts_per_gpu / 1000;
        if (pod.numa != 0xff) use.numa[pod.numa] += g.cpu;
        if (g.one_numa_node != 0 &&
            (pod.numa >= c.numa_nodes || (pod.gpus & ~c.numa_gpus[pod.numa]) != 0))
          use.bad = true;
        const bool cut = g.gpu.count > 0 && g.gpu.mig != MigProfile::kWhole;
        const int* rule = kCut[static_cast<int>(g.gpu.mig)];
        if (std::popcount(pod.gpus) != static_cast<int>(g.gpu.count) || pod.gpus >> c.gpus != 0)
          use.bad = true;
        if (cut && (pod.mig_start > 7 || (rule[1] >> pod.mig_start & 1) == 0)) use.bad = true;
        for (int d = 0; d < 16; ++d) {
          if ((pod.gpus >> d & 1) == 0) continue;
          const int bits = cut ? ((1 << rule[0]) - 1) << pod.mig_start : 0;
          if ((use.slices[d] & bits) != 0 || (use.slices[d] != 0 && !cut) ||
              (cut && use.shared[d] != 0))
            use.bad = true;
          use.slices[d] |= bits;
          if (!cut && (use.shared[d] += g.gpu.fraction) > 1000) use.bad = true;
        }
      });
    }
    for (const auto& [n, use] : uses) {
      const NodeClass& c = c_.kind(n);
      bool bad =
          use.bad || use.cpu > c.cpu || use.memory > c.memory || use.watts > s_.nodes[n].power_cap;
      for (const auto& [numa, cpu] : use.numa) bad = bad || cpu > c.cpu / c.numa_nodes;
      if (bad) c_.fail(what, use.job, "more is given than the node has");
    }
  }

  // At the promised time, the gang and all who may still run then fit together.
  void forecast(const Reserve& r) {
    if (r.kind != ReserveKind::kForecast) return;
    Holding then;
    for (const auto& [j, where] : later_) {
      if (now_ + c_.upper(j) > r.from) then[j] = where;
    }
    then[r.job] = &r.placement;
    std::set<Index> touched;
    for (const PodPlacement& pod : r.placement.pods) touched.insert(pod.node);
    count(then, touched, ViolationKind::kClaim);
  }

  Case& c_;
  const Snapshot& s_;
  Timestamp now_;
  const Decisions& d_;
  Holding now_holding_;       // Until those who were told to leave have left.
  Holding later_;             // From then on, claims included.
  std::vector<Index> fresh_;  // Who got something in these decisions.
};

}  // namespace

std::vector<Violation> verify(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                              const Decisions& decisions) {
  Case c{snapshot, policy, now, decisions, {}};
  Checker(c).run();
  return c.found.empty() ? verify_steps(snapshot, policy, now, decisions) : c.found;
}

}  // namespace falaj::scheduler
