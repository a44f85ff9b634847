// A profile as people and programs read it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "features/internal/batch_profile.h"

namespace falaj::features {
namespace {

using table::Type;

constexpr std::size_t kBars = 24;
constexpr std::size_t kTopShown = 10;
// Below this many values a quantile is nearly one of them: of personal columns none is shown.
constexpr std::uint64_t kPersonalLeast = 100;

constexpr std::pair<const char*, double> kQuantiles[] = {{"p1", 0.01}, {"p5", 0.05},  {"p25", 0.25},
                                                         {"p50", 0.5}, {"p75", 0.75}, {"p95", 0.95},
                                                         {"p99", 0.99}};
constexpr double kPersonalTail = 0.05;

Value finite(double value) { return std::isfinite(value) ? Value(value) : Value(); }

// As exact as the bins are: four digits.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::abs(value) < 1e-300 ? 0.0 : value);
  return std::strtod(text, nullptr);
}

bool whole(Type type) { return type == Type::kInt64 || type == Type::kString; }

Value value_at(const ColumnProfile& column, std::uint64_t place) {
  if (column.field.type == Type::kTimestamp) {
    std::int64_t nanos = time_at(place);
    if (column.detail == Detail::kValues && column.least_int <= column.most_int) {
      nanos = std::clamp(nanos, column.least_int, column.most_int);
    }
    return to_rfc3339(Timestamp{nanos});
  }
  double number = number_at(place);
  if (!std::isfinite(number)) return {};
  number = whole(column.field.type) ? std::round(number) : rounded(number);
  if (column.detail == Detail::kValues && column.least <= column.most) {
    number = std::clamp(number, column.least, column.most);
  }
  // Whole numbers are shown as such as far as every reader keeps them.
  if (whole(column.field.type) && std::abs(number) < 9e15) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

double axis_of(const ColumnProfile& column, std::uint64_t place) {
  return column.field.type == Type::kTimestamp ? static_cast<double>(time_at(place))
                                               : number_at(place);
}

// Shares of the values in bars of equal width between two quantiles; what lies outside is in the
// first and the last. A bin that reaches over several bars is divided among them.
Value histogram_of(const ColumnProfile& column, double tail) {
  const std::uint64_t first = column.spread.quantile(tail);
  const std::uint64_t last = column.spread.quantile(1 - tail);
  const double from = axis_of(column, first);
  const double to = axis_of(column, last);
  if (!std::isfinite(from) || !std::isfinite(to) || !std::isfinite(to - from)) return {};
  std::vector<double> bars(to > from ? kBars : 1);
  const double width = (to - from) / static_cast<double>(bars.size());
  const auto bar_of = [&](double at) {
    if (!(at > from) || width <= 0) return std::size_t{0};
    return at >= to ? bars.size() - 1 : static_cast<std::size_t>((at - from) / width);
  };
  const unsigned shift = column.spread.shift();
  for (const Spread::Bin& bin : column.spread.bins()) {
    const double low = axis_of(column, bin.index << shift);
    const double high = axis_of(column, ((bin.index + 1) << shift) - 1);
    const std::size_t begin = std::min(bar_of(low), bars.size() - 1);
    const std::size_t end = std::min(bar_of(high), bars.size() - 1);
    const auto count = static_cast<double>(bin.count);
    if (begin >= end || !std::isfinite(high - low)) {
      bars[begin] += count;
      continue;
    }
    const double share = count / static_cast<double>(end - begin + 1);
    for (std::size_t i = begin; i <= end; ++i) bars[i] += share;
  }
  Value out;
  out["from"] = value_at(column, first);
  out["to"] = value_at(column, last);
  out["shares"] = Value::array();
  const auto total = static_cast<double>(column.spread.total());
  for (const double bar : bars) out["shares"].push(std::round(bar / total * 1e6) / 1e6);
  return out;
}

Value top_of(const ColumnProfile& column) {
  Value out = Value::array();
  for (const auto& [bytes, count] : column.top.most()) {
    // One that was seen once is nobody's habit.
    if (out.as_array().size() == kTopShown || count < 2) break;
    Value row;
    if (column.field.type == Type::kString) {
      row["value"] = is_valid_utf8(bytes) ? Value(bytes) : Value("(bytes)");
    } else {
      std::int64_t number = 0;
      std::memcpy(&number, bytes.data(), std::min(sizeof number, bytes.size()));
      row["value"] = column.field.type == Type::kBool ? Value(number != 0) : Value(number);
    }
    row["rows"] = count;
    out.push(std::move(row));
  }
  return out;
}

void show_extremes(const ColumnProfile& column, Value& out) {
  switch (column.field.type) {
    case Type::kFloat64:
    case Type::kString:
      out["min"] = finite(column.least);
      out["max"] = finite(column.most);
      break;
    case Type::kInt64:
      out["min"] = column.least_int;
      out["max"] = column.most_int;
      break;
    case Type::kTimestamp:
      out["min"] = to_rfc3339(Timestamp{column.least_int});
      out["max"] = to_rfc3339(Timestamp{column.most_int});
      break;
    case Type::kBool:
      break;
  }
}

void show_numbers(const ColumnProfile& column, Value& out) {
  const bool personal = column.detail == Detail::kPersonal;
  if (personal && column.values < kPersonalLeast) return;
  if (column.field.type != Type::kTimestamp) {
    out["mean"] = finite(column.sum / static_cast<double>(column.values));
  }
  if (column.spread.total() == 0) return;
  const double tail = personal ? kPersonalTail : kQuantiles[0].second;
  for (const auto& [name, share] : kQuantiles) {
    if (share < tail || share > 1 - tail) continue;
    out["quantiles"][name] = value_at(column, column.spread.quantile(share));
  }
  out["histogram"] = histogram_of(column, tail);
}

Value column_value(const ColumnProfile& column) {
  Value out;
  out["name"] = column.field.name;
  out["type"] = table::type_name(column.field.type);
  out["missing"] = column.missing;
  // An estimate of more than there are would look silly.
  out["distinct"] = std::min(column.distinct.estimate(), column.values);
  if (column.detail == Detail::kCounts) return out;
  if (column.detail == Detail::kPersonal) out["sensitivity"] = "personal";
  if (column.field.type == Type::kString) out["numbers_of"] = "length";
  if (column.values == 0) return out;
  if (column.detail == Detail::kValues) {
    show_extremes(column, out);
    if (column.field.type != Type::kFloat64 && column.field.type != Type::kTimestamp) {
      out["top"] = top_of(column);
      if (column.top.lost() > 0) out["top_missed_at_most"] = column.top.lost();
    }
  }
  show_numbers(column, out);
  return out;
}

}  // namespace

Value to_value(const BatchProfile& profile) {
  Value out;
  out["rows"] = profile.rows;
  out["looked_at"] = profile.looked_at;
  if (profile.event_min <= profile.event_max) {
    out["event_time"]["min"] = to_rfc3339(Timestamp{profile.event_min});
    out["event_time"]["max"] = to_rfc3339(Timestamp{profile.event_max});
  }
  out["keys"] = Value::array();
  for (const ColumnProfile& key : profile.keys) out["keys"].push(column_value(key));
  out["features"] = Value::array();
  for (const ColumnProfile& feature : profile.features) {
    out["features"].push(column_value(feature));
  }
  return out;
}

}  // namespace falaj::features
