#include <algorithm>
#include <bit>

#include "scheduler/verify_parts.h"

namespace falaj::scheduler::verifying {
namespace {

__extension__ using Wide = __int128;

std::int64_t points(std::int64_t x) {  // 1000 log2, straight between powers of two.
  if (x < 2) return 0;
  const int power = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x))) - 1;
  const Wide over = Wide{x} - (Wide{1} << power);
  return 1000 * power + static_cast<std::int64_t>(over * 1000 >> power);
}

// How much more than its part the queue, or one above it, has used.
std::int64_t overuse(const Snapshot& s, Index queue) {
  Sums use(s.queues.size(), 0);
  std::int64_t all = 0;
  for (std::size_t q = use.size(); q-- > 0;) {
    use[q] += s.queues[q].decayed_use;
    (s.queues[q].parent == kAbsent ? all : use[s.queues[q].parent]) += use[q];
  }
  if (all == 0) return 0;
  std::vector<Index> up;
  for (Index q = queue; q != kAbsent; q = s.queues[q].parent) up.push_back(q);
  std::int64_t part = 0;
  std::int64_t worst = 0;
  for (std::size_t i = up.size(); i-- > 0;) {
    std::int64_t siblings = 0;
    for (const Queue& q : s.queues) {
      if (q.parent == s.queues[up[i]].parent) siblings += q.weight;
    }
    part += points(s.queues[up[i]].weight) - points(siblings);
    const std::int64_t mine = points(use[up[i]] + 1) - points(all) - part;
    worst = i + 1 == up.size() ? mine : std::max(worst, mine);
  }
  return worst;
}

std::int64_t score(const Case& c, Index j) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const Job& job = c.snapshot.jobs[j];
  const OrderWeights& w = c.policy.order;
  std::int64_t gpus = 0;
  std::int64_t cores = 0;
  for (const TaskGroup& g : c.shape(j).groups) {
    gpus += milli(g) * g.min;
    cores += g.cpu * g.min;
  }
  const std::int64_t size = std::max<std::int64_t>(1, gpus > 0 ? gpus : cores / 100);
  const Duration half{c.policy.unknown_run.nanos / 2};
  const Duration middle =
      std::min(job.remaining_p50.nanos > 0 ? job.remaining_p50 : half, job.max_run);
  const std::int64_t age = std::max<std::int64_t>(0, (c.now - job.submitted).nanos / kSecond);
  const std::int64_t ageing = w.age * points(1 + age) / 1000 + w.points_per_hour * age / 3600;
  return w.p50 * points(1 + middle.nanos / kSecond) / 1000 +
         w.p90 * points(1 + c.upper(j).nanos / kSecond) / 1000 + w.size * points(size) / 1000 +
         w.attained * points(1 + job.attained) / 1000 +
         w.share * overuse(c.snapshot, job.queue) / 1000 - std::min(ageing, w.age_cap);
}

// Cells per queue and flavor.
struct Tree {
  Sums asked, local, borrow;
};

Tree read_tree(const Case& c, Ground& g) {
  const Snapshot& s = c.snapshot;
  const std::size_t cells = s.queues.size() * g.flavors;
  Tree tree{Sums(cells, 0), Sums(cells, 0), Sums(cells, kUnlimited)};
  Sums subtree(cells, 0);
  for (Index j = 0; j < s.jobs.size(); ++j) {
    const Sums sums = core(c, j, nullptr);
    for (std::size_t f = 0; f < g.flavors; ++f)
      tree.asked[s.jobs[j].queue * g.flavors + f] += sums[f];
  }
  for (std::size_t q = s.queues.size(); q-- > 0;) {
    const Index above = s.queues[q].parent;
    Sums lend(g.flavors, kUnlimited);
    for (const Quota& quota : s.queues[q].quotas) {
      const std::size_t cell = q * g.flavors + quota.flavor;
      g.entitled[cell] += quota.nominal;
      subtree[cell] += quota.nominal;
      tree.borrow[cell] = quota.borrow;
      lend[quota.flavor] = quota.lend;
      g.counted[c.root(static_cast<Index>(q)) * g.flavors + quota.flavor] = 1;
    }
    for (std::size_t f = 0; f < g.flavors; ++f) {
      const std::size_t cell = q * g.flavors + f;
      tree.local[cell] = std::max<std::int64_t>(0, subtree[cell] - lend[f]);
      if (above == kAbsent) continue;
      tree.asked[above * g.flavors + f] += tree.asked[cell];
      g.entitled[above * g.flavors + f] += g.entitled[cell];
      subtree[above * g.flavors + f] += subtree[cell] - tree.local[cell];
    }
    if (above != kAbsent) g.height[above] = std::max(g.height[above], g.height[q] + 1);
  }
  return tree;
}

