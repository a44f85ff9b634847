// features/internal/view_rows.h — the rows of a view in memory, ready for a point-in-time join.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "features/internal/segments.h"
#include "features/point_in_time_join.h"
#include "storage/blob.h"

namespace falaj::features {

// Encoded keys of rows, in one buffer; "" for a row with a null part.
class KeyColumn {
 public:
  // `columns` have equal lengths and the types of an entity's keys.
  explicit KeyColumn(const std::vector<const table::Column*>& columns);
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t row) const {
    const std::uint64_t begin = row == 0 ? 0 : ends_[row - 1];
    return std::string_view(bytes_).substr(begin, ends_[row] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

// What a join needs of a view: every version of every row of its segments, in join order.
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
