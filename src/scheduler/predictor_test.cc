#include "scheduler/predictor.h"

#include <gtest/gtest.h>

namespace falaj::scheduler {
namespace {

constexpr JobKind kKind{.tenant = 1, .name = 0, .gpus = 1};

double p50(const Predictor& predictor, const JobKind& kind, std::int64_t elapsed = 0) {
  return predictor.forecast(kind, Duration::seconds(elapsed)).p50.as_seconds();
}

TEST(Predictor, says_something_wide_before_it_has_seen_anything) {
  const Forecast guess = Predictor().forecast(kKind, Duration{});
  EXPECT_GT(guess.p50, Duration::minutes(5));
  EXPECT_GT(guess.p90, guess.p50);
}

TEST(Predictor, learns_a_kind) {
  Predictor predictor;
  for (int i = 0; i < 200; ++i) predictor.observe(kKind, Duration::seconds(1000));
  EXPECT_NEAR(p50(predictor, kKind), 1000, 200);
  EXPECT_NEAR(predictor.forecast(kKind, Duration{}).p90.as_seconds(), 1000, 250);
}

TEST(Predictor, follows_the_latest_jobs) {
  Predictor predictor;
  for (int i = 0; i < 200; ++i) predictor.observe(kKind, Duration::seconds(100));
  for (int i = 0; i < 30; ++i) predictor.observe(kKind, Duration::seconds(10'000));
  EXPECT_GT(p50(predictor, kKind), 5000);
}

TEST(Predictor, falls_back_to_the_tenant_for_a_new_kind) {
  Predictor predictor;
  for (int i = 0; i < 200; ++i) {
    predictor.observe(kKind, Duration::seconds(100));
    predictor.observe({.tenant = 2, .name = 0, .gpus = 1}, Duration::seconds(50'000));
  }
  EXPECT_LT(p50(predictor, {.tenant = 1, .name = 0, .gpus = 4}), 1000);
  EXPECT_GT(p50(predictor, {.tenant = 2, .name = 0, .gpus = 4}), 10'000);
}

TEST(Predictor, what_a_kind_says_by_itself_is_moved_by_nobody_else) {
  constexpr JobKind kOther{.tenant = 2, .name = 0, .gpus = 1};
  Predictor predictor;
  for (int i = 0; i < 1000; ++i) predictor.observe(kOther, Duration::seconds(1));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(predictor.own_forecast(kKind, Duration{}, 5)) << i;
    predictor.observe(kKind, Duration::seconds(1000));
  }
  const auto before = predictor.own_forecast(kKind, Duration{}, 5);
  ASSERT_TRUE(before);
  EXPECT_NEAR(before->p90.as_seconds(), 1000, 200);
  for (int i = 0; i < 1000; ++i) predictor.observe(kOther, Duration::days(9));
  const auto after = predictor.own_forecast(kKind, Duration{}, 5);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->p90, before->p90);
  EXPECT_EQ(after->p50, before->p50);
}

// One that outlived the short jobs is one of the long ones.
TEST(Predictor, does_not_trust_a_prediction_that_was_outlived) {
  Predictor predictor;
  for (int i = 0; i < 500; ++i) {
    predictor.observe(kKind, Duration::seconds(i % 10 == 0 ? 100'000 : 100));
  }
  EXPECT_LT(p50(predictor, kKind), 200);
  EXPECT_GT(p50(predictor, kKind, 1000), 50'000);
  // Past everything that was ever seen: as long again.
  EXPECT_GE(p50(predictor, kKind, 400'000'000), 300'000'000);
}

TEST(Predictor, orders_the_quantiles_and_stays_valid_up_to_the_bin) {
  Predictor predictor;
  for (int i = 1; i < 2000; ++i) predictor.observe(kKind, Duration::seconds(i * i % 7919 + 1));
  for (std::int64_t elapsed = 0; elapsed < 9000; elapsed += 37) {
    const Forecast forecast = predictor.forecast(kKind, Duration::seconds(elapsed));
    ASSERT_GT(forecast.p50.nanos, 0) << elapsed;
    ASSERT_LE(forecast.p50, forecast.p90) << elapsed;
    ASSERT_GT(forecast.valid_until, Duration::seconds(elapsed)) << elapsed;
  }
}

TEST(Predictor, puts_every_run_time_into_a_bin) {
  EXPECT_EQ(Predictor::bin_of(Duration{}), 0);
  EXPECT_EQ(Predictor::bin_of(Duration::days(100'000)), Predictor::kBins - 1);
  for (int bin = 1; bin < Predictor::kBins; ++bin) {
    ASSERT_EQ(Predictor::bin_of(Predictor::bin_begin(bin) + Duration::milliseconds(1)), bin);
  }
}

}  // namespace
}  // namespace falaj::scheduler
