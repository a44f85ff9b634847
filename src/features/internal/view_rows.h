// features/internal/view_rows.h — all rows of a view in memory, as a spine needs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "features/internal/key_column.h"
#include "features/internal/segments.h"
#include "storage/blob.h"

namespace falaj::features {

// One version of a row. A null creation time is the earliest.
struct VersionedRow {
  std::string_view key;  // Encoded (features/key.h).
  Timestamp event;
  Timestamp created;
  std::uint64_t sequence;  // Order of arrival.
};

// Every version of every row of a view's segments, by key, event, created, sequence.
class ViewRows {
 public:
  // `features` are the columns besides keys and times. FJ-3004 for a damaged segment.
  static Result<ViewRows> load(const storage::BlobStore& blobs, const ViewDefinition& definition,
                               const std::vector<Segment>& segments,
                               const std::vector<table::Field>& features);

  // Sorted; keys point into this object.
  const std::vector<VersionedRow>& versions() const { return versions_; }
  // The row of rows() that version `i` is about.
  std::uint32_t origin(std::size_t i) const { return origins_[i]; }
  // Keys, times and features as stored.
  const table::Batch& rows() const { return rows_; }
  std::size_t key_count() const { return keys_; }

 private:
  ViewRows() = default;
  void order(const std::vector<std::uint32_t>& run_ends, const std::vector<std::uint64_t>& commits);

  std::size_t keys_ = 0;
  table::Batch rows_;
  std::vector<KeyColumn> key_column_;  // One; a vector so that moving keeps its addresses.
  std::vector<VersionedRow> versions_;
  std::vector<std::uint32_t> origins_;
};

}  // namespace falaj::features
