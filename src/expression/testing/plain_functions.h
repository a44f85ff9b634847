// expression/testing/plain_functions.h — the functions of the language, one value at a time.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/time.h"
#include "expression/expression.h"
#include "table/schema.h"

namespace falaj::expression::testing {

using table::Type;
__extension__ typedef __int128 Wide;

struct Plain {
  Type type = Type::kInt64;
  bool null = true;
  std::int64_t i = 0;
  double d = 0;
  std::string s{};

  static Plain none(Type type) { return {type, true, 0, 0, {}}; }
  static Plain of(Type type, std::int64_t i) { return {type, false, i, 0, {}}; }
  static Plain of(double d) { return {Type::kFloat64, false, 0, d, {}}; }
  static Plain of(std::string s) { return {Type::kString, false, 0, 0, std::move(s)}; }
  static Plain flag(bool b) { return of(Type::kBool, b ? 1 : 0); }
  static Plain whole(Wide wide) {
    if (wide < std::numeric_limits<std::int64_t>::min()) return none(Type::kInt64);
    if (wide > std::numeric_limits<std::int64_t>::max()) return none(Type::kInt64);
    return of(Type::kInt64, static_cast<std::int64_t>(wide));
  }
  static Plain time(Wide wide) {
    Plain out = whole(wide);
    out.type = Type::kTimestamp;
    return out;
  }
  Plain as(Type wanted) const {
    if (type == wanted) return *this;
    if (null) return none(wanted);
    return of(static_cast<double>(i));
  }
};

using Row = std::map<std::string, Plain>;

inline Plain word(const std::string& bytes, std::uint64_t seed) {
  return Plain::of(Type::kInt64, static_cast<std::int64_t>(hash64(bytes, seed) >> 1));
}

inline Plain hashed(const Plain& value) {
  if (value.type == Type::kString) return word(value.s, 1);
  std::uint64_t bits = static_cast<std::uint64_t>(value.i);
  if (value.type == Type::kFloat64) {
    const double d = std::isnan(value.d) ? std::nan("") : value.d == 0 ? 0.0 : value.d;
    std::memcpy(&bits, &d, sizeof(bits));
  }
  const std::uint64_t seed = value.type == Type::kFloat64 ? 4 : value.type == Type::kBool ? 3 : 2;
  return word(std::string(reinterpret_cast<const char*>(&bits), 8), seed);
}
inline std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 || out.empty()) out.emplace_back();
    out.back() += c;
  }
  return out;
}

