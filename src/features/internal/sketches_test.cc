#include "features/internal/sketches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace falaj::features {
namespace {

constexpr unsigned kSeed = 20261118;

TEST(Spread, places_keep_the_order_of_numbers_and_times_and_lead_back) {
  const std::vector<double> numbers{-1e308, -2, -1e-310, 0, 5e-324, 1, 1.5, 1e308};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(number_at(place_of_number(numbers[i])), numbers[i]);
    if (i == 0) continue;
    EXPECT_LT(place_of_number(numbers[i - 1]), place_of_number(numbers[i]));
  }
  EXPECT_EQ(place_of_number(-0.0), place_of_number(0.0));
  for (const std::int64_t nanos : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
    EXPECT_EQ(time_at(place_of_time(nanos)), nanos);
  }
  EXPECT_LT(place_of_time(-1), place_of_time(0));
}

TEST(Spread, quantiles_are_within_half_a_percent_of_the_exact_ones) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> draw(50, 12);
  std::vector<double> values(100'000);
  Spread spread;
  for (double& value : values) {
    value = draw(random);
    spread.add(place_of_number(value), 1);
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.25, 0.5, 0.75, 0.99}) {
    const double exact = values[static_cast<std::size_t>(share * 100'000)];
    EXPECT_NEAR(number_at(spread.quantile(share)), exact, std::abs(exact) * 0.005) << share;
  }
}

TEST(Spread, holds_the_same_whatever_the_order_and_however_it_was_divided) {
  std::mt19937_64 random(kSeed);
  std::vector<std::uint64_t> places(20'000);
  for (std::uint64_t& place : places) {
    const int exponent = static_cast<int>(random() % 600) - 300;
    place = place_of_number(std::ldexp(static_cast<double>(random() % 1000) - 500, exponent));
  }
  Spread whole;
  for (const std::uint64_t place : places) whole.add(place, 1);
  EXPECT_LE(whole.bins().size(), Spread::kBinsMax);
  EXPECT_GT(whole.shift(), Spread::kNumberShift);
  std::shuffle(places.begin(), places.end(), random);
  Spread left;
  Spread right;
  for (std::size_t i = 0; i < places.size(); ++i) (i % 7 == 0 ? left : right).add(places[i], 1);
  left.merge(right);
  EXPECT_EQ(left.shift(), whole.shift());
  EXPECT_EQ(left.bins(), whole.bins());
  EXPECT_EQ(left.total(), 20'000u);
  const auto restored = Spread::restore(whole.shift(), whole.bins());
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->bins(), whole.bins());
}

TEST(Spread, bins_that_no_values_can_have_are_refused) {
  EXPECT_FALSE(Spread::restore(64, {}).ok());
  EXPECT_FALSE(Spread::restore(45, {{5, 1}, {5, 1}}).ok());
  EXPECT_FALSE(Spread::restore(45, {{1ULL << 19, 1}}).ok());
  EXPECT_FALSE(Spread::restore(45, {{5, 0}}).ok());
  EXPECT_FALSE(Spread::restore(45, {{5, 1ULL << 50}}).ok());
  EXPECT_TRUE(Spread::restore(45, {{5, 1}, {6, 1}}).ok());
}

TEST(Distinct, is_near_at_every_size_and_the_union_when_merged) {
  for (const std::uint64_t size : {0, 1, 2, 10, 100, 1'000, 5'000, 50'000, 1'000'000}) {
    Distinct even;
    Distinct odd;
    for (std::uint64_t i = 0; i < size; ++i) {
      (i % 2 == 0 ? even : odd).add(hash_of(i));
      even.add(hash_of(i % 3));
    }
    even.merge(odd);
    const auto error = static_cast<double>(size) * (size <= 100 ? 0.03 : 0.07);
    EXPECT_NEAR(static_cast<double>(even.estimate()), static_cast<double>(size), error) << size;
  }
}

TEST(TopValues, the_frequent_ones_are_found_among_many_and_counts_are_never_too_large) {
  TopValues first;
  TopValues second;
  for (int i = 0; i < 30'000; ++i) {
    TopValues& into = i % 2 == 0 ? first : second;
    into.add("value " + std::to_string(i), 1);
    if (i % 3 == 0) into.add("often", 1);
    if (i % 10 == 0) into.add("less", 1);
  }
  first.merge(second);
  const auto most = first.most();
  ASSERT_GE(most.size(), 2u);
  EXPECT_EQ(most[0].first, "often");
  EXPECT_EQ(most[1].first, "less");
  EXPECT_LE(most[0].second, 10'000u);
  EXPECT_GE(most[0].second + first.lost(), 10'000u);
  EXPECT_LE(first.lost(), 43'000u / TopValues::kTracked);
}

TEST(TopValues, few_values_are_counted_exactly_and_long_texts_not_at_all) {
  TopValues top;
  for (int i = 0; i < 1'000; ++i) top.add(i % 4 == 0 ? "a" : "b", 2);
  top.add(std::string(TopValues::kValueMax + 1, 'x'), 5'000);
  EXPECT_EQ(top.lost(), 0u);
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"b", 1'500}, {"a", 500}};
  EXPECT_EQ(top.most(), expected);
}

}  // namespace
}  // namespace falaj::features
