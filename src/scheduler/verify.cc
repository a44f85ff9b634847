#include "scheduler/verify.h"

#include <algorithm>
#include <bit>
#include <set>

namespace falaj::scheduler {
namespace {
__extension__ using Wide = __int128;
// By rule, whose it is and which of theirs: how much is used, and how much there is.
using Book = std::map<std::tuple<std::string_view, Index, Index>, std::pair<Wide, Wide>>;

// {slices, bits of where it may begin, thousandths of the GPU} per profile.
constexpr std::int64_t kCut[][3] = {{8, 1, 1000},   {1, 0x7f, 125}, {2, 0x55, 250}, {2, 0x15, 250},
                                    {4, 0x11, 500}, {4, 1, 500},    {8, 1, 1000}};
auto profile(const TaskGroup& g) { return kCut[static_cast<int>(g.gpu.mig)]; }
bool cut(const TaskGroup& g) { return g.gpu.count > 0 && g.gpu.mig != MigProfile::kWhole; }
bool within(const std::vector<PodPlacement>& a, const std::vector<PodPlacement>& b) {
  const auto more = [&](auto& p) { return std::ranges::count(a, p) > std::ranges::count(b, p); };
  return std::ranges::none_of(a, more);
}
auto milli(const TaskGroup& g) { return cut(g) ? profile(g)[2] : g.gpu.fraction * g.gpu.count; }

struct Verifier {
  const Snapshot& s;
  const Policy& p;
  const Timestamp now;
  const Decisions& d;
  std::vector<Violation> found{};
  Holding running{}, held{}, later{};   // At first; until the victims have left; from then on.
  Holding claims{}, starts{}, fresh{};  // Is being cleared; is given at once; both.

  void need(std::string_view rule, Index job, bool good) {
    if (!good) found.push_back({rule, s.jobs[job].id});
  }
  const Shape& shape(Index job) const { return s.shapes[s.jobs[job].shape]; }
  const NodeClass& type(Index node) const { return s.classes[s.nodes[node].node_class]; }
  bool runs(Index job) const { return s.jobs[job].state == JobState::kRunning; }
  Duration upper(const Job& job) const {
    const Duration known = job.remaining_p90.nanos > 0 ? job.remaining_p90 : p.unknown_run;
    return std::min(std::max(known, job.remaining_p50), job.max_run);
  }

  // --- Outcomes: one for everybody who waits, of whole gangs; and from them who holds what.
  void whole(Index job, const Placement& where) {
    std::size_t sum = 0;
    for (std::size_t g = 0; g < where.counts.size(); sum += where.counts[g++]) {
      const TaskGroup& group = shape(job).groups[g];
      need("gang", job, where.counts[g] >= group.min && where.counts[g] <= group.max);
    }
    need("gang", job, sum == where.pods.size());
  }
  void outcomes() {
    std::multiset<Index> told;
    std::set<Index> victims;
    for (const Admit& a : d.admit) {
      told.insert(a.job), starts[a.job] = &a.placement, whole(a.job, a.placement);
      need("dependency", a.job, s.jobs[a.job].unmet_dependencies == 0);
    }
    for (const Hold& h : d.hold)
      told.insert(h.job), need("reason", h.job, h.reason.code != ReasonCode::kNone);
    for (const Reserve& r : d.reserve) {
      if (r.kind == ReserveKind::kClaim) claims[r.job] = &r.placement;
      need("outcome", r.job, !starts.contains(r.job)), whole(r.job, r.placement);
    }
    for (const Preempt& v : d.preempt) {
      const bool goes = runs(v.job) && victims.insert(v.job).second;
      need("victim", v.job, goes && claims.contains(v.for_job));
    }
    for (const Resize& r : d.resize) {
      const bool first = starts.emplace(r.job, &r.placement).second;
      need("outcome", r.job, first && runs(r.job) && !victims.contains(r.job));
      const auto &had = s.jobs[r.job].placement.pods, &has = r.placement.pods;
      const bool shrinks = within(has, had) && claims.contains(r.for_job);
      need("victim", r.job, within(had, has) || shrinks), whole(r.job, r.placement);
    }
    fresh = starts, fresh.insert(claims.begin(), claims.end()), later = fresh, held = starts;
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const Job& job = s.jobs[j];
      const bool claimed = job.state == JobState::kClaimed;
      const bool waits = claimed || job.state == JobState::kPending;
      need("outcome", j, told.count(j) == (waits ? 1U : 0U));
      const bool kept = claimed && std::ranges::count(d.released, j) == 0;
      if (runs(j) || kept) running[j] = &job.placement;
      if (running.contains(j) && !victims.contains(j)) later.emplace(j, &job.placement);
      const bool shrinks = held.contains(j) && held[j]->pods.size() < job.placement.pods.size();
      if (!waits && (shrinks || !held.contains(j))) held[j] = &job.placement;
    }
  }

