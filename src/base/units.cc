#include "base/units.h"

#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>

namespace falaj {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr Unit kDurationUnits[] = {
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
    {"d", 86'400'000'000'000},
    {"w", 7 * 86'400'000'000'000},
    {"y", 365 * 86'400'000'000'000},
};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"k", 1'000},
    {"M", 1'000'000},
    {"G", 1'000'000'000},
    {"T", 1'000'000'000'000},
    {"Ki", std::int64_t{1} << 10},
    {"Mi", std::int64_t{1} << 20},
    {"Gi", std::int64_t{1} << 30},
    {"Ti", std::int64_t{1} << 40},
};

// "<digits><unit>" with a known unit and no overflow; nothing otherwise.
template <std::size_t N>
std::optional<std::int64_t> scaled(std::string_view text, const Unit (&units)[N]) {
  std::int64_t count = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    std::int64_t product = 0;
    if (unit.name == suffix && !__builtin_mul_overflow(count, unit.factor, &product)) {
      return product;
    }
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) { return "'" + std::string(text.substr(0, 64)) + "'"; }

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration{};
  if (const auto nanos = scaled(text, kDurationUnits)) return Duration{*nanos};
  return Error(ErrorId::kInvalidUnit,
               quoted(text) +
                   " is not a duration: write a whole number and one of ns us ms s m h "
                   "d w y, like 250ms or 30d");
}

std::string to_string(Duration d) {
  if (d.nanos == 0) return "0s";
  // Days are the largest unit printed: "7d" says more than "1w", and a year is not always 365 days.
  std::size_t unit = 6;
  while (d.nanos % kDurationUnits[unit].factor != 0) --unit;
  return std::to_string(d.nanos / kDurationUnits[unit].factor) +
         std::string(kDurationUnits[unit].name);
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  if (const auto bytes = scaled(text, kByteUnits)) return *bytes;
  return Error(ErrorId::kInvalidUnit,
               quoted(text) +
                   " is not a size: write a whole number with no unit (bytes) or one of "
                   "Ki Mi Gi Ti k M G T, like 64Mi");
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  char text[48];
  const double magnitude = bytes < 0 ? -static_cast<double>(bytes) : static_cast<double>(bytes);
  if (magnitude < 1024) return std::to_string(bytes) + " B";
  double scaled_down = static_cast<double>(bytes) / 1024;
  std::size_t name = 0;
  // 1023.95 would print as "1024.0".
  while (name < 5 && (scaled_down >= 1023.95 || scaled_down <= -1023.95)) {
    scaled_down /= 1024;
    ++name;
  }
  std::snprintf(text, sizeof text, "%.1f %s", scaled_down, kNames[name]);
  return text;
}

Result<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  double share = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), share);
  if (percent) share /= 100;
  if (failure != std::errc() || end != digits.data() + digits.size() ||
      !(share >= 0 && share <= 1)) {
    return Error(ErrorId::kInvalidUnit,
                 quoted(text) +
                     " is not a share: write a percentage like 0.1% or a number from 0 "
                     "to 1 like 0.001");
  }
  return share;
}

}  // namespace falaj
