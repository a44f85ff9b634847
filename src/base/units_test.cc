#include "base/units.h"

#include <gtest/gtest.h>

namespace falaj {
namespace {

TEST(Units, reads_durations) {
  EXPECT_EQ(*parse_duration("250ms"), Duration::milliseconds(250));
  EXPECT_EQ(*parse_duration("20s"), Duration::seconds(20));
  EXPECT_EQ(*parse_duration("15m"), Duration::minutes(15));
  EXPECT_EQ(*parse_duration("2h"), Duration::hours(2));
  EXPECT_EQ(*parse_duration("30d"), Duration::days(30));
  EXPECT_EQ(*parse_duration("4w"), Duration::days(28));
  EXPECT_EQ(*parse_duration("1y"), Duration::days(365));
  EXPECT_EQ(*parse_duration("0"), Duration{});
  for (const char* text : {"", "5", "s", "-5s", "+5s", "1.5h", "5 s", "5sec", "1h30m", "5S",
                           "99999999999999999999s", "9223372036854775807s"}) {
    ASSERT_FALSE(parse_duration(text).ok()) << text;
    EXPECT_EQ(parse_duration(text).error().id, ErrorId::kInvalidUnit);
  }
}

TEST(Units, durations_print_so_that_they_read_back) {
  EXPECT_EQ(to_string(Duration::hours(36)), "36h");
  EXPECT_EQ(to_string(Duration::days(7)), "7d");
  EXPECT_EQ(to_string(Duration{}), "0s");
  for (const std::int64_t nanos : {1L, 999L, 1'000L, 1'500'000L, 60'000'000'000L, 90'000'000'000L,
                                   86'400'000'000'000L, 9'223'372'036'854'775'807L}) {
    EXPECT_EQ(parse_duration(to_string(Duration{nanos}))->nanos, nanos);
  }
}

TEST(Units, reads_sizes) {
  EXPECT_EQ(*parse_bytes("512"), 512);
  EXPECT_EQ(*parse_bytes("4Ki"), 4096);
  EXPECT_EQ(*parse_bytes("64Mi"), 64 << 20);
  EXPECT_EQ(*parse_bytes("4Gi"), std::int64_t{4} << 30);
  EXPECT_EQ(*parse_bytes("1Ti"), std::int64_t{1} << 40);
  EXPECT_EQ(*parse_bytes("10k"), 10'000);
  EXPECT_EQ(*parse_bytes("10M"), 10'000'000);
  EXPECT_EQ(*parse_bytes("10G"), 10'000'000'000);
  for (const char* text :
       {"", "Ki", "-1", "1.5Gi", "4KiB", "4 Ki", "4K", "9223372036854775807Ki"}) {
    ASSERT_FALSE(parse_bytes(text).ok()) << text;
    EXPECT_EQ(parse_bytes(text).error().id, ErrorId::kInvalidUnit);
  }
}

TEST(Units, prints_sizes_for_people) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{4} << 30), "4.0 GiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
}

TEST(Units, reads_shares) {
  EXPECT_DOUBLE_EQ(*parse_share("0.1%"), 0.001);
  EXPECT_DOUBLE_EQ(*parse_share("0.001"), 0.001);
  EXPECT_DOUBLE_EQ(*parse_share("100%"), 1);
  for (const char* text : {"", "%", "101%", "-1%", "1.5", "nan", "inf", "0x1p-3", "5 %", "1e999"}) {
    EXPECT_FALSE(parse_share(text).ok()) << text;
  }
}

}  // namespace
}  // namespace falaj