  // --- Places: may each new pod be where it is, on these devices?
  void place(Index job, const Placement& where) {
    const Shape& want = shape(job);
    const auto domain = [&](Index n) { return domain_of(s.nodes[n], n, want.required); };
    for_each_pod(want, where, [&](const TaskGroup& g, const PodPlacement& at, std::uint32_t) {
      if (runs(job) && std::ranges::count(s.jobs[job].placement.pods, at) > 0) return;
      const Node& node = s.nodes[at.node];
      const NodeClass& c = type(at.node);
      std::uint64_t tags = 0, avoids = 0;
      for (const auto& [other, there] : later) {
        for (const PodPlacement& pod : there->pods) {
          if (other == job || pod.node != at.node) continue;
          tags |= shape(other).tags, avoids |= shape(other).avoids;
        }
      }
      for (const auto zones : want.data_zones) need("zone", job, zones >> node.zone & 1U);
      need("closed", job, node.health == NodeHealth::kUp);
      const Job& j = s.jobs[job];
      const Duration most = j.max_run == Duration::max() ? upper(j) : j.max_run;
      need("closed", job, node.drain_at == Timestamp::max() || node.drain_at - now >= most);
      need("far", job, domain(at.node) == domain(where.pods[0].node));
      need("label", job, (want.labels_required & ~c.labels) == 0);
      need("label", job, (want.labels_forbidden & c.labels) == 0);
      need("company", job, !(tags & want.avoids) && !(avoids & want.tags) && !(want.needs & ~tags));
      const std::int64_t memory = cut(g) ? c.gpu_memory * profile(g)[0] / 8 : c.gpu_memory;
      const bool kind = std::ranges::count(g.gpu.models, c.gpu_flavor) > 0;
      const bool begins = at.mig_start < 8 && (profile(g)[1] >> at.mig_start & 1) != 0;
      const bool bound = at.numa < c.numa_nodes && (at.gpus & ~c.numa_gpus[at.numa]) == 0;
      need("device", job, std::popcount(at.gpus) == static_cast<int>(g.gpu.count));
      need("device", job, at.gpus >> c.gpus == 0 && (g.one_numa_node == 0 || bound));
      need("device", job, g.gpu.count == 0 || (kind && memory >= g.gpu.memory));
      need("device", job, !cut(g) || (begins && c.mig != MigGeometry::kNone));
    });
  }

