#include "serving/rollout/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace falaj::serving::rollout {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kDesignWeight = 10'000;

// Not std::lgamma: it writes a global.
double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

double log_beta(double a, double b) { return log_gamma(a) + log_gamma(b) - log_gamma(a + b); }

// ln of p^hits (1−p)^misses, where 0 · ln 0 is 0.
double log_likelihood(double hits, double misses, double p) {
  const double hit = hits == 0 ? 0 : hits * std::log(p);
  const double miss = misses == 0 ? 0 : misses * std::log1p(-p);
  return hit + miss;
}

double log_mixture(double hits, double misses) {
  return log_beta(hits + 0.5, misses + 0.5) - std::log(std::numbers::pi);
}

// Where refusal begins between `inside`, which is not refused, and `outside`; on the cautious side.
double edge(double hits, double misses, double mixture, double limit, double inside,
            double outside) {
  const auto refused = [&](double p) { return mixture - log_likelihood(hits, misses, p) >= limit; };
  if (!refused(outside)) return outside;
  for (int i = 0; i < 50; ++i) {
    const double middle = (inside + outside) / 2;
    (refused(middle) ? outside : inside) = middle;
  }
  return outside;
}

// The numbers of `trials` observations at which "share p lies above" is refused: at most `few`
// (−1: never), at least `many` (trials + 1: never).
struct Limits {
  std::int64_t few = -1;
  std::int64_t many = 0;
};

Limits refusing_counts(std::int64_t trials, double p, double alpha) {
  const double limit = -std::log(alpha);
  const auto refused = [&](std::int64_t hits) { return log_evidence(hits, trials, p) >= limit; };
  const auto expected = static_cast<std::int64_t>(std::floor(p * static_cast<double>(trials)));
  Limits limits{-1, trials + 1};
  // The evidence grows away from what is expected, on both sides; there, there is none.
  if (refused(trials)) {
    std::int64_t inside = expected;
    for (limits.many = trials; limits.many - inside > 1;) {
      const std::int64_t middle = inside + (limits.many - inside) / 2;
      (refused(middle) ? limits.many : inside) = middle;
    }
  }
  if (expected > 0 && refused(0)) {
    std::int64_t inside = expected;
    for (limits.few = 0; inside - limits.few > 1;) {
      const std::int64_t middle = inside - (inside - limits.few) / 2;
      (refused(middle) ? limits.few : inside) = middle;
    }
  }
  return limits;
}

}  // namespace

double log_evidence(std::int64_t hits, std::int64_t trials, double p) {
  const auto yes = static_cast<double>(hits);
  const auto no = static_cast<double>(trials - hits);
  return log_mixture(yes, no) - log_likelihood(yes, no, p);
}

Interval share_interval(std::int64_t hits, std::int64_t trials, double alpha) {
  if (trials <= 0) return {};
  const auto yes = static_cast<double>(hits);
  const auto no = static_cast<double>(trials - hits);
  const double mean = yes / (yes + no);
  const double mixture = log_mixture(yes, no);
  const double limit = -std::log(alpha);
  return {hits == 0 ? 0 : edge(yes, no, mixture, limit, mean, 0),
          hits == trials ? 1 : edge(yes, no, mixture, limit, mean, 1)};
}

Interval quantile_interval(std::span<const LatencyBin> bins, double q, double alpha) {
  std::int64_t above = 0;
  for (const LatencyBin& bin : bins) above += bin.count;
  Interval interval{0, kInfinite};
  if (above == 0) return interval;
  const Limits limits = refusing_counts(above, 1 - q, alpha);
  for (const LatencyBin& bin : bins) {
    above -= bin.count;  // Now: those above this bin's end.
    const auto end = static_cast<double>(bin.upper_nanos);
    if (above >= limits.many) interval.low = end;
    if (above <= limits.few) {
      interval.high = end;
      break;
    }
  }
  return interval;
}

double ratio_mismatch_p(std::int64_t first, std::int64_t second, double share) {
  const auto yes = static_cast<double>(second);
  const auto no = static_cast<double>(first);
  const double a = kDesignWeight * share;
  const double b = kDesignWeight * (1 - share);
  const double evidence =
      log_beta(yes + a, no + b) - log_beta(a, b) - log_likelihood(yes, no, share);
  return std::min(1.0, std::exp(-evidence));
}

}  // namespace falaj::serving::rollout
