// base/time.h — points in time and spans, in nanoseconds, always UTC; and who tells the time.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj {

struct Duration {
  std::int64_t nanos = 0;

  static constexpr Duration nanoseconds(std::int64_t n) { return {n}; }
  static constexpr Duration microseconds(std::int64_t n) { return {n * 1'000}; }
  static constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }
  static constexpr Duration minutes(std::int64_t n) { return seconds(n * 60); }
  static constexpr Duration hours(std::int64_t n) { return seconds(n * 3'600); }
  static constexpr Duration days(std::int64_t n) { return seconds(n * 86'400); }
  static constexpr Duration max() { return {std::numeric_limits<std::int64_t>::max()}; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return {nanos + other.nanos}; }
  constexpr Duration operator-(Duration other) const { return {nanos - other.nanos}; }
  constexpr double as_seconds() const { return static_cast<double>(nanos) * 1e-9; }
  constexpr double as_millis() const { return static_cast<double>(nanos) * 1e-6; }
};

struct Timestamp {
  std::int64_t nanos = 0;  // Since 1970-01-01T00:00:00Z; covers the years 1677–2262.

  static constexpr Timestamp from_seconds(std::int64_t s) { return {s * 1'000'000'000}; }
  static constexpr Timestamp from_millis(std::int64_t ms) { return {ms * 1'000'000}; }
  static constexpr Timestamp min() { return {std::numeric_limits<std::int64_t>::min()}; }
  static constexpr Timestamp max() { return {std::numeric_limits<std::int64_t>::max()}; }

  constexpr auto operator<=>(const Timestamp&) const = default;
  // Both saturate: a far future plus a day stays the far future.
  Timestamp operator+(Duration d) const;
  Timestamp operator-(Duration d) const;
  constexpr Duration operator-(Timestamp other) const { return {nanos - other.nanos}; }
};

// "2026-11-16T08:30:00.123456789Z"; the fraction has 0, 3, 6 or 9 digits as needed.
std::string to_rfc3339(Timestamp t);

// Accepts RFC 3339 with any offset, a blank instead of 'T', a date alone, and a time without zone,
// which means UTC. kInvalidArgument names the text otherwise.
Result<Timestamp> parse_timestamp(std::string_view text);

// Who tells the time. Tests use FakeClock; nothing reads the system clock by itself.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() const = 0;
};

// The system's wall clock. Thread-safe.
class SystemClock final : public Clock {
 public:
  Timestamp now() const override;
};

// Stands still until moved. Not thread-safe against advance().
class FakeClock final : public Clock {
 public:
  explicit FakeClock(Timestamp start = Timestamp::from_seconds(1'780'000'000)) : now_(start) {}
  Timestamp now() const override { return now_; }
  void advance(Duration d) { now_ = now_ + d; }
  void set(Timestamp t) { now_ = t; }

 private:
  Timestamp now_;
};

// Monotonic nanoseconds for measuring how long something took.
std::int64_t monotonic_nanos();

}  // namespace falaj
