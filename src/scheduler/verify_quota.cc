#include <algorithm>
#include <set>

#include "scheduler/verify_parts.h"

namespace falaj::scheduler::verifying {
namespace {

__extension__ using Wide = __int128;

Sums charge(const Case& c, Index job, const Placement& where) {
  Sums sums(c.snapshot.flavors.size(), 0);
  c.each(job, where, [&](const TaskGroup& g, const PodPlacement& pod, std::uint32_t) {
    sums[kCpu] += g.cpu;
    sums[kMemory] += g.memory;
    if (g.gpu.count > 0) sums[c.kind(pod.node).gpu_flavor] += milli(g);
  });
  return sums;
}

}  // namespace

// Nominal, borrowing and lending, for every queue that got something new.
void check_quota(Case& c, const Holding& holding, const std::vector<Index>& fresh) {
  const Snapshot& s = c.snapshot;
  const std::size_t queues = s.queues.size();
  std::map<Index, Sums> asked;
  for (const auto& [j, where] : holding) asked[j] = charge(c, j, *where);
  for (Index f = 0; f < s.flavors.size(); ++f) {
    Sums subtree(queues, 0), local(queues, 0), ceiling(queues, kUnlimited), use(queues, 0);
    std::set<Index> counted;  // Roots of trees that mention the flavor.
    for (const auto& [j, sums] : asked) use[s.jobs[j].queue] += sums[f];
    for (std::size_t q = queues; q-- > 0;) {
      const Queue& queue = s.queues[q];
      std::int64_t borrow = kUnlimited, lend = kUnlimited;
      for (const Quota& quota : queue.quotas) {
        if (quota.flavor != f) continue;
        subtree[q] += quota.nominal, borrow = quota.borrow, lend = quota.lend;
        counted.insert(c.root(static_cast<Index>(q)));
      }
      local[q] = std::max<std::int64_t>(0, subtree[q] - lend);
      const bool top = queue.parent == kAbsent;
      if (top || borrow < kUnlimited - subtree[q]) ceiling[q] = subtree[q] + (top ? 0 : borrow);
      if (top) continue;
      subtree[queue.parent] += subtree[q] - local[q];
      use[queue.parent] += std::max<std::int64_t>(0, use[q] - local[q]);
    }
    const auto within = [&](Index j) {
      if (!asked.contains(j) || !counted.contains(c.root(s.jobs[j].queue))) return;
      const bool ran = s.jobs[j].state == JobState::kRunning;  // What it had is not new.
      if (asked[j][f] <= (ran ? charge(c, j, s.jobs[j].placement)[f] : 0)) return;
      for (Index q = s.jobs[j].queue; q != kAbsent && use[q] > local[q]; q = s.queues[q].parent) {
        if (use[q] > ceiling[q]) c.fail(ViolationKind::kQuota, j, "beyond nominal and borrowed");
      }
    };
    for (const Index j : fresh) within(j);
  }
}

void check_budgets(Case& c, const Holding& later, const std::vector<Index>& fresh) {
  const Snapshot& s = c.snapshot;
  std::vector<Sums> spent(s.queues.size());
  for (std::size_t q = 0; q < spent.size(); ++q) spent[q].assign(s.queues[q].allowances.size(), 0);
  const auto amount = [&](const Allowance& a, Index j, const Placement& where) {
    const std::int64_t window = std::max<std::int64_t>(0, (a.window_end - c.now).nanos);
    const std::int64_t seconds = std::min(c.upper(j).nanos, window) / 1'000'000'000;
    Wide gpus = 0, money = 0, watts = 0;
    c.each(j, where, [&](const TaskGroup& g, const PodPlacement& pod, std::uint32_t) {
      const NodeClass& kind = c.kind(pod.node);
      gpus += milli(g), watts += milli(g) * kind.watts_per_gpu / 1000;
      money += Wide{milli(g)} * kind.price_per_gpu_hour / 1000 +
               Wide{g.cpu} * kind.price_per_core_hour / 1000;
    });
    if (a.kind == AllowanceKind::kGpuSeconds) return gpus * seconds;
    return a.kind == AllowanceKind::kMoney ? money * seconds / 3600 : watts * seconds;
  };
  for (const auto& [j, where] : later) {
    for (Index q = s.jobs[j].queue; q != kAbsent; q = s.queues[q].parent) {
      for (std::size_t i = 0; i < spent[q].size(); ++i) {
        spent[q][i] += static_cast<std::int64_t>(amount(s.queues[q].allowances[i], j, *where));
      }
    }
  }
  for (const Index j : fresh) {
    const Job& job = s.jobs[j];
    const Allowance hour{AllowanceKind::kMoney, 0, 0, Timestamp::max()};
    if (job.cost_cap != kUnlimited && amount(hour, j, *later.at(j)) > job.cost_cap - job.spent) {
      c.fail(ViolationKind::kBudget, j, "beyond its cost cap");
    }
    for (Index q = job.queue; q != kAbsent; q = s.queues[q].parent) {
      for (std::size_t i = 0; i < spent[q].size(); ++i) {
        const Allowance& a = s.queues[q].allowances[i];
        if (amount(a, j, *later.at(j)) > 0 && a.spent + spent[q][i] > a.limit) {
          c.fail(ViolationKind::kBudget, j, "beyond an allowance");
        }
      }
    }
  }
}

}  // namespace falaj::scheduler::verifying
