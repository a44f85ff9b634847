#include <algorithm>
#include <chrono>

#include "base/time.h"
#include "expression/internal/kernels.h"

namespace falaj::expression {
namespace {

using Int = std::int64_t;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr Int kSecond = 1'000'000'000;
constexpr Int kHour = 3'600 * kSecond;
constexpr Int kDay = 24 * kHour;

constexpr Int floor_to(Int value, Int unit) {
  return value / unit - (value % unit != 0 && value < 0 ? 1 : 0);
}
constexpr sys_days day_of(Int nanos) { return sys_days(std::chrono::days(floor_to(nanos, kDay))); }
constexpr year_month_day date_of(Int nanos) { return year_month_day(day_of(nanos)); }
constexpr Int in_day(Int nanos) { return nanos % kDay + (nanos % kDay < 0 ? kDay : 0); }

Int year(Int t) { return static_cast<int>(date_of(t).year()); }
Int month(Int t) { return static_cast<unsigned>(date_of(t).month()); }
Int day(Int t) { return static_cast<unsigned>(date_of(t).day()); }
Int hour(Int t) { return in_day(t) / kHour; }
Int minute(Int t) { return in_day(t) / (60 * kSecond) % 60; }
Int second(Int t) { return in_day(t) / kSecond % 60; }
Int weekday(Int t) { return static_cast<Int>(std::chrono::weekday(day_of(t)).iso_encoding()); }
Int day_of_year(Int t) {
  const sys_days first = date_of(t).year() / std::chrono::January / 1;
  return (day_of(t) - first).count() + 1;
}

// The very first day that a timestamp can name does not begin within its range.
bool nanos_of(sys_days days, Int& out) {
  return !__builtin_mul_overflow(static_cast<Int>(days.time_since_epoch().count()), kDay, &out);
}
bool start_of_hour(Int t, Int& out) {
  return !__builtin_mul_overflow(floor_to(t, kHour), kHour, &out);
}
bool start_of_day(Int t, Int& out) { return nanos_of(day_of(t), out); }
bool start_of_week(Int t, Int& out) {
  return nanos_of(day_of(t) - std::chrono::days(weekday(t) - 1), out);
}
bool start_of_month(Int t, Int& out) {
  const year_month_day date = date_of(t);
  return nanos_of(date.year() / date.month() / 1, out);
}
bool start_of_year(Int t, Int& out) {
  return nanos_of(date_of(t).year() / std::chrono::January / 1, out);
}

// From a to b: whole nanoseconds, which fit 64 bits without their sign, then one rounding.
template <Int Unit>
double between(Int a, Int b) {
  const auto from = static_cast<std::uint64_t>(std::min(a, b));
  const auto to = static_cast<std::uint64_t>(std::max(a, b));
  const double span = static_cast<double>(to - from) / static_cast<double>(Unit);
  return b < a ? -span : span;
}
template <Int Unit>
bool add_units(Int t, Int count, Int& out) {
  Int nanos = 0;
  return !__builtin_mul_overflow(count, Unit, &nanos) && !__builtin_add_overflow(t, nanos, &out);
}
Int epoch_seconds(Int t) { return floor_to(t, kSecond); }
bool from_epoch_seconds(Int seconds, Int& out) {
  return !__builtin_mul_overflow(seconds, kSecond, &out);
}
bool time_of_text(std::string_view text, Int& out) {
  const Result<Timestamp> time = parse_timestamp(text);
  if (!time.ok()) return false;
  out = time->nanos;
  return true;
}
Int same_time(Int t) { return t; }

}  // namespace

std::vector<Overload> time_functions() {
  const Type time = Type::kTimestamp;
  const std::vector<Type> one{time};
  const std::vector<Type> pair{time, time};
  const std::vector<Type> shift{time, Type::kInt64};
  return {
      {"year", one, Type::kInt64, total<year, Int, Int>},
      {"month", one, Type::kInt64, total<month, Int, Int>},
      {"day", one, Type::kInt64, total<day, Int, Int>},
      {"hour", one, Type::kInt64, total<hour, Int, Int>},
      {"minute", one, Type::kInt64, total<minute, Int, Int>},
      {"second", one, Type::kInt64, total<second, Int, Int>},
      {"weekday", one, Type::kInt64, total<weekday, Int, Int>},
      {"day_of_year", one, Type::kInt64, total<day_of_year, Int, Int>},
      {"start_of_hour", one, time, partial<start_of_hour, Int, Int>},
      {"start_of_day", one, time, partial<start_of_day, Int, Int>},
      {"start_of_week", one, time, partial<start_of_week, Int, Int>},
      {"start_of_month", one, time, partial<start_of_month, Int, Int>},
      {"start_of_year", one, time, partial<start_of_year, Int, Int>},
      {"seconds_between", pair, Type::kFloat64, total<between<kSecond>, double, Int, Int>},
      {"hours_between", pair, Type::kFloat64, total<between<kHour>, double, Int, Int>},
      {"days_between", pair, Type::kFloat64, total<between<kDay>, double, Int, Int>},
      {"add_seconds", shift, time, partial<add_units<kSecond>, Int, Int, Int>},
      {"add_hours", shift, time, partial<add_units<kHour>, Int, Int, Int>},
      {"add_days", shift, time, partial<add_units<kDay>, Int, Int, Int>},
      {"epoch_seconds", one, Type::kInt64, total<epoch_seconds, Int, Int>},
      {"from_epoch_seconds", {Type::kInt64}, time, partial<from_epoch_seconds, Int, Int>},
      {"timestamp", {Type::kString}, time, partial<time_of_text, Int, std::string_view>},
      {"timestamp", one, time, total<same_time, Int, Int>},
  };
}

}  // namespace falaj::expression
