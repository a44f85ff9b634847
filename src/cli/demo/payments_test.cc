#include "cli/demo/payments.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace falaj::cli::demo {
namespace {

const Timestamp kEnd = Timestamp::from_seconds(1'767'225'600);  // 2026-01-01

double mean(const std::vector<Payment>& payments, double Payment::*member) {
  double sum = 0;
  for (const Payment& payment : payments) sum += payment.*member;
  return sum / static_cast<double>(payments.size());
}

TEST(Payments, the_same_seed_gives_the_same_world) {
  World a(5, kEnd);
  World b(5, kEnd);
  World c(6, kEnd);
  EXPECT_EQ(activity_batch(a.day(0)), activity_batch(b.day(0)));
  EXPECT_NE(activity_batch(a.day(1)), activity_batch(c.day(1)));
  EXPECT_EQ(merchant_csv(a.merchants(), 14), merchant_csv(b.merchants(), 14));
}

TEST(Payments, a_day_lies_inside_its_day_and_in_order) {
  World world(5, kEnd);
  const auto payments = world.day(0);
  ASSERT_EQ(payments.size(), static_cast<std::size_t>(kPaymentsPerDay));
  EXPECT_GE(payments.front().at, world.start_of(0));
  EXPECT_LT(payments.back().at, world.start_of(1));
  EXPECT_TRUE(std::is_sorted(payments.begin(), payments.end(),
                             [](const Payment& x, const Payment& y) { return x.at < y.at; }));
  EXPECT_EQ(world.start_of(kDays), kEnd);
}

TEST(Payments, the_world_moves_at_the_shift) {
  World world(5, kEnd);
  std::vector<Payment> before;
  std::vector<Payment> after;
  for (int day = 0; day < kDays; ++day) {
    auto payments = world.day(day);
    auto& part = day < kShiftDay ? before : after;
    part.insert(part.end(), payments.begin(), payments.end());
  }
  EXPECT_LT(mean(after, &Payment::amount), 0.75 * mean(before, &Payment::amount));
  EXPECT_GT(mean(after, &Payment::distance_km), 1.5 * mean(before, &Payment::distance_km));
  const auto fraud = [](const std::vector<Payment>& payments) {
    return static_cast<double>(std::count_if(payments.begin(), payments.end(),
                                             [](const Payment& p) { return p.is_fraud == 1; })) /
           static_cast<double>(payments.size());
  };
  EXPECT_GT(fraud(before), 0.01);
  EXPECT_LT(fraud(before), 0.15);
  EXPECT_GT(fraud(after), 0.01);
  EXPECT_LT(fraud(after), 0.25);
}

TEST(Payments, the_merchant_file_has_as_many_bad_rows_as_asked) {
  World world(5, kEnd);
  const auto weeks = world.merchants();
  const std::string csv = merchant_csv(weeks, 14);
  const auto lines = static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n'));
  EXPECT_EQ(lines, weeks.size() + 1 + 14);
}

}  // namespace
}  // namespace falaj::cli::demo
