#include "scheduler/quota.h"

#include <algorithm>

#include "scheduler/order.h"

namespace falaj::scheduler {
namespace {

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return a > kUnlimited - b ? kUnlimited : a + b;
}

}  // namespace

QuotaTree::QuotaTree(const Snapshot& snapshot)
    : snapshot_(snapshot), flavors_(snapshot.flavors.size()) {
  const auto count = static_cast<Index>(snapshot.queues.size());
  cells_.resize(count * flavors_);
  root_.resize(count);
  height_.assign(count, 0);
  counted_.assign(count, 0);
  for (Index q = 0; q < count; ++q) {
    const Queue& queue = snapshot.queues[q];
    root_[q] = queue.parent == kAbsent ? q : root_[queue.parent];
    for (const Quota& quota : queue.quotas) {
      Cell& c = cell(q, quota.flavor);
      c.nominal = quota.nominal;
      c.borrow = quota.borrow;
      c.lend = quota.lend;
      counted_[root_[q]] |= 1U << quota.flavor;
    }
    for (std::size_t f = 0; f < flavors_; ++f) cell(q, f).subtree = cell(q, f).nominal;
  }
  for (Index q = count; q-- > 0;) {  // Children stand after their parents.
    const Index above = snapshot.queues[q].parent;
    for (std::size_t f = 0; f < flavors_; ++f) {
      Cell& c = cell(q, f);
      c.local = std::max<std::int64_t>(0, c.subtree - c.lend);
      c.ceiling = above == kAbsent ? c.subtree : plus(c.subtree, c.borrow);
      if (above != kAbsent) cell(above, f).subtree += c.subtree - c.local;
    }
    if (above != kAbsent) height_[above] = std::max(height_[above], height_[q] + 1);
    top_ = std::max(top_, height_[q]);
  }
}

QuotaUse::QuotaUse(const QuotaTree& tree) : tree_(tree), used_(tree.size() * tree.flavors(), 0) {}

Shortage QuotaUse::shortage(Index queue, const Amounts& request) const {
  for (std::size_t f = 0; f < tree_.flavors(); ++f) {
    if (request[f] == 0 || !tree_.counted(queue, f)) continue;
    std::int64_t more = request[f];
    for (Index q = queue; q != kAbsent && more > 0; q = tree_.parent(q)) {
      const std::int64_t now = used(q, f);
      const std::int64_t room = tree_.ceiling(q, f) - now;
      const std::int64_t local = std::max<std::int64_t>(0, tree_.local(q, f) - now);
      if (more <= local) break;
      if (more > room) return {q, static_cast<Index>(f), more - room, more};
      more -= local;
    }
  }
  return {};
}

bool QuotaUse::within_nominal(Index queue, const Amounts& request) const {
  for (std::size_t f = 0; f < tree_.flavors(); ++f) {
    if (request[f] == 0 || !tree_.counted(queue, f)) continue;
    if (used(queue, f) + request[f] > tree_.subtree(queue, f)) return false;
  }
  return true;
}

void QuotaUse::add(Index queue, const Amounts& amounts, std::int64_t sign) {
  for (std::size_t f = 0; f < tree_.flavors(); ++f) {
    std::int64_t change = amounts[f] * sign;
    for (Index q = queue; q != kAbsent && change != 0; q = tree_.parent(q)) {
      std::int64_t& use = used_[q * tree_.flavors() + f];
      const std::int64_t local = tree_.local(q, f);
      const std::int64_t before = std::max<std::int64_t>(0, use - local);
      use += change;
      change = std::max<std::int64_t>(0, use - local) - before;
    }
  }
}

std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<std::int64_t>& weights,
                                    const std::vector<std::int64_t>& needs) {
  std::vector<std::int64_t> given(needs.size(), 0);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i] > 0) open.push_back(i);
  }
  while (!open.empty() && total > 0) {
    std::int64_t sum = 0;
    for (const std::size_t i : open) sum += weights[i];
    std::vector<std::size_t> rest;
    std::int64_t spent = 0;
    for (const std::size_t i : open) {
      if (needs[i] <= scaled(total, weights[i], sum)) {
        given[i] = needs[i];
        spent += needs[i];
      } else {
        rest.push_back(i);
      }
    }
    if (rest.size() == open.size()) {
      for (const std::size_t i : open) given[i] = scaled(total, weights[i], sum);
      break;
    }
    total -= spent;
    open = std::move(rest);
  }
  return given;
}

