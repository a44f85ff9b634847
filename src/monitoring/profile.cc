#include "monitoring/profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace falaj::monitoring {
namespace {

Error malformed(std::string_view what) {
  return Error(ErrorId::kDataLoss, "a stored profile cannot be read: " + std::string(what));
}

// The largest edge that keeps `value` out of the bin below it: the value before it in the
// reference, or, for the smallest one, the next smaller float (models read float32).
double edge_below(const std::vector<double>& sorted, double value) {
  const auto first = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (first != sorted.begin()) return *(first - 1);
  return static_cast<double>(
      std::nextafter(static_cast<float>(value), -std::numeric_limits<float>::infinity()));
}

}  // namespace

std::size_t Bins::bin_of(double value) const {
  if (std::isnan(value)) return edges.size() + 1;
  // How many edges lie below. Every prediction comes here once a feature, with values that no
  // branch predictor can guess: so without a branch.
  const double* below = edges.data();
  std::size_t left = edges.size();
  while (left > 1) {
    const std::size_t half = left / 2;
    below += half * static_cast<std::size_t>(below[half - 1] < value);
    left -= half;
  }
  const std::size_t last = left == 1 && *below < value ? 1 : 0;
  return static_cast<std::size_t>(below - edges.data()) + last;
}

// A value that fills more than one quantile gets a bin of its own: otherwise a constant or a flag
// could move down without leaving its bin. It costs no more edges than the quantiles it fills.
Bins make_bins(std::string feature, std::span<const double> reference, std::size_t bins_max) {
  std::vector<double> sorted;
  sorted.reserve(reference.size());
  std::copy_if(reference.begin(), reference.end(), std::back_inserter(sorted),
               [](double value) { return std::isfinite(value); });
  std::sort(sorted.begin(), sorted.end());

  Bins bins;
  bins.feature = std::move(feature);
  if (sorted.empty() || bins_max < 2) return bins;
  for (std::size_t i = 1; i < bins_max; ++i) {
    // The smallest value that at least i/bins_max of the rows do not exceed.
    const std::size_t rank = (i * sorted.size() + bins_max - 1) / bins_max;
    const double value = sorted[std::max<std::size_t>(rank, 1) - 1];
    const bool repeated = !bins.edges.empty() && bins.edges.back() == value;
    if (!repeated) {
      bins.edges.push_back(value);
      continue;
    }
    const double below = edge_below(sorted, value);
    const bool open = bins.edges.size() < 2 || bins.edges[bins.edges.size() - 2] < below;
    if (open && below < value) bins.edges.insert(bins.edges.end() - 1, below);
  }
  return bins;
}

Profile empty_profile(const std::vector<Bins>& bins) {
  Profile profile;
  for (const Bins& one : bins) profile.counts.emplace_back(one.count(), 0);
  return profile;
}

void add_row(const std::vector<Bins>& bins, std::span<const float> row, Profile& profile) {
  FALAJ_CHECK(row.size() == bins.size() && profile.counts.size() == bins.size());
  for (std::size_t i = 0; i < bins.size(); ++i) {
    ++profile.counts[i][bins[i].bin_of(static_cast<double>(row[i]))];
  }
  ++profile.rows;
}

Value to_value(const Bins& bins) {
  Value value;
  value["feature"] = bins.feature;
  value["edges"] = Value::array();
  for (const double edge : bins.edges) value["edges"].push(edge);
  return value;
}

Value to_value(const Profile& profile) {
  Value value;
  value["rows"] = profile.rows;
  value["counts"] = Value::array();
  for (const std::vector<std::uint64_t>& counts : profile.counts) {
    Value row = Value::array();
    for (const std::uint64_t count : counts) row.push(count);
    value["counts"].push(std::move(row));
  }
  return value;
}

Result<Bins> bins_from_value(const Value& value) {
  if (!value["feature"].is_string() || !value["edges"].is_array()) return malformed("bins");
  Bins bins;
  bins.feature = value["feature"].as_string();
  for (const Value& edge : value["edges"].as_array()) {
    if (!edge.is_number()) return malformed("an edge of " + bins.feature);
    if (!bins.edges.empty() && edge.as_double() <= bins.edges.back()) {
      return malformed("the edges of " + bins.feature + " do not ascend");
    }
    bins.edges.push_back(edge.as_double());
  }
  return bins;
}

Result<Profile> profile_from_value(const Value& value) {
  if (!value["rows"].is_int() || !value["counts"].is_array()) return malformed("counts");
  Profile profile;
  profile.rows = static_cast<std::uint64_t>(value["rows"].as_int());
  for (const Value& row : value["counts"].as_array()) {
    if (!row.is_array()) return malformed("a row of counts");
    std::vector<std::uint64_t>& counts = profile.counts.emplace_back();
    for (const Value& count : row.as_array()) {
      if (!count.is_int() || count.as_int() < 0) return malformed("a count");
      counts.push_back(static_cast<std::uint64_t>(count.as_int()));
    }
  }
  return profile;
}

}  // namespace falaj::monitoring
