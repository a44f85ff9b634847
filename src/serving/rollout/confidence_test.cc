#include "serving/rollout/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "serving/rollout/assignment.h"

namespace falaj::serving::rollout {
namespace {

TEST(ShareInterval, agrees_with_the_formula_where_it_is_closed) {
  // No hits: pi^-1 B(1/2, n + 1/2) (1 - p)^-n = 1/alpha, solved for p.
  const double n = 1000;
  const double mixture =
      std::lgamma(0.5) + std::lgamma(n + 0.5) - std::lgamma(n + 1) - std::log(std::acos(-1.0));
  const double p = 1 - std::exp((mixture + std::log(0.01)) / n);
  const Interval interval = share_interval(0, 1000, 0.01);
  EXPECT_EQ(interval.low, 0);
  EXPECT_NEAR(interval.high, p, 1e-9);
  const Interval mirrored = share_interval(1000, 1000, 0.01);
  EXPECT_EQ(mirrored.high, 1);
  EXPECT_NEAR(mirrored.low, 1 - p, 1e-9);
}

TEST(ShareInterval, holds_the_mean_and_narrows) {
  EXPECT_EQ(share_interval(0, 0, 0.01).high, 1);
  double before = 1;
  for (const std::int64_t n : {10, 100, 1'000, 10'000, 1'000'000}) {
    const Interval interval = share_interval(n / 5, n, 0.01);
    EXPECT_LT(interval.low, 0.2);
    EXPECT_GT(interval.high, 0.2);
    EXPECT_LT(interval.high - interval.low, before);
    before = interval.high - interval.low;
  }
  EXPECT_LT(before, 0.005);
}

// The promise itself: looked at after every single observation, it is wrong in at most alpha of
// the experiments. At alpha 0.05 a usual interval would be left by over half of these.
TEST(ShareInterval, is_left_by_no_more_experiments_than_alpha_says) {
  constexpr int kExperiments = 400;
  constexpr int kObservations = 3000;
  constexpr double kAlpha = 0.05;
  std::mt19937_64 random(7);
  int left = 0;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    std::int64_t hits = 0;
    for (int n = 1; n <= kObservations; ++n) {
      hits += random() % 100 < 3 ? 1 : 0;
      if (log_evidence(hits, n, 0.03) >= -std::log(kAlpha)) {
        ++left;
        break;
      }
    }
  }
  // Three standard deviations above alpha; also not so wide as to say nothing.
  EXPECT_LE(left, kExperiments * kAlpha + 3 * std::sqrt(kExperiments * kAlpha));
  EXPECT_GT(left, 0);
}

std::vector<LatencyBin> ramp(std::int64_t each) {
  std::vector<LatencyBin> bins;
  for (std::int64_t i = 1; i <= 1000; ++i) bins.push_back({i, each});
  return bins;
}

TEST(QuantileInterval, encloses_the_quantile) {
  const Interval some = quantile_interval(ramp(10), 0.99, 0.001);
  EXPECT_LT(some.low, 990);
  EXPECT_GT(some.low, 980);
  EXPECT_GT(some.high, 990);
  EXPECT_LT(some.high, 1000);
  const Interval more = quantile_interval(ramp(1000), 0.99, 0.001);
  EXPECT_GT(more.low, some.low);
  EXPECT_LT(more.high, some.high);
}

TEST(QuantileInterval, says_nothing_before_it_can) {
  EXPECT_EQ(quantile_interval({}, 0.99, 0.01).low, 0);
  const std::vector<LatencyBin> few{{100, 50}};
  EXPECT_EQ(quantile_interval(few, 0.99, 0.01).high, std::numeric_limits<double>::infinity());
}

TEST(RatioMismatch, flags_what_is_off_and_not_what_is_chance) {
  EXPECT_EQ(ratio_mismatch_p(0, 0, 0.5), 1);
  EXPECT_GT(ratio_mismatch_p(10'000, 10'300, 0.5), 0.001);
  EXPECT_LT(ratio_mismatch_p(100'000, 103'000, 0.5), 0.001);
  EXPECT_LT(ratio_mismatch_p(100'000, 3'000, 0.05), 0.001);
  EXPECT_GT(ratio_mismatch_p(95'000, 5'050, 0.05), 0.001);
}

TEST(Assignment, is_even_sticky_and_growing) {
  int at_five = 0;
  int at_fifty = 0;
  int moved = 0;
  int same_as_other_salt = 0;
  constexpr int kUnits = 20'000;
  for (int i = 0; i < kUnits; ++i) {
    const std::string unit = std::to_string(i);
    const double place = place_of(unit_of(unit, 11));
    EXPECT_EQ(place, place_of(unit_of(unit, 11)));
    at_five += meets_candidate(place, 0.05) ? 1 : 0;
    at_fifty += meets_candidate(place, 0.5) ? 1 : 0;
    moved += meets_candidate(place, 0.05) && !meets_candidate(place, 0.5) ? 1 : 0;
    same_as_other_salt +=
        meets_candidate(place, 0.5) == meets_candidate(place_of(unit_of(unit, 12)), 0.5) ? 1 : 0;
  }
  EXPECT_NEAR(at_five, 0.05 * kUnits, 130);  // Four standard deviations.
  EXPECT_NEAR(at_fifty, 0.5 * kUnits, 290);
  EXPECT_EQ(moved, 0);
  EXPECT_NEAR(same_as_other_salt, 0.5 * kUnits, 290);
  EXPECT_FALSE(meets_candidate(place_of(unit_of("", 0)), 0));
}

}  // namespace
}  // namespace falaj::serving::rollout
