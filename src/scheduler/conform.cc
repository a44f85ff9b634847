#include "scheduler/conform.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace falaj::scheduler {
namespace {

__extension__ using Wide = __int128;
using Order = std::array<std::int64_t, 5>;  // -priority, -urgent, score, submitted, id.
using Own = std::array<std::int64_t, kMaxFlavors>;

// {thousandths of the GPU} per profile.
constexpr std::int64_t kPart[] = {1000, 125, 250, 250, 500, 500, 1000};

std::int64_t milli(const TaskGroup& g) {
  const bool cut = g.gpu.count > 0 && g.gpu.mig != MigProfile::kWhole;
  return cut ? kPart[static_cast<int>(g.gpu.mig)] : g.gpu.fraction * g.gpu.count;
}

std::int64_t points(std::int64_t x) {  // 1000 log2, straight between powers of two.
  if (x < 2) return 0;
  const int power = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x))) - 1;
  return 1000 * power + static_cast<std::int64_t>((Wide{x} - (Wide{1} << power)) * 1000 >> power);
}

std::int64_t seconds(Duration time) {
  return std::max<std::int64_t>(0, time.nanos / 1'000'000'000);
}

struct Conformity {
  const Snapshot& s;
  const Policy& p;
  const Timestamp now;
  const Decisions& d;
  std::vector<Violation> found{};
  std::vector<Order> order{};
  std::vector<Own> entitled = std::vector<Own>(s.queues.size(), Own{});
  std::vector<Own> asked = entitled;
  std::vector<std::size_t> height = std::vector<std::size_t>(s.queues.size(), 0);

  void need(std::string_view rule, Index job, bool good) {
    if (!good) found.push_back({rule, s.jobs[job].id});
  }

  // --- The order: priority, deadlines that are near, score, age.
  // Of all nodes, the largest part of a flavor that the queue itself used, or all below it too.
  std::int64_t dominant(Index queue, bool below) const {
    Wide most = 0;
    for (Index f = 0; f < s.flavors.size(); ++f) {
      Wide all = 0, used = 0;
      for (const Node& node : s.nodes) {
        const NodeClass& c = s.classes[node.node_class];
        const std::int64_t gpus = f == c.gpu_flavor ? std::int64_t{c.gpus} * 1000 : 0;
        all += f == kCpu ? c.cpu : f == kMemory ? c.memory : gpus;
      }
      for (Index i = 0; i < s.queues.size(); ++i) {
        const bool counts = below ? std::ranges::count(ancestors(s, i), queue) > 0 : i == queue;
        if (counts && f < s.queues[i].decayed_use.size()) used += s.queues[i].decayed_use[f];
      }
      if (all > 0) most = std::max(most, used * 1'000'000 / all);
    }
    return static_cast<std::int64_t>(std::min(most, Wide{1} << 50));
  }
  std::int64_t overuse(Index queue) const {
    std::int64_t sum = 0, worst = std::numeric_limits<std::int64_t>::min();
    auto way = ancestors(s, queue);
    std::reverse(way.begin(), way.end());
    for (const Index q : way) {
      const Index parent = s.queues[q].parent;
      std::int64_t beside = parent == kAbsent ? 0 : dominant(parent, false), weights = 0;
      for (Index i = 0; i < s.queues.size(); ++i) {
        if (s.queues[i].parent != parent) continue;
        beside += dominant(i, true), weights += s.queues[i].weight;
      }
      if (beside == 0 && parent == kAbsent) return 0;
      const std::int64_t part = points(s.queues[q].weight) - points(weights);
      if (beside > 0) sum += points(dominant(q, true) + 1) - points(beside) - part;
      if (q == queue || weights > s.queues[q].weight) worst = std::max(worst, sum);
    }
    return worst;
  }
  void read_order() {
    const OrderWeights& w = p.order;
    const auto log = [](std::int64_t weight, std::int64_t x) { return weight * points(x) / 1000; };
    std::vector<Index> sorted;
    std::vector<std::int64_t> over;
    for (Index q = 0; q < s.queues.size(); ++q) over.push_back(w.share == 0 ? 0 : overuse(q));
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const Job& job = s.jobs[j];
      std::int64_t gpus = 0, cores = 0;
      for (const TaskGroup& g : s.shapes[job.shape].groups) {
        gpus += milli(g) * g.min, cores += g.cpu * g.min;
      }
      const Duration half{p.unknown_run.nanos / 2};
      const Duration middle =
          std::min(job.remaining_p50.nanos > 0 ? job.remaining_p50 : half, job.max_run);
      const Duration known = job.remaining_p90.nanos > 0 ? job.remaining_p90 : p.unknown_run;
      const Duration upper = std::min(std::max(known, job.remaining_p50), job.max_run);
      const std::int64_t age = seconds(now - job.submitted);
      const std::int64_t score =
          log(w.p50, 1 + seconds(middle)) + log(w.p90, 1 + seconds(upper)) +
          log(w.size, std::max<std::int64_t>(1, gpus > 0 ? gpus : cores / 100)) +
          log(w.attained, 1 + job.attained) + w.share * over[job.queue] / 1000 -
          std::min(log(w.age, 1 + age) + w.points_per_hour * age / 3600, w.age_cap);
      const bool urgent =
          job.deadline != Timestamp::max() && job.deadline < now + upper + w.deadline_slack;
      order.push_back({-std::int64_t{job.priority}, urgent ? -1 : 0, score, job.submitted.nanos,
                       static_cast<std::int64_t>(job.id)});
      sorted.push_back(j);
    }
    std::sort(sorted.begin(), sorted.end(), [&](Index a, Index b) { return order[a] < order[b]; });
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      need("order", sorted[i], d.certificate.order[i] == sorted[i]);
    }
  }

  // --- Entitlements: nominal, and with fair shares what others of the cohort do not ask for.
  void read_tree() {
    for (const Job& job : s.jobs) {
      for (const TaskGroup& g : s.shapes[job.shape].groups) {
        asked[job.queue][kCpu] += g.cpu * g.min, asked[job.queue][kMemory] += g.memory * g.min;
        if (g.gpu.count > 0) asked[job.queue][g.gpu.models[0]] += milli(g) * g.min;
      }
    }
    for (auto q = static_cast<Index>(s.queues.size()); q-- > 0;) {  // Children after parents.
      const Index parent = s.queues[q].parent;
      if (parent != kAbsent) height[parent] = std::max(height[parent], height[q] + 1);
      for (Index f = 0; f < s.flavors.size(); ++f) {
        entitled[q][f] += quota_of(s, q, f).nominal;
        if (parent == kAbsent) continue;
        entitled[parent][f] += entitled[q][f], asked[parent][f] += asked[q][f];
      }
    }
    const bool fair = p.preemption.entitlement == Entitlement::kFairShare;
    for (Index q = 0; q < s.queues.size(); ++q) {
      for (Index f = 0; f < s.flavors.size(); ++f) {
        if (!is_counted(s, q, f)) entitled[q][f] = kUnlimited;
        if (is_counted(s, q, f) && fair) pour(q, f);
      }
    }
    for (Index q = 0; q < s.queues.size(); ++q) {
      if (entitled[q] != d.certificate.entitled[q]) found.push_back({"entitled", q});
    }
  }
  std::int64_t subtree(Index q, Index f) const {
    std::int64_t sum = quota_of(s, q, f).nominal;
    for (Index c = q + 1; c < s.queues.size(); ++c) {
      if (s.queues[c].parent == q) sum += std::min(subtree(c, f), quota_of(s, c, f).lend);
    }
    return sum;
  }
  // Water filling of what `q` has among its children: who needs least for its weight, first.
  void pour(Index q, Index f) {
    Wide pool = entitled[q][f], weights = 0;
    std::vector<std::pair<Index, Wide>> needs;
    for (Index child = q + 1; child < s.queues.size(); ++child) {
      if (s.queues[child].parent != q) continue;
      const Quota quota = quota_of(s, child, f);
      const std::int64_t got = std::min(entitled[child][f], asked[child][f]);
      pool -= std::max(got, subtree(child, f) - quota.lend);
      const std::int64_t more = std::min(asked[child][f] - got, quota.borrow);
      if (more > 0) needs.emplace_back(child, more), weights += s.queues[child].weight;
    }
    std::sort(needs.begin(), needs.end(), [&](const auto& a, const auto& b) {
      return a.second * s.queues[b.first].weight < b.second * s.queues[a.first].weight;
    });
    pool = std::max<Wide>(0, pool);
    for (const auto& [child, more] : needs) {
      const Wide weight = s.queues[child].weight;
      const bool all = more * weights <= pool * weight;
      entitled[child][f] += static_cast<std::int64_t>(all ? more : pool * weight / weights);
      if (all) pool -= more, weights -= weight;
    }
  }

  // --- Rights: who may be pushed out for a claim.
  bool right(Index j, const Preempt& v, const std::string& before, const std::string& with) const {
    const Job &job = s.jobs[j], &victim = s.jobs[v.job];
    const Order &a = order[j], &b = order[v.job];
    const Queue& queue = s.queues[job.queue];
    const Duration own = s.queues[victim.queue].min_run;
    if (victim.started + (own.nanos > 0 ? own : p.preemption.min_run) > now) return false;
    auto mine = ancestors(s, job.queue), theirs = ancestors(s, victim.queue);
    const bool same = job.queue == victim.queue, cohort = mine.back() == theirs.back();
    if (!same && (queue.reclaim == Reclaim::kNever ||
                  (queue.reclaim == Reclaim::kLowerPriority && victim.priority >= job.priority))) {
      return false;
    }
    const Scope apart = same ? Scope::kQueue : cohort ? Scope::kCohort : Scope::kCluster;
    if (v.cause == PreemptCause::kPriority) {
      const bool may = same ? queue.within != WithinQueue::kNever : p.preemption.priority >= apart;
      return may && victim.priority < job.priority;
    }
    if (v.cause == PreemptCause::kOrder) {
      const bool later = std::pair(a[3], a[4]) < std::pair(b[3], b[4]);
      const bool newer = same && later && queue.within == WithinQueue::kSubmittedLater;
      const bool margin = b[2] - a[2] >= std::max<std::int64_t>(1, p.preemption.margin);
      return a[0] == b[0] &&
             (newer || (p.preemption.order >= apart && (a[1] == b[1] ? margin : a[1] < b[1])));
    }
    if (same || !cohort) return false;
    for (; !mine.empty() && !theirs.empty() && mine.back() == theirs.back(); mine.pop_back()) {
      theirs.pop_back();
    }
    const auto mark = [&](const std::string& rows, Index of, Index at) {
      const auto i = std::ranges::find(d.certificate.order, of) - d.certificate.order.begin();
      return rows[height[at] * s.jobs.size() + static_cast<std::size_t>(i)] == '1';
    };
    return !mine.empty() && !theirs.empty() && mark(with, j, mine.back()) &&
           !mark(before, v.job, theirs.back());
  }
  void rights() {
    Holding running, claims;
    for (const Reserve& r : d.reserve) {
      if (r.kind == ReserveKind::kClaim) claims[r.job] = &r.placement;
    }
    for (Index j = 0; j < s.jobs.size(); ++j) {
      const JobState state = s.jobs[j].state;
      const bool kept = state == JobState::kClaimed && std::ranges::count(d.released, j) == 0;
      if (kept || state == JobState::kRunning) running[j] = &s.jobs[j].placement;
    }
    std::size_t admitted = 0;
    for (const Step& step : d.certificate.steps) {
      for (; admitted < step.admitted; ++admitted) {
        running[d.admit[admitted].job] = &d.admit[admitted].placement;
      }
      const std::string before = marks(s, d.certificate, running);
      running[step.job] = claims.at(step.job);
      const std::string with = marks(s, d.certificate, running);
      for (const Preempt& v : d.preempt) {
        if (v.for_job != step.job) continue;
        need("right", v.job, right(step.job, v, before, with));
        running.erase(v.job);
      }
    }
  }
};

}  // namespace

std::vector<Violation> conform(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                               const Decisions& decisions) {
  Conformity c{snapshot, policy, now, decisions};
  if (decisions.certificate.steps.empty()) return {};
  c.read_order();
  c.read_tree();
  if (c.found.empty()) c.rights();
  return c.found;
}

}  // namespace falaj::scheduler
