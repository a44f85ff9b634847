#include "features/internal/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace falaj::features {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kInf = std::numeric_limits<double>::infinity();

double sum(const std::vector<double>& values) {
  ExactSum out;
  for (const double value : values) out.add(value);
  return out.rounded();
}

TEST(ExactSum, small_numbers_survive_large_ones) {
  EXPECT_EQ(sum({}), 0);
  EXPECT_FALSE(std::signbit(sum({-0.0})));
  EXPECT_EQ(sum({1e308, 1, -1e308}), 1);
  EXPECT_EQ(sum({1e16, 1, 1, -1e16}), 2);
  EXPECT_EQ(sum({0.1, 0.2, 0.3, -0.1, -0.2}), 0.3);
  EXPECT_EQ(sum({kMax, kLeast, -kMax}), kLeast);
  EXPECT_EQ(sum({kMax, kMax, -kMax, -kMax, -kLeast}), -kLeast);
  EXPECT_EQ(sum({-1e308, -1, 1e308}), -1);
}

TEST(ExactSum, it_is_rounded_once_to_the_nearest_and_ties_to_even) {
  const double next = std::nextafter(1.0, 2.0);
  EXPECT_EQ(sum({1, 0x1p-53}), 1);             // A tie: the even one.
  EXPECT_EQ(sum({1, 0x1p-53, kLeast}), next);  // A little above the tie.
  EXPECT_EQ(sum({1, 0x1p-53, -kLeast}), 1);
  EXPECT_EQ(sum({next, 0x1p-53}), std::nextafter(next, 2.0));
  EXPECT_EQ(sum({-1, -0x1p-53, -kLeast}), -next);
}

TEST(ExactSum, what_no_number_can_say) {
  EXPECT_EQ(sum({kMax, kMax}), kInf);
  EXPECT_EQ(sum({1, kInf}), kInf);
  EXPECT_EQ(sum({1, -kInf}), -kInf);
  EXPECT_TRUE(std::isnan(sum({kInf, -kInf})));
  EXPECT_TRUE(std::isnan(sum({std::nan(""), 1})));
  ExactSum one;
  one.add(std::nan(""));
  one.add(kInf);
  one.add(2.5);
  one.remove(kInf);
  one.remove(std::nan(""));
  EXPECT_EQ(one.rounded(), 2.5);
}

// Integers below 2^62 that the machine adds exactly, scaled by a power of two.
TEST(ExactSum, agrees_with_integers_in_any_order_and_when_values_leave) {
  std::mt19937_64 random(20'261'117);
  __extension__ using Wide = __int128;
  for (int round = 0; round < 2000; ++round) {
    const int scale = static_cast<int>(random() % 1800) - 1000;
    std::vector<std::int64_t> numbers(1 + random() % 40);
    for (std::int64_t& number : numbers) {
      number = static_cast<std::int64_t>(random() >> (11 + random() % 50));
      if (random() % 2 == 0) number = -number;
    }
    ExactSum kept;
    Wide whole = 0;
    for (const std::int64_t number : numbers) kept.add(std::ldexp(number, scale));
    std::shuffle(numbers.begin(), numbers.end(), random);
    const std::size_t gone = random() % numbers.size();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i < gone) kept.remove(std::ldexp(numbers[i], scale));
      if (i >= gone) whole += numbers[i];
    }
    const double want = std::ldexp(static_cast<double>(whole), scale);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(kept.rounded()), std::bit_cast<std::uint64_t>(want))
        << "round " << round << " of seed 20261117";
  }
}

}  // namespace
}  // namespace falaj::features
