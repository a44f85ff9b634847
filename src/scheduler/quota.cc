#include "scheduler/quota.h"

#include <algorithm>
#include <array>
#include <limits>

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

namespace {
__extension__ using Wide = unsigned __int128;

constexpr int kBits = 32;   // Of the part of a half-life that is told apart.
constexpr int kPoint = 62;  // Binary digits of the factors.

constexpr std::uint64_t square_root(Wide x) {
  Wide root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Wide next = root | Wide{1} << bit;
    if (next * next <= x) root = next;
  }
  return static_cast<std::uint64_t>(root);
}

// 2^-1/2, 2^-1/4, 2^-1/8, …
constexpr std::array<std::uint64_t, kBits> factors() {
  std::array<std::uint64_t, kBits> out{};
  std::uint64_t last = std::uint64_t{1} << (kPoint - 1);
  for (std::uint64_t& each : out) each = last = square_root(Wide{last} << kPoint);
  return out;
}
constexpr auto kFactors = factors();

}  // namespace

std::int64_t decayed(std::int64_t use, Duration elapsed, Duration half_life) {
  if (elapsed.nanos <= 0 || half_life.nanos <= 0) return use;
  const std::int64_t whole = elapsed.nanos / half_life.nanos;
  if (whole > 62) return 0;
  const std::int64_t part =
      scaled(elapsed.nanos % half_life.nanos, std::int64_t{1} << kBits, half_life.nanos);
  std::uint64_t factor = std::uint64_t{1} << kPoint;
  for (int i = 0; i < kBits; ++i) {
    const bool set = (part >> (kBits - 1 - i) & 1) != 0;
    if (set) factor = static_cast<std::uint64_t>(Wide{factor} * kFactors[i] >> kPoint);
  }
  return static_cast<std::int64_t>(Wide{static_cast<std::uint64_t>(use)} * factor >>
                                   (kPoint + whole));
}

// Held for ever, so many units come to held × half-life / ln 2; of what is missing to that, half is
// left after a half-life.
std::int64_t decayed(std::int64_t use, std::int64_t held, Duration elapsed, Duration half_life) {
  constexpr std::int64_t kInverseLn2 = 1'442'695'041;  // In thousand millionths.
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (elapsed.nanos <= 0 || half_life.nanos <= 0) return use;
  const std::int64_t limit = scaled(scaled(held, half_life.nanos, kSecond), kInverseLn2, kSecond);
  return plus(decayed(use, elapsed, half_life), limit - decayed(limit, elapsed, half_life));
}

namespace {

// All there is of each flavor, whatever state the nodes are in: shares do not jump when one is
// closed for an hour.
Amounts capacity(const Snapshot& snapshot) {
  std::vector<std::int64_t> nodes(snapshot.classes.size(), 0);
  for (const Node& node : snapshot.nodes) ++nodes[node.node_class];
  Amounts all{};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeClass& c = snapshot.classes[i];
    all[kCpu] = plus(all[kCpu], scaled(c.cpu, nodes[i], 1));
    all[kMemory] = plus(all[kMemory], scaled(c.memory, nodes[i], 1));
    if (c.gpus > 0) all[c.gpu_flavor] += std::int64_t{c.gpus} * 1000 * nodes[i];
  }
  return all;
}

// For how many microseconds this would have kept all there is of a flavor busy, of that flavor for
// which it is most. Thirty-five years are for ever.
std::int64_t dominant(const Amounts& use, const Amounts& all) {
  std::int64_t most = 0;
  for (std::size_t f = 0; f < kMaxFlavors; ++f) {
    if (all[f] > 0) most = std::max(most, scaled(use[f], 1'000'000, all[f]));
  }
  return std::min(most, std::int64_t{1} << 50);
}

}  // namespace

std::vector<std::int64_t> overuse(const Snapshot& snapshot) {
  const std::size_t count = snapshot.queues.size();
  const Amounts all = capacity(snapshot);
  std::vector<Amounts> use(count, Amounts{});       // With all below it.
  std::vector<std::int64_t> share(count, 0);        // Its dominant part of that.
  std::vector<std::int64_t> shares(count + 1, 0);   // Of its children together, and its own jobs;
  std::vector<std::int64_t> weights(count + 1, 0);  // … at last of those without a parent.
  const auto above = [&](std::size_t q) {
    return snapshot.queues[q].parent == kAbsent ? count : snapshot.queues[q].parent;
  };
  for (std::size_t q = count; q-- > 0;) {  // Children stand after their parents.
    const Queue& queue = snapshot.queues[q];
    Amounts own{};
    std::copy(queue.decayed_use.begin(), queue.decayed_use.end(), own.begin());
    for (std::size_t f = 0; f < kMaxFlavors; ++f) use[q][f] = plus(use[q][f], own[f]);
    share[q] = dominant(use[q], all);
    shares[q] += dominant(own, all);
    shares[above(q)] += share[q];
    weights[above(q)] += queue.weight;
    if (queue.parent == kAbsent) continue;
    for (std::size_t f = 0; f < kMaxFlavors; ++f) {
      use[queue.parent][f] = plus(use[queue.parent][f], use[q][f]);
    }
  }
  std::vector<std::int64_t> over(count, 0);
  std::vector<std::int64_t> sum(count + 1, 0);  // Of all levels down to it.
  // The worst of those above the children of a queue. Who is alone at its level, as a root that has
  // all below it, stands beside nobody and says nothing about them.
  std::vector<std::int64_t> worst(count + 1, std::numeric_limits<std::int64_t>::min());
  if (shares[count] == 0) return over;
  for (std::size_t q = 0; q < count; ++q) {
    const std::size_t p = above(q);
    const std::int64_t part = log2_points(snapshot.queues[q].weight) - log2_points(weights[p]);
    const std::int64_t here = log2_points(share[q] + 1) - log2_points(shares[p]) - part;
    sum[q] = sum[p] + (shares[p] == 0 ? 0 : here);
    over[q] = std::max(sum[q], worst[p]);
    worst[q] = weights[p] == snapshot.queues[q].weight ? worst[p] : over[q];
  }
  return over;
}

}  // namespace falaj::scheduler
