// monitoring/profile.h — a distribution as counts in frozen bins, so that it can be added, compared
// and replayed exactly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/value.h"

namespace falaj::monitoring {

// Bins of one feature, frozen on the reference: at most 20 of equal depth between deduplicated
// quantile edges, plus one for missing values. Value x falls in bin i when edges[i-1] < x ≤
// edges[i]; the first and last bins are open to ±infinity.
struct Bins {
  std::string feature;
  std::vector<double> edges;                              // Ascending, distinct.
  std::size_t count() const { return edges.size() + 2; }  // Inner, open ends, missing (the last).
  std::size_t bin_of(double value) const;
  bool operator==(const Bins&) const = default;
};

// Counts per bin, one row per feature; same order as the bins.
struct Profile {
  std::vector<std::vector<std::uint64_t>> counts;
  std::uint64_t rows = 0;
  bool operator==(const Profile&) const = default;
};

Bins make_bins(std::string feature, std::span<const double> reference, std::size_t bins_max = 20);
Profile empty_profile(const std::vector<Bins>& bins);
void add_row(const std::vector<Bins>& bins, std::span<const float> row, Profile& profile);

Value to_value(const Bins& bins);
Value to_value(const Profile& profile);
Result<Bins> bins_from_value(const Value& value);
Result<Profile> profile_from_value(const Value& value);

}  // namespace falaj::monitoring
