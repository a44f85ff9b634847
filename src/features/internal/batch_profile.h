// features/internal/batch_profile.h — what the rows of one ingest look like, taken while they pass.
//
// Counts, extremes, means and the number of different values are of every row. Quantiles and
// frequent values are of every row up to kAllRows, and of one row in kStride after that, each
// counting kStride times: which one follows from its position, so that the same file gives the same
// profile. Profiles of several ingests can be merged. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "features/internal/segments.h"
#include "features/internal/sketches.h"
#include "features/view_care.h"
#include "table/batch.h"

namespace falaj::features {

// How much of a column a profile keeps.
enum class Detail : std::uint8_t {
  kCounts,    // Of keys: how many, how many different.
  kPersonal,  // Neither extremes nor frequent values, which are somebody's.
  kValues,
};

// Of a text the numbers are its length in bytes; of a bool they are 0 and 1.
struct ColumnProfile {
  table::Field field;
  Detail detail = Detail::kValues;
  std::uint64_t values = 0;
  std::uint64_t missing = 0;  // Nulls, and numbers that are not finite.
  double sum = 0;             // Of times: 0.
  // With detail kValues and values > 0.
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  std::int64_t least_int = INT64_MAX;  // The same of int64 and times, exactly.
  std::int64_t most_int = INT64_MIN;
  Spread spread{};
  Distinct distinct{};
  TopValues top{};  // Integers as 8 bytes, little end first. Neither of floats nor of times.
};

struct BatchProfile {
  static constexpr std::size_t kColumnsMax = 1'000;  // Those after it are left out.
  static constexpr std::size_t kBytesMax = 64u << 20;

  std::uint64_t rows = 0;
  std::uint64_t looked_at = 0;  // For quantiles and frequent values.
  std::int64_t event_min = INT64_MAX;
  std::int64_t event_max = INT64_MIN;
  std::vector<ColumnProfile> keys;
  std::vector<ColumnProfile> features;

  // Columns are matched by name and type; one that only the other has is taken over. The lesser
  // detail of a column stays.
  void merge(const BatchProfile& other);
};

// Takes the rows of one ingest.
class Profiler {
 public:
  static constexpr std::uint64_t kAllRows = 65'536;
  static constexpr std::uint64_t kStride = 8;

  Profiler(const ViewDefinition& definition, const ViewCare& care);
  // Rows of a segment schema, in the order of the file.
  void add(const table::Batch& rows);
  const BatchProfile& profile() const { return profile_; }

 private:
  struct Chosen {
    std::uint32_t row;
    std::uint32_t weight;
  };
  void choose(std::size_t rows);

  BatchProfile profile_;
  std::size_t first_feature_;
  std::vector<Chosen> chosen_;
  friend class ColumnIntake;
};

// As stored. FJ-3004 for bytes that encode() did not make; never more memory than a few times
// theirs.
std::string encode(const BatchProfile& profile);
Result<BatchProfile> decode_profile(std::string_view bytes);

// For people: shares, quantiles, a histogram of 24 bars, the ten most frequent values.
Value to_value(const BatchProfile& profile);

}  // namespace falaj::features
