#include "scheduler/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace falaj::scheduler {
namespace {

constexpr double kBinsPerOctave = 4;
constexpr double kNanos = 1e9;

double seconds_at(int bin) { return std::exp2(bin / kBinsPerOctave); }

// The edges in seconds, and one past the last.
const std::array<double, Predictor::kBins + 1>& edges() {
  static const auto kEdges = [] {
    std::array<double, Predictor::kBins + 1> made{};
    for (int bin = 0; bin <= Predictor::kBins; ++bin) {
      made[static_cast<std::size_t>(bin)] = bin == 0 ? 0 : seconds_at(bin);
    }
    return made;
  }();
  return kEdges;
}

Duration of_seconds(double seconds) { return {std::llround(std::min(seconds, 9e9) * kNanos)}; }

}  // namespace

int Predictor::bin_of(Duration run_time) {
  const double seconds = run_time.as_seconds();
  if (seconds < seconds_at(1)) return 0;
  const int bin = static_cast<int>(std::log2(seconds) * kBinsPerOctave);
  return std::clamp(bin, 0, kBins - 1);
}

Duration Predictor::bin_begin(int bin) {
  return of_seconds(edges()[static_cast<std::size_t>(bin)]);
}

void Predictor::Histogram::add(int bin, double memory) {
  const double keep = 1 - 1 / memory;
  for (double& weight_of_bin : weight) weight_of_bin *= keep;
  weight[static_cast<std::size_t>(bin)] += 1;
  total = total * keep + 1;
}

void Predictor::observe(const JobKind& kind, Duration run_time) {
  const int bin = bin_of(run_time);
  Kind& own = kinds_[kind];
  own.fast.add(bin, options_.fast_memory);
  own.slow.add(bin, options_.slow_memory);
  ++own.ended;
  tenants_[kind.tenant].add(bin, options_.slow_memory);
  all_.add(bin, options_.slow_memory * 4);
}

void Predictor::blend(Weights& mix, const Histogram& own) const {
  if (own.total <= 0) return;
  const double scale = 1 / (own.total + options_.trust);
  for (std::size_t bin = 0; bin < mix.size(); ++bin) {
    mix[bin] = (own.weight[bin] + options_.trust * mix[bin]) * scale;
  }
}

Predictor::Weights Predictor::mixture(const JobKind& kind) const {
  Weights mix{};
  // Before anything is known: a minute to twelve days, each octave as likely as the next.
  constexpr int kGuessFrom = 24;
  constexpr int kGuessTo = 80;
  for (int bin = kGuessFrom; bin < kGuessTo; ++bin) {
    mix[static_cast<std::size_t>(bin)] = 1.0 / (kGuessTo - kGuessFrom);
  }
  blend(mix, all_);
  if (const auto tenant = tenants_.find(kind.tenant); tenant != tenants_.end()) {
    blend(mix, tenant->second);
  }
  if (const auto own = kinds_.find(kind); own != kinds_.end()) {
    blend(mix, own->second.slow);
    blend(mix, own->second.fast);
  }
  return mix;
}

Forecast Predictor::forecast(const JobKind& kind, Duration elapsed) const {
  return told(mixture(kind), elapsed);
}

std::optional<Forecast> Predictor::own_forecast(const JobKind& kind, Duration elapsed,
                                                std::int64_t ended_min) const {
  const auto own = kinds_.find(kind);
  if (own == kinds_.end() || own->second.ended < ended_min) return std::nullopt;
  Weights mix{};
  const auto add = [&](const Histogram& part) {
    for (std::size_t bin = 0; bin < mix.size(); ++bin) {
      mix[bin] += part.weight[bin] / part.total / 2;
    }
  };
  add(own->second.slow);
  add(own->second.fast);
  return told(mix, elapsed);
}

Forecast Predictor::told(const Weights& mix, Duration elapsed) {
  const int first = bin_of(elapsed);
  const double begin = elapsed.as_seconds();
  const auto& edge = edges();
  // Within the bin it is in, only those that live longer than it has: the rest of the bin.
  const auto at = static_cast<std::size_t>(first);
  const double width = edge[at + 1] - edge[at];
  const double rest = std::clamp((edge[at + 1] - begin) / width, 0.0, 1.0);
  double alive = mix[at] * rest;
  for (std::size_t bin = at + 1; bin < mix.size(); ++bin) alive += mix[bin];
  Forecast out{.p50 = {}, .p90 = {}, .effort = {}, .valid_until = bin_begin(first + 1)};
  if (alive <= 1e-12) {
    // Nobody ever lived so long: as long again, as heavy tails have it.
    out.p50 = out.p90 = out.effort = of_seconds(std::max(begin, 1.0));
    return out;
  }
  double ended = 0;
  double spent = 0;  // Expected run time from now, of those that end by the edge.
  double effort = std::numeric_limits<double>::max();
  for (std::size_t bin = at; bin < mix.size(); ++bin) {
    const double mass = bin == at ? mix[bin] * rest : mix[bin];
    if (mass <= 0) continue;
    const double low = std::max(edge[bin], begin);
    spent += mass * ((low + edge[bin + 1]) / 2 - begin);
    const double before = ended;
    ended += mass;
    const double served = spent + (alive - ended) * (edge[bin + 1] - begin);
    effort = std::min(effort, served / ended);
    const auto crossing = [&](double share) {
      return low + (edge[bin + 1] - low) * (share * alive - before) / mass - begin;
    };
    if (before < 0.5 * alive && ended >= 0.5 * alive) out.p50 = of_seconds(crossing(0.5));
    if (before < 0.9 * alive && ended >= 0.9 * alive) out.p90 = of_seconds(crossing(0.9));
  }
  if (out.p90.nanos == 0) out.p90 = of_seconds(edge[kBins] - begin);  // Lost to rounding.
  out.effort = of_seconds(effort);
  return out;
}

}  // namespace falaj::scheduler
