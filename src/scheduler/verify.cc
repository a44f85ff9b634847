#include "scheduler/verify.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

namespace falaj::scheduler {
namespace {

__extension__ using Wide = __int128;
using Kind = ViolationKind;
using Holding = std::map<Index, const Placement*>;  // Who holds which place at one moment.
using Sums = std::vector<std::int64_t>;

// {slices, bits of where it may begin, thousandths of the GPU} per profile.
constexpr int kCut[][3] = {{8, 1, 1000},   {1, 0x7f, 125}, {2, 0x55, 250}, {2, 0x15, 250},
                           {4, 0x11, 500}, {4, 1, 500},    {8, 1, 1000}};
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t points(std::int64_t x) {  // 1000 log2, straight between powers of two.
  if (x < 2) return 0;
  const int power = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x))) - 1;
  return 1000 * power + static_cast<std::int64_t>((Wide{x} - (Wide{1} << power)) * 1000 >> power);
}

bool cut(const TaskGroup& g) { return g.gpu.count > 0 && g.gpu.mig != MigProfile::kWhole; }
std::int64_t milli(const TaskGroup& g) {
  return cut(g) ? kCut[static_cast<int>(g.gpu.mig)][2] : g.gpu.fraction * g.gpu.count;
}

struct Verifier {
  // What a queue has of a flavor.
  struct Cell {
    std::int64_t subtree = 0, local = 0, ceiling = kUnlimited, borrow = kUnlimited;
    std::int64_t entitled = 0, asked = 0, counted = 0;
  };
  using Marks = std::array<std::set<Index>, kMaxDepth + 1>;  // Entitled per height; who runs.

  const Snapshot& s;
  const Policy& p;
  const Timestamp now;
  const Decisions& d;
  std::vector<Violation> found{};
  Holding held{}, later{};      // Until those who were told to leave have left; and from then on.
  std::vector<Index> fresh{};   // Who got something in these decisions.
  std::vector<Cell> cells{};    // Per queue and flavor.
  std::vector<Index> ranked{};  // All jobs, best first.
  std::vector<std::uint32_t> height = std::vector<std::uint32_t>(s.queues.size(), 0);
  std::vector<std::array<std::int64_t, 3>> rank{};  // Lower is better: -priority, -urgent, score.

  void need(bool good, Kind kind, Index job, const char* what) {
    if (!good) found.push_back({kind, "job " + std::to_string(s.jobs[job].id) + ": " + what});
  }
  const Shape& shape(Index job) const { return s.shapes[s.jobs[job].shape]; }
  const NodeClass& type(Index node) const { return s.classes[s.nodes[node].node_class]; }
  Cell& cell(std::size_t q, std::size_t f) { return cells[q * s.flavors.size() + f]; }
  bool runs(Index job) const { return s.jobs[job].state == JobState::kRunning; }
  std::vector<Index> up(Index q) const {
    std::vector<Index> way;
    for (; q != kAbsent; q = s.queues[q].parent) way.push_back(q);
    return way;
  }
  Duration upper(Index job) const {
    const Job& j = s.jobs[job];
    const Duration known = j.remaining_p90.nanos > 0 ? j.remaining_p90 : p.unknown_run;
    return std::min(std::max(known, j.remaining_p50), j.max_run);
  }
  template <class F>
  void each(Index job, const Placement& where, F f) const {
    for (std::size_t g = 0, at = 0; g < where.counts.size(); ++g) {
      for (std::uint32_t i = 0; i < where.counts[g]; ++i) f(shape(job).groups[g], where.pods[at++]);
    }
  }
  // What it is charged; its core is the first `min` pods of each group, by the models it has or,
  // without a place, names first.
  Sums charge(Index job, const Placement* where, bool core) const {
    Sums sums(s.flavors.size(), 0);
    std::size_t at = 0;
    for (std::size_t g = 0; g < shape(job).groups.size(); ++g) {
      const TaskGroup& group = shape(job).groups[g];
      const std::uint32_t all = where == nullptr ? group.min : where->counts[g];
      for (std::uint32_t i = 0; i < (core ? group.min : all); ++i) {
        sums[kCpu] += group.cpu, sums[kMemory] += group.memory;
        if (group.gpu.count == 0) continue;
        sums[where ? type(where->pods[at + i].node).gpu_flavor : group.gpu.models[0]] +=
            milli(group);
      }
      at += all;
    }
    return sums;
  }