namespace {

// What is asked for in each queue and below, by the first model that each job names: the same
// whether a job runs or waits.
std::vector<std::int64_t> demand(const Snapshot& snapshot, const QuotaTree& tree) {
  const std::size_t flavors = tree.flavors();
  std::vector<Amounts> asked;
  asked.reserve(snapshot.shapes.size());
  for (const Shape& shape : snapshot.shapes) asked.push_back(core_request(shape, 0));
  std::vector<std::int64_t> sum(tree.size() * flavors, 0);
  for (const Job& job : snapshot.jobs) {
    for (std::size_t f = 0; f < flavors; ++f) sum[job.queue * flavors + f] += asked[job.shape][f];
  }
  for (auto q = static_cast<Index>(tree.size()); q-- > 0;) {
    if (tree.parent(q) == kAbsent) continue;
    for (std::size_t f = 0; f < flavors; ++f) {
      sum[tree.parent(q) * flavors + f] += sum[q * flavors + f];
    }
  }
  return sum;
}

// Divides what `above` is entitled to among its children.
void divide(const Snapshot& snapshot, const QuotaTree& tree, const std::vector<Index>& children,
            std::size_t f, std::int64_t pool, const std::vector<std::int64_t>& asked,
            std::vector<std::int64_t>& entitled) {
  const std::size_t flavors = tree.flavors();
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> needs;
  for (const Index c : children) {
    const std::int64_t own = std::min(entitled[c * flavors + f], asked[c * flavors + f]);
    pool -= std::max(own, tree.local(c, f));  // What it does not lend is nobody else's.
    weights.push_back(snapshot.queues[c].weight);
    needs.push_back(std::min(asked[c * flavors + f] - own, tree.borrow(c, f)));
  }
  const auto extra = share_out(std::max<std::int64_t>(0, pool), weights, needs);
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::int64_t& mine = entitled[children[i] * flavors + f];
    mine = std::max(mine, std::min(mine, asked[children[i] * flavors + f]) + extra[i]);
  }
}

}  // namespace

std::vector<std::int64_t> entitlements(const Snapshot& snapshot, const QuotaTree& tree,
                                       Entitlement kind) {
  const std::size_t flavors = tree.flavors();
  std::vector<std::int64_t> entitled(tree.size() * flavors, 0);
  std::vector<std::vector<Index>> children(tree.size());
  for (auto q = static_cast<Index>(tree.size()); q-- > 0;) {
    const Index above = tree.parent(q);
    for (std::size_t f = 0; f < flavors; ++f) {
      entitled[q * flavors + f] += tree.nominal(q, f);
      if (above != kAbsent) entitled[above * flavors + f] += entitled[q * flavors + f];
    }
    if (above != kAbsent) children[above].push_back(q);
  }
  if (kind == Entitlement::kNominal) return entitled;
  const auto asked = demand(snapshot, tree);
  for (Index q = 0; q < tree.size(); ++q) {
    if (children[q].empty()) continue;
    for (std::size_t f = 0; f < flavors; ++f) {
      if (!tree.counted(q, f)) continue;
      divide(snapshot, tree, children[q], f, entitled[q * flavors + f], asked, entitled);
    }
  }
  return entitled;
}

std::int64_t decayed(std::int64_t use, Duration elapsed, Duration half_life) {
  if (elapsed.nanos <= 0 || half_life.nanos <= 0) return use;
  const std::int64_t whole = elapsed.nanos / half_life.nanos;
  if (whole > 62) return 0;
  const std::int64_t rest = scaled(elapsed.nanos % half_life.nanos, 4096, half_life.nanos);
  // 2^-x on [0,1) as a polynomial in twelve binary digits, exact at both ends.
  const std::int64_t x = rest;
  const std::int64_t factor = 4096 - (x * (2818 - (x * 770) / 4096)) / 4096;
  return scaled(use >> whole, std::clamp<std::int64_t>(factor, 2048, 4096), 4096);
}

std::vector<std::int64_t> overuse(const Snapshot& snapshot) {
  const std::size_t count = snapshot.queues.size();
  std::vector<std::int64_t> use(count);
  std::vector<std::int64_t> weights(count, 0);  // Of all children of a queue together.
  std::int64_t all = 0;
  std::int64_t root_weights = 0;
  for (std::size_t q = count; q-- > 0;) {
    const Queue& queue = snapshot.queues[q];
    use[q] += queue.decayed_use;
    if (queue.parent != kAbsent) {
      use[queue.parent] += use[q];
      weights[queue.parent] += queue.weight;
    } else {
      all += use[q];
      root_weights += queue.weight;
    }
  }
  std::vector<std::int64_t> over(count, 0);
  if (all == 0) return over;
  const std::int64_t total = log2_points(all);
  std::vector<std::int64_t> part(count);  // Logarithm of the weighted part of the whole.
  for (std::size_t q = 0; q < count; ++q) {
    const Queue& queue = snapshot.queues[q];
    const bool top = queue.parent == kAbsent;
    const std::int64_t siblings = top ? root_weights : weights[queue.parent];
    part[q] = (top ? 0 : part[queue.parent]) + log2_points(queue.weight) - log2_points(siblings);
    const std::int64_t mine = log2_points(use[q] + 1) - total - part[q];
    over[q] = top ? mine : std::max(mine, over[queue.parent]);
  }
  return over;
}

}  // namespace falaj::scheduler
