#include "serving/rollout/step_counters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/check.h"

namespace falaj::serving::rollout {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::size_t kCuts = 9;

std::size_t index(ArmName arm) { return static_cast<std::size_t>(arm); }

// What was counted since `before`; parts stay within their wholes.
Arm since(const Arm& before, Arm now) {
  now.requests -= before.requests;
  now.units -= before.units;
  now.errors = std::min(now.errors - before.errors, now.units);
  now.scored = std::min(now.scored - before.scored, now.units);
  now.nans = std::min(now.nans - before.nans, now.scored);
  auto old = before.latency.begin();
  for (LatencyBin& bin : now.latency) {
    if (old == before.latency.end() || old->upper_nanos != bin.upper_nanos) continue;
    bin.count -= old->count;
    ++old;
  }
  std::erase_if(now.latency, [](const LatencyBin& bin) { return bin.count <= 0; });
  for (std::size_t i = 0; i < std::min(now.scores.size(), before.scores.size()); ++i) {
    now.scores[i] -= before.scores[i];
  }
  return now;
}

}  // namespace

StepCounters::StepCounters(StepKind kind, std::vector<float> edges)
    : kind_(kind), edges_(std::move(edges)) {
  FALAJ_CHECK(edges_.size() < std::tuple_size_v<decltype(Counts::scores)>);
  for (Votes* votes : {&whole_, &recent_}) {
    for (auto* bits : {&votes->voted, &votes->scored}) {
      for (Bits& each : *bits) each = Bits(kBits / 64);
    }
  }
  if (!edges_.empty()) cuts_.store(&edges_, std::memory_order_release);
}

bool StepCounters::first_time(std::array<Bits, 2>& bits, ArmName arm, std::uint64_t unit) const {
  const std::size_t bit = unit % kBits;
  Bits& own = bits[kind_ == StepKind::kShadow ? index(arm) : 0];
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  std::atomic<std::uint64_t>& word = own[bit / 64];
  // Looked at first: most requests are of units that were here before.
  return (word.load(kRelaxed) & mask) == 0 && (word.fetch_or(mask, kRelaxed) & mask) == 0;
}

void StepCounters::answered(ArmName arm, const Answered& request) {
  const std::vector<float>* edges = cuts_.load(std::memory_order_acquire);
  vote(whole_, arm, request, edges);
  vote(recent_, arm, request, edges);
}

void StepCounters::vote(Votes& votes, ArmName arm, const Answered& request,
                        const std::vector<float>* edges) {
  Counts& counts = votes.counts[index(arm)];
  counts.requests.fetch_add(1, kRelaxed);
  const bool fresh = first_time(votes.voted, arm, request.unit);
  const bool finite = request.scored > 0 && std::isfinite(request.score);
  if (fresh) {
    counts.units.fetch_add(1, kRelaxed);
    if (request.scored > 0) counts.scored.fetch_add(1, kRelaxed);
    if (request.nans > 0) counts.nans.fetch_add(1, kRelaxed);
    if (request.nanos >= 0) counts.latency->observe_nanos(request.nanos);
    if (edges == nullptr && finite && arm == ArmName::kChampion && &votes == &whole_) {
      learn(request.score);
    }
  }
  if (edges == nullptr || !finite || !first_time(votes.scored, arm, request.unit)) return;
  // A score on an edge belongs below it.
  const auto at = std::lower_bound(edges->begin(), edges->end(), request.score);
  counts.scores[static_cast<std::size_t>(at - edges->begin())].fetch_add(1, kRelaxed);
}

void StepCounters::failed(ArmName arm, std::uint64_t unit) {
  vote_failed(whole_, arm, unit);
  vote_failed(recent_, arm, unit);
}

void StepCounters::vote_failed(Votes& votes, ArmName arm, std::uint64_t unit) {
  Counts& counts = votes.counts[index(arm)];
  counts.requests.fetch_add(1, kRelaxed);
  if (!first_time(votes.voted, arm, unit)) return;
  counts.units.fetch_add(1, kRelaxed);
  counts.errors.fetch_add(1, kRelaxed);
}

void StepCounters::learn(float score) {
  if (next_learned_.load(kRelaxed) >= kLearned) return;
  const std::size_t at = next_learned_.fetch_add(1, kRelaxed);
  if (at >= kLearned) return;
  learned_[at].store(score, kRelaxed);
  learned_count_.fetch_add(1, std::memory_order_release);
}

std::vector<float> StepCounters::learn_edges() {
  if (!edges_.empty() || learned_count_.load(std::memory_order_acquire) < kLearned) return {};
  std::vector<float> scores;
  for (const auto& score : learned_) scores.push_back(score.load(kRelaxed));
  std::sort(scores.begin(), scores.end());
  std::set<float> edges;
  for (std::size_t cut = 1; cut <= kCuts; ++cut) {
    const float edge = scores[cut * kLearned / (kCuts + 1)];
    // A score that many have gets a bin of its own: less and more than it are both changes.
    const bool common = !edges.insert(edge).second;
    if (common) edges.insert(std::nextafter(edge, -std::numeric_limits<float>::infinity()));
  }
  edges_.assign(edges.begin(), edges.end());
  cuts_.store(&edges_, std::memory_order_release);
  return edges_;
}

void StepCounters::begin_window(Timestamp now) {
  for (auto* bits : {&recent_.voted, &recent_.scored}) {
    for (Bits& each : *bits) {
      for (auto& word : each) word.store(0, kRelaxed);
    }
  }
  before_ = read(recent_);
  window_began_ = now;
  ++window_;
}

Arms StepCounters::read_window() const {
  const Arms all = read(recent_);
  return {since(before_.champion, all.champion), since(before_.candidate, all.candidate)};
}

void StepCounters::observe(Timestamp now, Evidence& evidence) {
  if (window_ == 0) {
    window_ = 1;
    window_began_ = now;
  }
  evidence.whole = read(whole_);
  evidence.recent = read_window();
  evidence.window = window_;
  const Arm& ours = evidence.recent.champion;
  const Arm& theirs = evidence.recent.candidate;
  const bool all_voted = ours.requests + theirs.requests >= 4 * (ours.units + theirs.units);
  if (now - window_began_ >= (all_voted ? kShortWindow : kWindow)) begin_window(now);
}

Arms StepCounters::read(const Votes& votes) const {
  return {read(votes, ArmName::kChampion), read(votes, ArmName::kCandidate)};
}

Arm StepCounters::read(const Votes& votes, ArmName arm) const {
  const Counts& counts = votes.counts[index(arm)];
  Arm read;
  // Parts before wholes, so that no share is seen above one.
  read.errors = counts.errors.load(kRelaxed);
  read.nans = counts.nans.load(kRelaxed);
  read.scored = std::max(counts.scored.load(kRelaxed), read.nans);
  read.units = std::max({counts.units.load(kRelaxed), read.errors, read.scored});
  read.requests = std::max(counts.requests.load(kRelaxed), read.units);
  const telemetry::HistogramSnapshot latency = counts.latency->snapshot();
  for (std::size_t i = 0; i < latency.buckets.size(); ++i) {
    if (latency.buckets[i] == 0) continue;
    read.latency.push_back(
        {telemetry::bucket_last_nanos(i), static_cast<std::int64_t>(latency.buckets[i])});
  }
  for (std::size_t i = 0; !edges_.empty() && i <= edges_.size(); ++i) {
    read.scores.push_back(counts.scores[i].load(kRelaxed));
  }
  return read;
}

}  // namespace falaj::serving::rollout
