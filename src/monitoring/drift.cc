#include "monitoring/drift.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace falaj::monitoring {
namespace {

double total(std::span<const std::uint64_t> counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

// p·log2(p/m), 0 where p is 0.
double divergence_term(double p, double m) { return p > 0 ? p * std::log2(p / m) : 0; }

}  // namespace

Result<Method> parse_method(std::string_view name) {
  if (name == "psi") return Method::kPsi;
  if (name == "js") return Method::kJs;
  return Error(ErrorId::kInvalidArgument,
               "'" + std::string(name) + "' is no drift method; use psi or js");
}

std::string_view method_name(Method method) { return method == Method::kPsi ? "psi" : "js"; }

double psi(std::span<const std::uint64_t> reference, std::span<const std::uint64_t> current) {
  FALAJ_CHECK(reference.size() == current.size());
  const double rows_p = total(reference);
  const double rows_q = total(current);
  if (rows_p == 0 || rows_q == 0) return 0;
  const double half_bins = static_cast<double>(reference.size()) / 2;
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double p = (static_cast<double>(reference[i]) + 0.5) / (rows_p + half_bins);
    const double q = (static_cast<double>(current[i]) + 0.5) / (rows_q + half_bins);
    sum += (p - q) * std::log(p / q);
  }
  return sum;
}

double js_distance(std::span<const std::uint64_t> reference,
                   std::span<const std::uint64_t> current) {
  FALAJ_CHECK(reference.size() == current.size());
  const double rows_p = total(reference);
  const double rows_q = total(current);
  if (rows_p == 0 || rows_q == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double p = static_cast<double>(reference[i]) / rows_p;
    const double q = static_cast<double>(current[i]) / rows_q;
    const double m = (p + q) / 2;
    sum += divergence_term(p, m) + divergence_term(q, m);
  }
  return std::sqrt(std::max(sum / 2, 0.0));
}

DriftReport measure_drift(const std::vector<Bins>& bins, const Profile& reference,
                          const Profile& current, Method method, double threshold) {
  FALAJ_CHECK(reference.counts.size() == bins.size() && current.counts.size() == bins.size());
  DriftReport report;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    FeatureDrift drift;
    drift.feature = bins[i].feature;
    drift.psi = psi(reference.counts[i], current.counts[i]);
    drift.js = js_distance(reference.counts[i], current.counts[i]);
    const double score = method == Method::kPsi ? drift.psi : drift.js;
    drift.drifted = score >= threshold;
    if (drift.drifted) ++report.drifted;
    if (report.worst_feature.empty() || score > report.worst) {
      report.worst = score;
      report.worst_feature = drift.feature;
    }
    report.features.push_back(std::move(drift));
  }
  return report;
}

Value to_value(const DriftReport& report) {
  Value value;
  value["worst"] = report.worst;
  value["worst_feature"] = report.worst_feature;
  value["drifted"] = report.drifted;
  value["features"] = Value::array();
  for (const FeatureDrift& drift : report.features) {
    Value row;
    row["feature"] = drift.feature;
    row["psi"] = drift.psi;
    row["js"] = drift.js;
    row["drifted"] = drift.drifted;
    value["features"].push(std::move(row));
  }
  return value;
}

Result<DriftReport> drift_from_value(const Value& value) {
  if (!value.is_object() || !value["features"].is_array()) {
    return Error(ErrorId::kDataLoss, "a stored drift report cannot be read");
  }
  DriftReport report;
  report.worst = value.number("worst");
  report.worst_feature = value.text("worst_feature");
  report.drifted = static_cast<std::uint64_t>(value.integer("drifted"));
  for (const Value& row : value["features"].as_array()) {
    report.features.push_back({row.text("feature"), row.number("psi"), row.number("js"),
                               row["drifted"].is_bool() && row["drifted"].as_bool()});
  }
  return report;
}

}  // namespace falaj::monitoring
