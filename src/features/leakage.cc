#include "features/leakage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/decode.h"

namespace falaj::features {
namespace {

using Limits = std::numeric_limits<std::int64_t>;

// Stops at the ends instead of wrapping around.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_sub_overflow(a, b, &out)) return out;
  return a < b ? Limits::min() : Limits::max();
}

// The smallest value that at least this share of all does not exceed.
Duration quantile(std::vector<std::int64_t>& values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), place, values.end());
  return {*place};
}

}  // namespace

void LeakageMeter::add(const table::Column& time, const table::Column& available) {
  for (std::size_t row = 0; row < available.size(); ++row) {
    if (available.is_null(row)) continue;
    slack_.push_back(difference(time.ints()[row], available.ints()[row]));
    if (slack_.back() < 0) ++found_.created_later;
  }
}

Leakage LeakageMeter::finish() {
  found_.rows = slack_.size();
  if (slack_.empty()) return found_;
  found_.slack_min = {*std::min_element(slack_.begin(), slack_.end())};
  found_.slack_p01 = quantile(slack_, 0.01);
  found_.slack_p50 = quantile(slack_, 0.5);
  return found_;
}

Value to_value(const Leakage& leakage) {
  Value out = Value::object();
  out["view"] = leakage.view;
  out["rows"] = leakage.rows;
  out["created_later"] = leakage.created_later;
  out["slack_min_ns"] = leakage.slack_min.nanos;
  out["slack_p01_ns"] = leakage.slack_p01.nanos;
  out["slack_p50_ns"] = leakage.slack_p50.nanos;
  return out;
}

Result<Leakage> leakage_from_value(const Value& value) {
  Fields fields(value, "leakage of a view");
  const auto count = [&](std::string_view key) -> Result<std::uint64_t> {
    return static_cast<std::uint64_t>(FALAJ_TRY(fields.integer(key, 0, 0, Limits::max())));
  };
  const auto slack = [&](std::string_view key) -> Result<Duration> {
    return Duration{FALAJ_TRY(fields.integer(key, 0, Limits::min(), Limits::max()))};
  };
  Leakage out;
  out.view = FALAJ_TRY(fields.required_text("view"));
  out.rows = FALAJ_TRY(count("rows"));
  out.created_later = FALAJ_TRY(count("created_later"));
  out.slack_min = FALAJ_TRY(slack("slack_min_ns"));
  out.slack_p01 = FALAJ_TRY(slack("slack_p01_ns"));
  out.slack_p50 = FALAJ_TRY(slack("slack_p50_ns"));
  FALAJ_TRY(fields.finish());
  return out;
}

}  // namespace falaj::features
