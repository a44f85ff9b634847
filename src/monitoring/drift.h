// monitoring/drift.h — how far a profile moved from its reference. Pure; the same counts give the
// same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "monitoring/profile.h"

namespace falaj::monitoring {

enum class Method : std::uint8_t { kPsi, kJs };
Result<Method> parse_method(std::string_view name);  // "psi", "js"
std::string_view method_name(Method method);

// Population stability index, Σ(p−q)·ln(p/q), with shares smoothed as (c + ½)/(n + k/2): a bin that
// is empty on one side counts by how many rows say so, not by an arbitrary epsilon. Both lists have
// the same length; a side without any row gives 0 (nothing is known).
double psi(std::span<const std::uint64_t> reference, std::span<const std::uint64_t> current);
// Jensen–Shannon distance, base 2: 0 … 1. Needs no smoothing.
double js_distance(std::span<const std::uint64_t> reference,
                   std::span<const std::uint64_t> current);

struct FeatureDrift {
  std::string feature;
  double psi = 0;
  double js = 0;
  bool drifted = false;
};
struct DriftReport {
  std::vector<FeatureDrift> features;
  double worst = 0;  // By the chosen method.
  std::string worst_feature;
  std::uint64_t drifted = 0;
};
Value to_value(const DriftReport& report);
Result<DriftReport> drift_from_value(const Value& value);

// One row a feature, in the order of `bins`. A feature drifted when its score reaches the
// threshold.
DriftReport measure_drift(const std::vector<Bins>& bins, const Profile& reference,
                          const Profile& current, Method method, double threshold);

}  // namespace falaj::monitoring
