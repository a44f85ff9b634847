#include "features/leakage.h"

#include <gtest/gtest.h>

#include <limits>

namespace falaj::features {
namespace {

using table::Column;
using table::Type;

Column times(std::vector<std::int64_t> values, std::vector<std::uint8_t> valid = {}) {
  return Column::of_ints(Type::kTimestamp, std::move(values), std::move(valid));
}

Leakage leakage_of(const Column& time, const Column& available) {
  LeakageMeter meter("v");
  meter.add(time, available);
  return meter.finish();
}

TEST(Leakage, counts_values_that_were_created_after_their_row) {
  const Leakage found =
      leakage_of(times({100, 100, 100, 100, 0}), times({90, 100, 130, 40, 0}, {1, 1, 1, 1, 0}));
  EXPECT_EQ(found, (Leakage{"v", 4, 1, Duration{-30}, Duration{-30}, Duration{0}}));
}

TEST(Leakage, quantiles_are_values_that_occur) {
  std::vector<std::int64_t> at(1000, 1000);
  std::vector<std::int64_t> available;
  for (std::int64_t i = 0; i < 1000; ++i) available.push_back(i);
  const Leakage found = leakage_of(times(at), times(available));
  EXPECT_EQ(found, (Leakage{"v", 1000, 0, Duration{1}, Duration{10}, Duration{500}}));
}

TEST(Leakage, how_the_rows_were_cut_does_not_show) {
  LeakageMeter meter("v");
  meter.add(times({100, 100}), times({90, 100}));
  meter.add(times({}), times({}));
  meter.add(times({100, 100, 0}), times({130, 40, 0}, {1, 1, 0}));
  EXPECT_EQ(meter.finish(), leakage_of(times({100, 100, 100, 100, 0}),
                                       times({90, 100, 130, 40, 0}, {1, 1, 1, 1, 0})));
}

TEST(Leakage, extreme_times_do_not_wrap_around_and_no_value_gives_zeros) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(leakage_of(times({Limits::min()}), times({5})).slack_min.nanos, Limits::min());
  EXPECT_EQ(leakage_of(times({Limits::max()}), times({-5})).slack_min.nanos, Limits::max());
  EXPECT_EQ(leakage_of(times({1}), times({0}, {0})), (Leakage{"v", 0, 0, {}, {}, {}}));
}

TEST(Leakage, survives_being_written_down) {
  const Leakage found{"v", 4, 1, Duration{-30}, Duration{-29}, Duration{7}};
  EXPECT_EQ(leakage_from_value(to_value(found)).value(), found);
}

}  // namespace
}  // namespace falaj::features