inline std::tm parts(std::int64_t nanos) {
  std::time_t seconds = static_cast<std::time_t>(nanos / 1'000'000'000);
  if (nanos % 1'000'000'000 < 0) --seconds;
  std::tm out{};
  gmtime_r(&seconds, &out);
  return out;
}
inline Plain moment(std::tm tm) {
  return Plain::time(static_cast<Wide>(timegm(&tm)) * 1'000'000'000);
}

// Nothing when the function is another kind of one.
inline std::optional<Plain> number_call(const std::string& name, const std::vector<Plain>& v,
                                        bool null) {
  const auto real = [&](double d) { return null ? Plain::none(Type::kFloat64) : Plain::of(d); };
  const auto real_if = [&](bool known, double d) {
    return null || !known ? Plain::none(Type::kFloat64) : Plain::of(d);
  };
  const double x = v[0].type == Type::kInt64 ? static_cast<double>(v[0].i) : v[0].d;
  const bool whole = v[0].type == Type::kInt64;
  if (name == "negate" || name == "abs") {
    if (!whole) return real(name == "abs" ? std::abs(x) : -x);
    const Wide wide = v[0].i;
    return null ? Plain::none(Type::kInt64)
                : Plain::whole(name == "abs" && wide >= 0 ? wide : -wide);
  }
  if (name == "floor" || name == "ceil" || (name == "round" && v.size() == 1)) {
    if (whole) return v[0];
    if (name == "floor") return real(std::floor(x));
    return real(name == "ceil" ? std::ceil(x) : std::round(x));
  }
  if (name == "sqrt") return real_if(!(x < 0), std::sqrt(x));
  if (name == "ln") return real_if(!(x <= 0), std::log(x));
  if (name == "exp") return real(std::exp(x));
  if (name == "is_nan") return null ? Plain::none(Type::kBool) : Plain::flag(std::isnan(x));
  if (name == "float64") {
    if (v[0].type == Type::kBool) return real(static_cast<double>(v[0].i));
    return real(x);
  }
  if (name == "int64") {
    if (v[0].type == Type::kString) {
      std::int64_t i = 0;
      const char* end = v[0].s.data() + v[0].s.size();
      const auto read = std::from_chars(v[0].s.data(), end, i);
      const bool good = !null && read.ec == std::errc() && read.ptr == end;
      return good ? Plain::of(Type::kInt64, i) : Plain::none(Type::kInt64);
    }
    if (v[0].type != Type::kFloat64) {
      return null ? Plain::none(Type::kInt64) : Plain::of(Type::kInt64, v[0].i);
    }
    if (null || std::isnan(x) || std::abs(x) > 1e20) return Plain::none(Type::kInt64);
    return Plain::whole(static_cast<Wide>(x));
  }
  if (name == "hash" || name == "bucket") {
    if (null) return Plain::none(Type::kInt64);
    Plain hash = hashed(v[0]);
    if (name == "bucket") {
      return v[1].i <= 0 ? Plain::none(Type::kInt64) : Plain::of(Type::kInt64, hash.i % v[1].i);
    }
    for (std::size_t i = 1; i < v.size(); ++i) {
      const std::uint64_t both = static_cast<std::uint64_t>(hash.i) * 0x9E3779B97F4A7C15ull +
                                 static_cast<std::uint64_t>(hashed(v[i]).i);
      hash = word(std::string(reinterpret_cast<const char*>(&both), 8), 5);
    }
    return hash;
  }
  return std::nullopt;
}

// Nothing when the function is another kind of one.
inline std::optional<Plain> text_call(const std::string& name, const std::vector<Plain>& v,
                                      bool null) {
  const auto text = [&](std::string s) {
    return null || s.size() > kTextMax ? Plain::none(Type::kString) : Plain::of(std::move(s));
  };
  if (name == "length") {
    if (null) return Plain::none(Type::kInt64);
    return Plain::of(Type::kInt64, static_cast<std::int64_t>(characters(v[0].s).size()));
  }
  if (name == "lower" || name == "upper") {
    std::string s = v[0].s;
    for (char& c : s) {
      if (name == "lower" && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      if (name == "upper" && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    }
    return text(s);
  }
  if (name == "concat") {
    std::string s;
    for (const Plain& each : v) s += each.s;
    return text(s);
  }
  if (name == "substring") {
    if (null || v[1].i < 1 || v[2].i < 0) return Plain::none(Type::kString);
    std::string s;
    const auto all = characters(v[0].s);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto place = static_cast<Wide>(i) + 1;
      if (place >= v[1].i && place < static_cast<Wide>(v[1].i) + v[2].i) s += all[i];
    }
    return text(s);
  }
  if (name == "replace") {
    if (v[1].s.empty()) return text(v[0].s);
    std::string s;
    for (std::size_t i = 0; i < v[0].s.size();) {
      if (v[0].s.compare(i, v[1].s.size(), v[1].s) == 0) {
        s += v[2].s;
        i += v[1].s.size();
      } else {
        s += v[0].s[i++];
      }
    }
    return text(s);
  }
  if (name == "contains") {
    return null ? Plain::none(Type::kBool) : Plain::flag(v[0].s.find(v[1].s) != std::string::npos);
  }
  if (name == "string") {
    if (v[0].type == Type::kString) return text(v[0].s);
    if (v[0].type == Type::kBool) return text(v[0].i != 0 ? "true" : "false");
    if (v[0].type == Type::kTimestamp) return text(to_rfc3339(Timestamp{v[0].i}));
    if (v[0].type == Type::kInt64) return text(std::to_string(v[0].i));
    char room[64];
    const auto end = std::to_chars(room, room + 64, v[0].d);
    return text(std::string(room, end.ptr));
  }
  return std::nullopt;
}

inline Plain time_call(const std::string& name, const std::vector<Plain>& v, bool null) {
  if (name == "days_between") {
    if (null) return Plain::none(Type::kFloat64);
    const Wide span = static_cast<Wide>(v[1].i) - v[0].i;
    return Plain::of(static_cast<double>(span) / 86'400e9);
  }
  if (name == "add_days") {
    if (null) return Plain::none(Type::kTimestamp);
    const Wide days = static_cast<Wide>(v[1].i) * 86'400'000'000'000;
    if (Plain::whole(days).null) return Plain::none(Type::kTimestamp);
    return Plain::time(days + v[0].i);
  }
  if (name == "timestamp") return v[0];
  const bool start = name.starts_with("start_of_");
  if (null) return Plain::none(start ? Type::kTimestamp : Type::kInt64);
  std::tm tm = parts(v[0].i);
  const auto whole = [](int value) { return Plain::of(Type::kInt64, value); };
  if (name == "year") return whole(tm.tm_year + 1900);
  if (name == "month") return whole(tm.tm_mon + 1);
  if (name == "day") return whole(tm.tm_mday);
  if (name == "hour") return whole(tm.tm_hour);
  if (name == "minute") return whole(tm.tm_min);
  if (name == "second") return whole(tm.tm_sec);
  if (name == "weekday") return whole(tm.tm_wday == 0 ? 7 : tm.tm_wday);
  if (name == "day_of_year") return whole(tm.tm_yday + 1);
  FALAJ_CHECK(start);
  tm.tm_sec = tm.tm_min = 0;
  if (name == "start_of_hour") return moment(tm);
  tm.tm_hour = 0;
  if (name == "start_of_week") tm.tm_mday -= tm.tm_wday == 0 ? 6 : tm.tm_wday - 1;
  if (name == "start_of_month" || name == "start_of_year") tm.tm_mday = 1;
  if (name == "start_of_year") tm.tm_mon = 0;
  return moment(tm);
}

}  // namespace falaj::expression::testing
