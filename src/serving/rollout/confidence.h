// serving/rollout/confidence.h — how sure one can be of a share or a quantile while looking
// at it all the time.
//
// A usual confidence interval holds at one moment that was fixed before; who looks again and again
// and stops when it pleases will be wrong far more often than it says. These are confidence
// sequences: with probability 1 − alpha the truth lies inside at every moment of an endless
// experiment, so that a rollout may be judged at each tick. Pure; no state; the same bytes out of
// the same numbers. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace falaj::serving::rollout {

struct Interval {
  double low = 0;
  double high = 1;
};

// ln of the evidence against "the share is p" after `hits` of `trials`: the likelihood under a
// Beta(½, ½) mixture over that under p. It is a martingale when p is true, so that it exceeds
// 1/alpha at any time with probability alpha at most (Ville). Since ln(1 + p(eˡ − 1)) is concave in
// p, the same holds for the running mean of a share that changes with time (bursts, hours of the
// day). 0 < p < 1, 0 ≤ hits ≤ trials.
double log_evidence(std::int64_t hits, std::int64_t trials, double p);

// Every share that the counts do not contradict at alpha; [0, 1] without trials. About 3 µs.
Interval share_interval(std::int64_t hits, std::int64_t trials, double alpha);

// Observations in one bin of a histogram: above the bin before and at most `upper_nanos`.
struct LatencyBin {
  std::int64_t upper_nanos = 0;
  std::int64_t count = 0;
  bool operator==(const LatencyBin&) const = default;
};

// Where the quantile q lies, in nanoseconds, from bins in ascending order (empty ones may be left
// out). Exact for bins: how many lie above a bin's end is known. `low` is 0 and `high` infinite
// while there are too few observations to say.
Interval quantile_interval(std::span<const LatencyBin> bins, double q, double alpha);

// Whether units fell to two arms as designed: the smallest alpha at which the sequential test (a
// Beta mixture of weight 10 000 around the design) refuses it now; 1 when nothing speaks against
// it. `share` is the second arm's, 0 < share < 1.
double ratio_mismatch_p(std::int64_t first, std::int64_t second, double share);

}  // namespace falaj::serving::rollout
