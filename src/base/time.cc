#include "base/time.h"

#include <cstdio>
#include <ctime>

namespace falaj {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;

// Calendar arithmetic on years that begin in March, so that the leap day comes last.
std::int64_t days_from_date(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719'468;
}

struct Date {
  std::int64_t year;
  int month;
  int day;
};

Date date_from_days(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted_month = (5 * day_of_year + 2) / 153;
  const int day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  const int month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day};
}

int days_in_month(std::int64_t year, int month) {
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : kDays[month - 1];
}

// Reads fixed-width fields from the front of a text; any miss makes `ok` false for good.
struct Scanner {
  std::string_view rest;
  bool ok = true;

  int digits(std::size_t count) {
    if (rest.size() < count) ok = false;
    int value = 0;
    for (std::size_t i = 0; ok && i < count; ++i) {
      const char c = rest[i];
      ok = c >= '0' && c <= '9';
      value = value * 10 + (c - '0');
    }
    if (ok) rest.remove_prefix(count);
    return ok ? value : 0;
  }
  bool skip_one_of(std::string_view choices) {
    if (rest.empty() || choices.find(rest.front()) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!skip_one_of(std::string_view(&c, 1))) ok = false;
  }
};

std::int64_t scan_fraction(Scanner& in) {
  if (!in.skip_one_of(".")) return 0;
  std::int64_t nanos = 0;
  int digits = 0;
  while (!in.rest.empty() && in.rest.front() >= '0' && in.rest.front() <= '9') {
    // Below a nanosecond is cut off.
    if (digits < 9) nanos = nanos * 10 + (in.rest.front() - '0');
    ++digits;
    in.rest.remove_prefix(1);
  }
  if (digits == 0) in.ok = false;
  for (; digits < 9; ++digits) nanos *= 10;
  return nanos;
}

std::int64_t scan_offset_seconds(Scanner& in) {
  if (in.rest.empty() || in.skip_one_of("Zz")) return 0;
  const bool negative = in.rest.front() == '-';
  if (!in.skip_one_of("+-")) {
    in.ok = false;
    return 0;
  }
  const int hours = in.digits(2);
  in.expect(':');
  const int minutes = in.digits(2);
  if (hours > 23 || minutes > 59) in.ok = false;
  const std::int64_t seconds = hours * 3'600 + minutes * 60;
  return negative ? -seconds : seconds;
}

Error not_a_time(std::string_view text) {
  return Error(Code::kInvalidArgument,
               "'" + std::string(text.substr(0, 64)) +
                   "' is not a time: write it like 2026-11-16T08:30:00Z (years 1677 to 2262)");
}

}  // namespace

Timestamp Timestamp::operator+(Duration d) const {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(nanos, d.nanos, &sum)) return d.nanos > 0 ? max() : min();
  return {sum};
}

Timestamp Timestamp::operator-(Duration d) const {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(nanos, d.nanos, &difference)) return d.nanos > 0 ? min() : max();
  return {difference};
}

std::string to_rfc3339(Timestamp t) {
  std::int64_t seconds = t.nanos / kNanosPerSecond;
  std::int64_t fraction = t.nanos % kNanosPerSecond;
  if (fraction < 0) {
    fraction += kNanosPerSecond;
    --seconds;
  }
  std::int64_t days = seconds / kSecondsPerDay;
  std::int64_t second_of_day = seconds % kSecondsPerDay;
  if (second_of_day < 0) {
    second_of_day += kSecondsPerDay;
    --days;
  }
  const Date date = date_from_days(days);
  char text[64];
  int length = std::snprintf(
      text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", static_cast<int>(date.year), date.month,
      date.day, static_cast<int>(second_of_day / 3'600), static_cast<int>(second_of_day / 60 % 60),
      static_cast<int>(second_of_day % 60));
  std::string out(text, static_cast<std::size_t>(length));
  if (fraction != 0) {
    length = std::snprintf(text, sizeof text, ".%09d", static_cast<int>(fraction));
    const std::size_t digits = fraction % 1'000'000 == 0 ? 3 : fraction % 1'000 == 0 ? 6 : 9;
    out.append(text, digits + 1);
  }
  return out + "Z";
}

Result<Timestamp> parse_timestamp(std::string_view text) {
  Scanner in{text};
  const int year = in.digits(4);
  in.expect('-');
  const int month = in.digits(2);
  in.expect('-');
  const int day = in.digits(2);
  if (!in.ok || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) {
    return not_a_time(text);
  }
  std::int64_t seconds = days_from_date(year, month, day) * kSecondsPerDay;
  std::int64_t fraction = 0;
  if (!in.rest.empty()) {
    if (!in.skip_one_of("Tt ")) return not_a_time(text);
    const int hour = in.digits(2);
    in.expect(':');
    const int minute = in.digits(2);
    in.expect(':');
    const int second = in.digits(2);
    fraction = scan_fraction(in);
    seconds += hour * 3'600 + minute * 60 + second - scan_offset_seconds(in);
    // Second 60 is a leap second: it counts as the first second of the next minute.
    const bool in_range = hour <= 23 && minute <= 59 && second <= (minute == 59 ? 60 : 59);
    if (!in.ok || !in.rest.empty() || !in_range) return not_a_time(text);
  }
  std::int64_t nanos = 0;
  if (__builtin_mul_overflow(seconds, kNanosPerSecond, &nanos) ||
      __builtin_add_overflow(nanos, fraction, &nanos)) {
    return not_a_time(text);
  }
  return Timestamp{nanos};
}

Timestamp SystemClock::now() const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {static_cast<std::int64_t>(now.tv_sec) * kNanosPerSecond + now.tv_nsec};
}

std::int64_t monotonic_nanos() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

}  // namespace falaj