  // --- Outcomes: who holds what, now and once all have left that must.
  void whole(Index job, const Placement& where) {
    bool good = where.counts.size() == shape(job).groups.size();
    std::size_t pods = 0;
    for (std::size_t g = 0; good && g < where.counts.size(); pods += where.counts[g++]) {
      const TaskGroup& group = shape(job).groups[g];
      good = where.counts[g] >= group.min && where.counts[g] <= group.max;
    }
    for (const PodPlacement& pod : where.pods) good = good && pod.node < s.nodes.size();
    need(good && pods == where.pods.size(), Kind::kGang, job, "not a whole gang");
  }
  void outcomes() {
    std::vector<int> count(s.jobs.size(), 0);
    std::set<Index> victims;
    Holding resized, claims, admitted;
    for (const Admit& a : d.admit) ++count[a.job], admitted[a.job] = &a.placement;
    for (const Hold& h : d.hold) {
      ++count[h.job];
      need(h.reason.code != ReasonCode::kNone, Kind::kReason, h.job, "no reason");
    }
    for (const Reserve& r : d.reserve) {
      need(!admitted.contains(r.job), Kind::kOutcome, r.job, "starts and waits");
      if (r.kind == ReserveKind::kClaim) claims[r.job] = &r.placement;
      whole(r.job, r.placement);
    }
    for (const Preempt& v : d.preempt) {
      need(runs(v.job) && victims.insert(v.job).second, Kind::kPreempt, v.job, "not running");
      need(claims.contains(v.for_job), Kind::kPreempt, v.job, "for nobody's claim");
    }
    for (const Resize& r : d.resize) {
      need(runs(r.job) && !victims.contains(r.job) && resized.emplace(r.job, &r.placement).second,
           Kind::kOutcome, r.job, "cannot be resized");
      whole(r.job, r.placement);
    }
    for (const auto& [job, where] : admitted) {
      need(s.jobs[job].unmet_dependencies == 0, Kind::kOutcome, job, "dependencies are unmet");
      whole(job, *where);
    }
    const std::set<Index> released(d.released.begin(), d.released.end());
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const Job& job = s.jobs[j];
      const bool waits = job.state == JobState::kPending || job.state == JobState::kClaimed;
      need(count[j] == (waits ? 1 : 0), Kind::kOutcome, j, "not one outcome");
      const bool kept = job.state == JobState::kClaimed && !released.contains(j);
      const Placement* after = resized.contains(j) ? resized[j] : &job.placement;
      if (admitted.contains(j)) held[j] = later[j] = admitted[j];
      if (!admitted.contains(j) && claims.contains(j)) later[j] = claims[j];
      if (later.contains(j)) fresh.push_back(j);
      if (kept || (runs(j) && !victims.contains(j))) later.emplace(j, after);
      if (!waits) held[j] = after->pods.size() > job.placement.pods.size() ? after : &job.placement;
    }
    std::map<Index, std::uint32_t> running;
    for (const auto& [job, where] : later) ++running[s.jobs[job].array];
    for (const Index job : fresh) {
      const Index array = s.jobs[job].array;
      need(array == kAbsent || running[array] <= s.arrays[array].max_running, Kind::kOutcome, job,
           "its array has too many running");
    }
  }

  // --- Places: may each new pod be where it is?
  Index domain(Index n, Level level) const {
    if (level == Level::kHost) return n;
    if (level == Level::kZone) return s.nodes[n].zone;
    return level == Level::kCluster ? 0 : s.nodes[n].domain[static_cast<std::size_t>(level) - 1];
  }
  void place(Index job, const Placement& where) {
    const Shape& want = shape(job);
    const auto& had = s.jobs[job].placement.pods;
    std::map<std::pair<const TaskGroup*, Index>, std::uint32_t> near;
    each(job, where, [&](const TaskGroup& g, const PodPlacement& pod) {
      if (runs(job) && std::find(had.begin(), had.end(), pod) != had.end()) return;
      const Node& node = s.nodes[pod.node];
      const NodeClass& c = type(pod.node);
      const bool open = node.health == NodeHealth::kUp && node.drain_at >= now + upper(job);
      const bool labels =
          (want.labels_required & ~c.labels) == 0 && (want.labels_forbidden & c.labels) == 0;
      const bool close =
          domain(pod.node, want.required) == domain(where.pods[0].node, want.required);
      const auto& m = g.gpu.models;
      const int part = cut(g) ? kCut[static_cast<int>(g.gpu.mig)][0] : 8;
      const bool device =
          g.gpu.count == 0 ||
          (std::find(m.begin(), m.end(), c.gpu_flavor) != m.end() && c.gpus > 0 &&
           c.gpu_memory * part / 8 >= g.gpu.memory && (!cut(g) || c.mig != MigGeometry::kNone));
      std::uint64_t tags = 0, avoids = 0, zones = ~0ULL;
      for (const std::uint64_t each_zone : want.data_zones) zones &= each_zone;
      for (const auto& [other, there] : later) {
        const bool here =
            other != job && (want.tags | want.avoids | want.needs) != 0 &&
            std::any_of(there->pods.begin(), there->pods.end(),
                        [&](const auto& each_pod) { return each_pod.node == pod.node; });
        if (here) tags |= shape(other).tags, avoids |= shape(other).avoids;
      }
      const bool company =
          ((tags & want.avoids) | (avoids & want.tags) | (want.needs & ~tags)) == 0;
      need((zones >> node.zone & 1U) != 0, Kind::kZone, job, "data in a wrong zone");
      need(open, Kind::kPlace, job, "node is closed or closes too soon");
      need(labels, Kind::kPlace, job, "labels");
      need(close, Kind::kPlace, job, "topology");
      need(++near[{&g, pod.node}] <= g.max_per_node, Kind::kPlace, job, "too close");
      need(device, Kind::kDevice, job, "a device of another kind");
      need(company, Kind::kPlace, job, "beside a job it must not meet, or without one it needs");
    });
  }

  // --- Devices: everything on the nodes of `touching`, added up and compared with what there is.
  void devices(const Holding& holding, const std::vector<const Placement*>& touching, Kind what) {
    std::set<Index> touched;
    for (const Placement* where : touching) {
      for (const PodPlacement& pod : where->pods) touched.insert(pod.node);
    }
    std::map<std::pair<Index, int>, std::int64_t> use;  // Of a node: which of its resources.
    for (const auto& entry : holding) {
      each(entry.first, *entry.second, [&](const TaskGroup& g, const PodPlacement& pod) {
        if (!touched.contains(pod.node)) return;
        const NodeClass& c = type(pod.node);
        const int* rule = kCut[static_cast<int>(g.gpu.mig)];
        const auto take = [&](int resource, std::int64_t amount, std::int64_t most) {
          need((use[{pod.node, resource}] += amount) <= most, what, entry.first,
               "more is given than the node has");
        };
        take(0, g.cpu, c.cpu);
        take(1, g.memory, c.memory);
        take(2, milli(g) * c.watts_per_gpu / 1000, s.nodes[pod.node].power_cap);
        if (pod.numa != 0xff) take(3 + pod.numa, g.cpu, c.cpu / c.numa_nodes);
        const bool bound = pod.numa < c.numa_nodes && (pod.gpus & ~c.numa_gpus[pod.numa]) == 0;
        const bool begins = pod.mig_start <= 7 && (rule[1] >> pod.mig_start & 1) != 0;
        need(std::popcount(pod.gpus) == static_cast<int>(g.gpu.count) && pod.gpus >> c.gpus == 0 &&
                 (g.one_numa_node == 0 || bound) && (!cut(g) || begins),
             what, entry.first, "not the devices that it asks for");
        // A device is eight slices; an instance takes all of some, a fraction some of all.
        const int slices = cut(g) ? ((1 << rule[0]) - 1) << (pod.mig_start & 7) : 0xff;
        for (int i = 0; i < 128; ++i) {
          const bool taken = (pod.gpus >> i / 8 & 1) != 0 && (slices >> i % 8 & 1) != 0;
          if (taken) take(300 + i, cut(g) ? 1000 : g.gpu.fraction, 1000);
        }
      });
    }
  }
  void nodes() {
    std::vector<const Placement*> starts, all;
    for (const Resize& r : d.resize) starts.push_back(&r.placement);
    all = starts;
    for (const Index job : fresh) {
      all.push_back(later.at(job));
      if (held.contains(job)) starts.push_back(later.at(job));
    }
    devices(held, starts, Kind::kDevice);
    devices(later, all, Kind::kClaim);
    for (const Reserve& r : d.reserve) {  // At the promised time all who may still run fit too.
      if (r.kind != ReserveKind::kForecast) continue;
      Holding then = later;
      std::erase_if(then, [&](const auto& each) { return now + upper(each.first) <= r.from; });
      then[r.job] = &r.placement;
      devices(then, {&r.placement}, Kind::kClaim);
    }
  }

  // --- Queues: nominal, borrowed, lent; what each is entitled to; what is spent.
  void read_tree() {
    cells.resize(s.queues.size() * s.flavors.size());
    for (Index f = 0; f < s.flavors.size(); ++f) {
      for (Index j = 0; j < s.jobs.size(); ++j) {
        cell(s.jobs[j].queue, f).asked += charge(j, nullptr, true)[f];
      }
      for (auto q = static_cast<Index>(s.queues.size()); q-- > 0;) {
        Cell& own = cell(q, f);
        std::int64_t lend = kUnlimited;
        for (const Quota& quota : s.queues[q].quotas) {
          if (quota.flavor != f) continue;
          own.subtree += quota.nominal, own.entitled += quota.nominal;
          own.borrow = quota.borrow, lend = quota.lend, cell(up(q).back(), f).counted = 1;
        }
        own.local = std::max<std::int64_t>(0, own.subtree - lend);
        const Index parent = s.queues[q].parent;
        if (parent == kAbsent) own.ceiling = own.subtree;
        if (parent == kAbsent) continue;
        if (own.borrow < kUnlimited - own.subtree) own.ceiling = own.subtree + own.borrow;
        cell(parent, f).subtree += own.subtree - own.local;
        cell(parent, f).entitled += own.entitled, cell(parent, f).asked += own.asked;
        height[parent] = std::max(height[parent], height[q] + 1);
      }
      const bool fair = p.preemption.entitlement == Entitlement::kFairShare;
      for (Index q = 0; fair && q < s.queues.size(); ++q) {
        if (cell(up(q).back(), f).counted != 0) pour(q, f);
      }
    }
  }
  void pour(Index q, Index f) {  // Water filling of what `q` has among its children.
    std::int64_t pool = cell(q, f).entitled;
    std::map<Index, std::int64_t> wants;
    for (Index child = q + 1; child < s.queues.size(); ++child) {
      if (s.queues[child].parent != q) continue;
      const Cell& own = cell(child, f);
      const std::int64_t got = std::min(own.entitled, own.asked);
      pool -= std::max(got, own.local);
      wants[child] = std::min(own.asked - got, own.borrow);
    }
    std::erase_if(wants, [](const auto& each) { return each.second <= 0; });
    for (bool last = false; pool > 0 && !wants.empty() && !last;) {
      Wide weights = 0;
      for (const auto& each : wants) weights += s.queues[each.first].weight;
      const Wide had = pool;
      const auto part = [&](Index child) {
        return static_cast<std::int64_t>(had * s.queues[child].weight / weights);
      };
      last = std::erase_if(wants, [&](const auto& each) {
               if (each.second > part(each.first)) return false;
               cell(each.first, f).entitled += each.second, pool -= each.second;
               return true;
             }) == 0;
      for (const auto& each : wants) cell(each.first, f).entitled += last ? part(each.first) : 0;
    }
  }
  void quotas(const Holding& holding) {
    std::vector<Index> got = fresh;
    for (const Resize& r : d.resize) {
      if (r.for_job == kAbsent) got.push_back(r.job);
    }
    for (Index f = 0; f < s.flavors.size(); ++f) {
      Sums use(s.queues.size(), 0);
      for (const auto& [j, where] : holding) use[s.jobs[j].queue] += charge(j, where, false)[f];
      for (std::size_t q = use.size(); q-- > 0;) {
        if (s.queues[q].parent == kAbsent) continue;
        use[s.queues[q].parent] += std::max<std::int64_t>(0, use[q] - cell(q, f).local);
      }
      for (const Index j : got) {
        const auto way = up(s.jobs[j].queue);
        if (!holding.contains(j) || cell(way.back(), f).counted == 0) continue;
        const std::int64_t had = runs(j) ? charge(j, &s.jobs[j].placement, false)[f] : 0;
        bool within = charge(j, holding.at(j), false)[f] <= had;
        for (std::size_t i = 0; i < way.size() && !within; ++i) {
          within = use[way[i]] <= cell(way[i], f).local;
          need(within || use[way[i]] <= cell(way[i], f).ceiling, Kind::kQuota, j, "beyond quota");
        }
      }
    }
  }
  Wide amount(const Allowance& a, Index j) const {
    Wide gpus = 0, money = 0, watts = 0;
    each(j, *later.at(j), [&](const TaskGroup& g, const PodPlacement& pod) {
      const NodeClass& c = type(pod.node);
      gpus += milli(g), watts += milli(g) * c.watts_per_gpu / 1000;
      money += Wide{milli(g)} * c.price_per_gpu_hour / 1000;
      money += Wide{g.cpu} * c.price_per_core_hour / 1000;
    });
    const std::int64_t window = std::max<std::int64_t>(0, (a.window_end - now).nanos);
    const std::int64_t seconds = std::min(upper(j).nanos, window) / kSecond;
    if (a.kind == AllowanceKind::kGpuSeconds) return gpus * seconds;
    return a.kind == AllowanceKind::kMoney ? money * seconds / 3600 : watts * seconds;
  }
  void budgets() {
    std::map<const Allowance*, Wide> spent;
    for (const auto& [j, where] : later) {
      for (const Index q : up(s.jobs[j].queue)) {
        for (const Allowance& a : s.queues[q].allowances) spent[&a] += amount(a, j);
      }
    }
    for (const Index j : fresh) {
      const Job& job = s.jobs[j];
      const Wide cost = amount({AllowanceKind::kMoney, 0, 0, Timestamp::max()}, j);
      need(job.cost_cap == kUnlimited || cost <= job.cost_cap - job.spent, Kind::kBudget, j, "cap");
      for (const Index q : up(job.queue)) {
        for (const Allowance& a : s.queues[q].allowances) {
          need(amount(a, j) == 0 || a.spent + spent[&a] <= a.limit, Kind::kBudget, j, "allowance");
        }
      }
    }
  }

  // --- Rank, and the certificate's steps: each claim has a right to its victims and improves who
  // runs.
  std::int64_t overuse(Index queue) const {
    const std::size_t n = s.queues.size();
    Sums use(n + 1, 0), weights(n + 1, 0);  // The last: of all that have no parent.
    const auto above = [&](std::size_t q) { return std::min<std::size_t>(s.queues[q].parent, n); };
    for (std::size_t q = n; q-- > 0;) {
      use[q] += s.queues[q].decayed_use, use[above(q)] += use[q];
      weights[above(q)] += s.queues[q].weight;
    }
    const auto way = up(queue);
    std::int64_t part = 0, worst = std::numeric_limits<std::int64_t>::min();
    for (auto q = way.rbegin(); q != way.rend(); ++q) {
      part += points(s.queues[*q].weight) - points(weights[above(*q)]);
      worst = std::max(worst, points(use[*q] + 1) - points(use[n]) - part);
    }
    return use[n] == 0 ? 0 : worst;
  }
  void read_ranks() {
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const Job& job = s.jobs[j];
      const OrderWeights& w = p.order;
      std::int64_t gpus = 0, cores = 0;
      for (const TaskGroup& g : shape(j).groups) gpus += milli(g) * g.min, cores += g.cpu * g.min;
      const Duration half{p.unknown_run.nanos / 2};
      const Duration middle =
          std::min(job.remaining_p50.nanos > 0 ? job.remaining_p50 : half, job.max_run);
      const std::int64_t age = std::max<std::int64_t>(0, (now - job.submitted).nanos / kSecond);
      const auto log = [](std::int64_t weight, std::int64_t x) {
        return weight * points(x) / 1000;
      };
      const std::int64_t score =
          log(w.p50, 1 + middle.nanos / kSecond) + log(w.p90, 1 + upper(j).nanos / kSecond) +
          log(w.size, std::max<std::int64_t>(1, gpus > 0 ? gpus : cores / 100)) +
          log(w.attained, 1 + job.attained) + w.share * overuse(job.queue) / 1000 -
          std::min(log(w.age, 1 + age) + w.points_per_hour * age / 3600, w.age_cap);
      const bool urgent =
          job.deadline != Timestamp::max() && job.deadline < now + upper(j) + w.deadline_slack;
      rank.push_back({-std::int64_t{job.priority}, urgent ? -1 : 0, score});
      ranked.push_back(j);
    }
    std::sort(ranked.begin(), ranked.end(), [&](Index a, Index b) {
      const Job &x = s.jobs[a], &y = s.jobs[b];
      return std::tie(rank[a], x.submitted, x.id) < std::tie(rank[b], y.submitted, y.id);
    });
  }
  Marks marks(const Holding& running) {
    Marks out;
    for (const auto& each : running) out[kMaxDepth].insert(each.first);
    auto left = cells;
    std::set<Index> below;
    for (std::uint32_t level = 0; level < kMaxDepth; ++level) {
      std::set<Index> on;  // Entitled here, or below where there is no queue of this height.
      for (const bool first : {true, false}) {
        for (const Index j : ranked) {
          if (!running.contains(j) || below.contains(j) != first) continue;
          const auto way = up(s.jobs[j].queue);
          const auto q = std::find_if(way.begin(), way.end(),
                                      [&](Index each) { return height[each] == level; });
          if (q == way.end() && first) on.insert(j);
          if (q == way.end()) continue;
          const Sums sums = charge(j, running.at(j), true);
          Cell* own = &left[*q * sums.size()];
          bool fits = true;
          for (std::size_t f = 0; f < sums.size(); ++f) {
            const bool counts = sums[f] > 0 && cell(way.back(), f).counted != 0;
            fits = fits && (!counts || sums[f] <= own[f].entitled);
          }
          for (std::size_t f = 0; fits && f < sums.size(); ++f) own[f].entitled -= sums[f];
          if (fits) on.insert(j), out[level].insert(j);
        }
      }
      below = std::move(on);
    }
    return out;
  }
  bool right(const Reserve& claim, const Preempt& v, const Marks& before, const Marks& with) const {
    const Job &job = s.jobs[claim.job], &victim = s.jobs[v.job];
    const Queue& queue = s.queues[job.queue];
    const Duration own = s.queues[victim.queue].min_run;
    if (victim.started + (own.nanos > 0 ? own : p.preemption.min_run) > now) return false;
    const bool same = job.queue == victim.queue;
    auto mine = up(job.queue), theirs = up(victim.queue);
    const bool cohort = mine.back() == theirs.back();
    const auto reaches = [&](Scope scope) {
      return scope == Scope::kCluster || (scope == Scope::kCohort && cohort) ||
             (scope == Scope::kQueue && same);
    };
    if (v.cause == PreemptCause::kPriority) {
      return victim.priority < job.priority &&
             (same ? queue.within != WithinQueue::kNever : reaches(p.preemption.priority));
    }
    const auto &a = rank[claim.job], &b = rank[v.job];
    if (v.cause == PreemptCause::kOrder) {
      return ((same && queue.within == WithinQueue::kLaterInOrder) ||
              reaches(p.preemption.order)) &&
             (a[1] != b[1] || b[2] - a[2] >= p.preemption.margin) && a[0] == b[0] && a < b;
    }
    if (queue.reclaim == Reclaim::kNever || same || !cohort) return false;
    if (queue.reclaim == Reclaim::kLowerPriority && victim.priority >= job.priority) return false;
    while (!mine.empty() && !theirs.empty() && mine.back() == theirs.back()) {
      mine.pop_back(), theirs.pop_back();
    }
    return !mine.empty() && !theirs.empty() && with[height[mine.back()]].contains(claim.job) &&
           !before[height[theirs.back()]].contains(v.job);
  }
  void steps() {
    const auto& steps = d.certificate.steps;
    Holding running;
    const std::set<Index> released(d.released.begin(), d.released.end());
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const bool kept = s.jobs[j].state == JobState::kClaimed && !released.contains(j);
      if (runs(j) || kept) running[j] = &s.jobs[j].placement;
    }
    std::size_t at = 0, admitted = 0;
    for (const Reserve& claim : d.reserve) {
      if (claim.kind != ReserveKind::kClaim) continue;
      const Step step = at < steps.size() ? steps[at] : Step{};
      need(at++ < steps.size() && step.job == claim.job, Kind::kPotential, claim.job, "no step");
      for (; admitted < std::min<std::size_t>(step.admitted, d.admit.size()); ++admitted) {
        running[d.admit[admitted].job] = &d.admit[admitted].placement;
      }
      const Marks before = marks(running);
      running[claim.job] = &claim.placement;
      const Marks with = marks(running);
      for (const Preempt& v : d.preempt) {
        if (v.for_job != claim.job) continue;
        need(right(claim, v, before, with), Kind::kPreempt, v.job, "without a right");
        running.erase(v.job);
      }
      const Marks after = marks(running);
      std::uint8_t level = 0;
      while (level < kMaxDepth && before[level] == after[level]) ++level;
      const auto deciding = std::find_if(ranked.begin(), ranked.end(), [&](Index j) {
        return before[level].contains(j) != after[level].contains(j);
      });
      need(deciding != ranked.end() && level == step.level && *deciding == step.deciding &&
               after[level].contains(*deciding),
           Kind::kPotential, claim.job, "it does not improve who runs as it says");
    }
    need(at == steps.size(), Kind::kPotential, 0, "steps that nobody claims");
  }
};

}  // namespace

std::vector<Violation> verify(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                              const Decisions& decisions) {
  Verifier v{snapshot, policy, now, decisions};
  v.outcomes();
  if (!v.found.empty()) return v.found;  // The rest would only repeat it.
  for (const Index job : v.fresh) v.place(job, *v.later.at(job));
  for (const Resize& r : decisions.resize) v.place(r.job, r.placement);
  v.nodes();
  if (!v.found.empty()) return v.found;  // What is on a wrong device cannot be charged.
  v.read_tree();
  v.quotas(v.held);
  v.quotas(v.later);
  v.budgets();
  v.read_ranks();
  if (v.found.empty()) v.steps();
  return v.found;
}

}  // namespace falaj::scheduler