  // --- Amounts: what newcomers take is, with what all others hold, no more than there is.
  void count(Index j, const Placement& where, int sign, Book& book) const {
    const Job& job = s.jobs[j];
    const auto take = [&](std::string_view rule, Index whose, Index which, Wide n, Wide most) {
      auto& [used, limit] = book[{rule, whose, which}];
      used += sign * n, limit = most;
    };
    Wide rates[] = {0, 0, 0};  // By AllowanceKind; of money by the hour.
    for_each_pod(shape(j), where, [&](const TaskGroup& g, const PodPlacement& at, std::uint32_t) {
      const NodeClass& c = type(at.node);
      const std::int64_t power = milli(g) * c.watts_per_gpu / 1000;
      rates[0] += milli(g), rates[1] += Wide{milli(g)} * c.price_per_gpu_hour / 1000;
      rates[1] += Wide{g.cpu} * c.price_per_core_hour / 1000, rates[2] += power;
      take("crowded", at.node, j * 8 + Index(&g - &shape(j).groups[0]), 1, g.max_per_node);
      take("node", at.node, 0, g.cpu, c.cpu), take("node", at.node, 1, g.memory, c.memory);
      take("node", at.node, 2, power, s.nodes[at.node].power_cap);
      if (at.numa != 0xff) take("node", at.node, 3U + at.numa, g.cpu, c.cpu / c.numa_nodes);
      // A GPU is eight slices; an instance takes all of some, a fraction some of all.
      const bool known = cut(g) && at.mig_start < 8;  // Else it may be anywhere on its device.
      const int slices = known ? ((1 << profile(g)[0]) - 1) << at.mig_start : 0xff;
      for (Index i = 0; i < 8 * kMaxDevices; ++i) {
        if ((at.gpus >> i / 8 & 1) == 0 || (slices >> i % 8 & 1) == 0) continue;
        take("node", at.node, 300 + i, cut(g) ? 1000 : g.gpu.fraction, 1000);
      }
      take("quota", job.queue, kCpu, g.cpu, 0), take("quota", job.queue, kMemory, g.memory, 0);
      if (g.gpu.count > 0) take("quota", job.queue, c.gpu_flavor, milli(g), 0);
    });
    if (job.array != kAbsent) take("array", job.array, 0, 1, s.arrays[job.array].max_running);
    const auto spend = [&](std::string_view rule, Index whose, Index which, const Allowance& a) {
      const Duration time = std::max(Duration{}, std::min(upper(job), a.window_end - now));
      const Wide sum = rates[static_cast<int>(a.kind)] * (time.nanos / 1'000'000'000);
      const Wide amount = a.kind == AllowanceKind::kMoney ? sum / 3600 : sum;
      take(rule, whose, which, amount, Wide{a.limit} - a.spent);
    };
    spend("cap", j, 0, {AllowanceKind::kMoney, job.cost_cap, job.spent, Timestamp::max()});
    for (const Index q : ancestors(s, job.queue)) {
      const auto& list = s.queues[q].allowances;
      for (Index i = 0; i < list.size(); ++i) spend("allowance", q, i, list[i]);
    }
  }
  // What a queue has of a flavor with what its children lend; what of it is not lent; what is used.
  std::array<Wide, 3> cell(Index q, Index f, const Book& book) const {
    const auto own = book.find({"quota", q, f});
    Wide subtree = quota_of(s, q, f).nominal, used = own == book.end() ? 0 : own->second.first;
    for (Index child = q + 1; child < s.queues.size(); ++child) {
      if (s.queues[child].parent != q) continue;
      const auto [all, local, all_used] = cell(child, f, book);
      subtree += all - local, used += std::max<Wide>(0, all_used - local);
    }
    return {subtree, std::max<Wide>(0, subtree - quota_of(s, q, f).lend), used};
  }
  void moment(const Holding& holding, const Holding& newcomers, std::set<std::string_view> rules) {
    Book all;
    for (const auto& [job, where] : holding) count(job, *where, 1, all);
    for (const auto& [job, where] : newcomers) {
      Book more;
      count(job, *where, 1, more);
      if (runs(job)) count(job, s.jobs[job].placement, -1, more);
      for (const auto& [key, line] : more) {
        const auto& [rule, whose, which] = key;
        if (line.first <= 0 || !rules.contains(rule)) continue;
        if (rule != "quota") need(rule, job, all[key].first <= line.second);
        if (rule != "quota" || !is_counted(s, whose, which)) continue;
        for (const Index q : ancestors(s, whose)) {
          const auto [subtree, local, used] = cell(q, which, all);
          if (used <= local) break;
          need(rule, job, used <= subtree + quota_of(s, q, which).borrow);
        }
      }
    }
  }

  // --- Preemption: every claim makes the set of running jobs better, so that none comes back.
  void steps() {
    const auto& order = d.certificate.order;
    std::size_t admitted = 0;
    for (const Step& step : d.certificate.steps) {
      for (; admitted < step.admitted; ++admitted)
        running[d.admit[admitted].job] = &d.admit[admitted].placement;
      const std::string before = marks(s, d.certificate, running);
      for (const Preempt& v : d.preempt)
        if (v.for_job == step.job) running.erase(v.job);
      if (claims.contains(step.job)) running[step.job] = claims.extract(step.job).mapped();
      const std::string after = marks(s, d.certificate, running);
      const auto at = std::size_t(std::ranges::mismatch(before, after).in1 - before.begin());
      need("potential", step.job, before < after && at / order.size() == step.level);
      need("potential", step.job, order[at % order.size()] == step.deciding);
    }
    for (const auto& [job, where] : claims) need("potential", job, false);  // Without a step.
  }
};
}  // namespace

std::string marks(const Snapshot& s, const Certificate& by, const Holding& running) {
  const auto& order = by.order;
  std::string rows((kMaxDepth + 1) * order.size(), '0'), below(order.size(), '0');
  std::vector<std::size_t> height(s.queues.size(), 0);
  for (auto q = static_cast<Index>(s.queues.size()); q-- > 0;) {  // Children after parents.
    const Index parent = s.queues[q].parent;
    if (parent != kAbsent) height[parent] = std::max(height[parent], height[q] + 1);
    std::vector<std::size_t> line;  // All below it, first those who are entitled one step lower.
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto way = ancestors(s, s.jobs[order[i]].queue);
      if (!running.contains(order[i]) || std::ranges::count(way, q) == 0) continue;
      line.push_back(i), rows[kMaxDepth * order.size() + i] = '1';
    }
    std::ranges::stable_partition(line, [&](auto i) { return below[i] == '1'; });
    auto left = by.entitled[q];
    for (const std::size_t i : line) {
      auto rest = left;
      for_each_pod(s.shapes[s.jobs[order[i]].shape], *running.at(order[i]),
                   [&](auto& g, auto& at, auto number) {
                     if (number >= g.min) return;  // Pods beyond the minimum count nowhere.
                     rest[kCpu] -= g.cpu, rest[kMemory] -= g.memory;
                     if (g.gpu.count > 0)
                       rest[s.classes[s.nodes[at.node].node_class].gpu_flavor] -= milli(g);
                   });
      below[i] = std::ranges::min(rest) >= 0 ? '1' : '0';
      if (below[i] == '1') left = rest, rows[height[q] * order.size() + i] = '1';
    }
  }
  return rows;
}

