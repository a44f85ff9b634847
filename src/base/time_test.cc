#include "base/time.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

namespace falaj {
namespace {

TEST(Time, prints_the_fraction_as_needed) {
  EXPECT_EQ(to_rfc3339({0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(to_rfc3339({1}), "1970-01-01T00:00:00.000000001Z");
  EXPECT_EQ(to_rfc3339({1'500'000'000}), "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(to_rfc3339({1'000'250'000}), "1970-01-01T00:00:01.000250Z");
  EXPECT_EQ(to_rfc3339({-1}), "1969-12-31T23:59:59.999999999Z");
}

TEST(Time, reads_every_accepted_form) {
  const std::int64_t at = 1'794'817'800;  // 2026-11-16T08:30:00Z
  for (const char* text : {"2026-11-16T08:30:00Z", "2026-11-16t08:30:00z", "2026-11-16 08:30:00",
                           "2026-11-16T12:30:00+04:00", "2026-11-16T03:00:00-05:30"}) {
    const auto parsed = parse_timestamp(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->nanos, at * 1'000'000'000) << text;
  }
  EXPECT_EQ(parse_timestamp("2026-11-16")->nanos, 1'794'787'200'000'000'000);
  EXPECT_EQ(parse_timestamp("2026-11-16T08:30:00.5Z")->nanos, at * 1'000'000'000 + 500'000'000);
  EXPECT_EQ(parse_timestamp("2026-11-16T08:30:00.1234567899Z")->nanos,
            at * 1'000'000'000 + 123'456'789);
  EXPECT_EQ(*parse_timestamp("2016-12-31T23:59:60Z"), *parse_timestamp("2017-01-01T00:00:00Z"));
  EXPECT_TRUE(parse_timestamp("2024-02-29").ok());
}

TEST(Time, refuses_everything_else) {
  for (const char* text : {"",
                           "2026",
                           "2026-13-01",
                           "2026-00-01",
                           "2026-02-29",
                           "2026-04-31",
                           "2026-11-16T",
                           "2026-11-16T08:30",
                           "2026-11-16T24:00:00Z",
                           "2026-11-16T08:60:00Z",
                           "2026-11-16T08:30:61Z",
                           "2026-11-16T08:30:60Z",
                           "2026-11-16T08:30:00.Z",
                           "2026-11-16T08:30:00+4:00",
                           "2026-11-16T08:30:00+24:00",
                           "2026-11-16T08:30:00Zx",
                           " 2026-11-16",
                           "2026-11-16 ",
                           "1600-01-01",
                           "2300-01-01",
                           "99999-01-01",
                           "+026-11-16",
                           "2026-11-16T08:30:00 Z"}) {
    const auto parsed = parse_timestamp(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
}

// The C library's calendar is the oracle.
TEST(Time, agrees_with_the_c_library_over_the_whole_range) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const Timestamp t{static_cast<std::int64_t>(random())};
    const std::string text = to_rfc3339(t);
    std::time_t seconds = t.nanos / 1'000'000'000 - (t.nanos % 1'000'000'000 < 0 ? 1 : 0);
    std::tm parts{};
    ASSERT_NE(gmtime_r(&seconds, &parts), nullptr);
    char expected[32];
    std::strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S", &parts);
    ASSERT_EQ(text.substr(0, 19), expected);
    const auto back = parse_timestamp(text);
    // The very first second of the range cannot be built from whole seconds plus a fraction.
    if (back.ok()) {
      ASSERT_EQ(back->nanos, t.nanos) << text;
    } else {
      ASSERT_LT(t.nanos, Timestamp::min().nanos + 1'000'000'000) << text;
    }
  }
}

TEST(Time, adding_saturates) {
  EXPECT_EQ(Timestamp::max() + Duration::days(1), Timestamp::max());
  EXPECT_EQ(Timestamp::min() - Duration::days(1), Timestamp::min());
  EXPECT_EQ(Timestamp{} - Duration::max(), Timestamp{-Duration::max().nanos});
  EXPECT_EQ(Timestamp::from_seconds(5) + Duration::seconds(-2), Timestamp::from_seconds(3));
}

TEST(Time, the_fake_clock_stands_still) {
  FakeClock clock(Timestamp::from_seconds(10));
  EXPECT_EQ(clock.now(), clock.now());
  clock.advance(Duration::seconds(5));
  EXPECT_EQ(clock.now(), Timestamp::from_seconds(15));
  EXPECT_GT(SystemClock().now(), Timestamp::from_seconds(1'700'000'000));
  const std::int64_t before = monotonic_nanos();
  EXPECT_LE(before, monotonic_nanos());
}

}  // namespace
}  // namespace falaj
