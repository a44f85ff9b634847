// features/feast/internal/source_index.h — the rows of a source by key and by values, and the
// point-in-time rule written down as plainly as it can be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "features/feast/translate.h"
#include "table/batch.h"

namespace falaj::features::feast {

// How two values compare when one went through pandas.
enum class Likeness : std::uint8_t { kSame, kRounded, kOther };

// `single`: both are compared as 32-bit floats. Null and NaN are the same.
struct Cell {
  const table::Column& column;
  std::size_t row = 0;
};
Likeness likeness(const Cell& exact, const Cell& theirs, bool single);
// "0.5", "Dubai", "null"; times as RFC 3339.
std::string cell_text(const Cell& cell);

// Keeps references to the view and the rows.
class SourceIndex {
 public:
  SourceIndex(const ViewPlan& view, const table::Batch& rows);

  const std::vector<std::uint32_t>& rows_of(const std::string& key) const;
  // The row that a spine row of this key and time gets.
  std::optional<std::uint32_t> winner(const std::string& key, std::int64_t at) const;
  // A row of any key whose features are these; nothing when there is none, or all are null.
  bool has_values(const std::vector<const table::Column*>& theirs, std::size_t row) const;
  // Whether all features of a row are those.
  bool same_values(std::uint32_t source, const std::vector<const table::Column*>& theirs,
                   std::size_t row) const;

  std::int64_t event(std::uint32_t row) const { return event_->ints()[row]; }
  // No creation time is before every other.
  std::optional<std::int64_t> created(std::uint32_t row) const;
  const table::Column& feature(std::size_t i) const { return *features_[i]; }
  bool single(std::size_t i) const { return single_[i]; }
  // Whether the row's event is within the time to live of `at`, and not after it.
  bool within(std::uint32_t row, std::int64_t at) const;

 private:
  std::uint64_t hash_of(const std::vector<const table::Column*>& columns, std::size_t row) const;

  const ViewPlan& view_;
  const table::Column* event_ = nullptr;
  const table::Column* created_ = nullptr;  // May be null.
  std::vector<const table::Column*> features_;
  std::vector<bool> single_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_key_;
  // Filled when it is first asked for.
  mutable std::unordered_multimap<std::uint64_t, std::uint32_t> by_values_;
};

}  // namespace falaj::features::feast