std::vector<Violation> verify(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                              const Decisions& decisions) {
  Verifier v{snapshot, policy, now, decisions};
  if (!check(snapshot, decisions).ok()) return {{"form", 0}};
  const Certificate& c = decisions.certificate;  // Of a call that made no digests they are zero.
  if (c.snapshot != Sha256{} && c.snapshot != digest(snapshot)) return {{"other", 0}};
  if (c.policy != Sha256{} && c.policy != digest(policy)) return {{"other", 0}};
  v.outcomes();
  if (!v.found.empty()) return v.found;  // The rest would only repeat it.
  for (const auto& [job, where] : v.fresh) v.place(job, *where);
  if (!v.found.empty()) return v.found;  // What is on a wrong device cannot be charged.
  v.moment(v.held, v.starts, {"node", "quota"});
  v.moment(v.later, v.fresh, {"node", "quota", "crowded", "array", "cap", "allowance"});
  for (const Reserve& r : decisions.reserve) {  // All who may still run then leave it its place.
    if (r.kind == ReserveKind::kClaim) continue;
    Holding then = v.later;
    std::erase_if(then, [&](auto& x) { return now + v.upper(snapshot.jobs[x.first]) <= r.from; });
    then[r.job] = &r.placement;
    v.moment(then, {{r.job, &r.placement}}, {"node"});
  }
  v.steps();
  return v.found;
}

}  // namespace falaj::scheduler