// Water filling: what `q` has of a flavor, among its children.
void pour(const Case& c, std::size_t q, std::size_t f, const Tree& tree, Ground& g) {
  const auto& queues = c.snapshot.queues;
  std::int64_t pool = g.entitled[q * g.flavors + f];
  std::map<std::size_t, std::int64_t> need, got;
  for (std::size_t child = q + 1; child < queues.size(); ++child) {
    if (queues[child].parent != q) continue;
    const std::size_t cell = child * g.flavors + f;
    got[child] = std::min(g.entitled[cell], tree.asked[cell]);
    pool -= std::max(got[child], tree.local[cell]);
    need[child] = std::min(tree.asked[cell] - got[child], tree.borrow[cell]);
  }
  std::erase_if(need, [](const auto& entry) { return entry.second <= 0; });
  while (pool > 0 && !need.empty()) {
    Wide weights = 0;
    for (const auto& [child, want] : need) weights += queues[child].weight;
    const std::int64_t had = pool;
    const auto part = [&](std::size_t child) {
      return static_cast<std::int64_t>(Wide{had} * queues[child].weight / weights);
    };
    const std::size_t content = std::erase_if(need, [&](const auto& entry) {
      if (entry.second > part(entry.first)) return false;
      got[entry.first] += entry.second;
      pool -= entry.second;
      return true;
    });
    if (content > 0) continue;
    for (const auto& [child, want] : need) got[child] += part(child);
    break;
  }
  for (const auto& [child, amount] : got) {
    std::int64_t& mine = g.entitled[child * g.flavors + f];
    mine = std::max(mine, amount);
  }
}

}  // namespace

Sums core(const Case& c, Index job, const Placement* where) {
  Sums sums(c.snapshot.flavors.size(), 0);
  const auto& groups = c.shape(job).groups;
  std::size_t begin = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::uint32_t i = 0; i < groups[g].min; ++i) {
      sums[kCpu] += groups[g].cpu;
      sums[kMemory] += groups[g].memory;
      if (groups[g].gpu.count == 0) continue;
      const Index model = where == nullptr ? groups[g].gpu.models[0]
                                           : c.kind(where->pods[begin + i].node).gpu_flavor;
      sums[model] += milli(groups[g]);
    }
    if (where != nullptr) begin += where->counts[g];
  }
  return sums;
}

bool Ground::better(const Snapshot& snapshot, Index a, Index b) const {
  const Job& x = snapshot.jobs[a];
  const Job& y = snapshot.jobs[b];
  if (x.priority != y.priority) return x.priority > y.priority;
  return urgent[a] != urgent[b] ? urgent[a] > urgent[b] : scores[a] < scores[b];
}

Ground ground(const Case& c) {
  const Snapshot& s = c.snapshot;
  Ground g;
  g.flavors = s.flavors.size();
  g.entitled.assign(s.queues.size() * g.flavors, 0);
  g.counted.assign(s.queues.size() * g.flavors, 0);
  g.height.assign(s.queues.size(), 0);
  const Tree tree = read_tree(c, g);
  const bool fair = c.policy.preemption.entitlement == Entitlement::kFairShare;
  for (Index q = 0; fair && q < s.queues.size(); ++q) {
    for (std::size_t f = 0; f < g.flavors; ++f) {
      if (g.counted[c.root(q) * g.flavors + f] != 0) pour(c, q, f, tree, g);
    }
  }
  for (Index j = 0; j < s.jobs.size(); ++j) {
    const Timestamp deadline = s.jobs[j].deadline;
    g.ranked.push_back(j);
    g.scores.push_back(score(c, j));
    g.urgent.push_back(deadline != Timestamp::max() &&
                       deadline < c.now + c.upper(j) + c.policy.order.deadline_slack);
  }
  std::sort(g.ranked.begin(), g.ranked.end(), [&](Index a, Index b) {
    if (g.better(s, a, b) || g.better(s, b, a)) return g.better(s, a, b);
    const Job& x = s.jobs[a];
    const Job& y = s.jobs[b];
    return x.submitted != y.submitted ? x.submitted < y.submitted : x.id < y.id;
  });
  return g;
}

}  // namespace falaj::scheduler::verifying
