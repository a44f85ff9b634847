// features/internal/spine.h — the rows that a training set is about: keys, time and label.
#pragma once

#include <string>
#include <vector>

#include "features/internal/segments.h"
#include "storage/blob.h"
#include "table/batch.h"

namespace falaj::features {

struct SpineRequest {
  std::vector<table::Field> keys;  // Every key column that a view of the service needs.
  std::string time_column;
  std::string label;
  Timestamp from = Timestamp::min();
  Timestamp to = Timestamp::max();
};

// The columns keys…, time, label; in the file's order, or a view's rows by time, key, arrival.
struct Spine {
  table::Batch rows;
  std::size_t key_count = 0;

  const table::Column& time() const { return rows.columns[key_count]; }
  const table::Column& label() const { return rows.columns[key_count + 1]; }
  // A copy of `count` rows from `first` on.
  Spine part(std::size_t first, std::size_t count) const;
};

// FJ-3006: a column is missing or of the wrong type, a label is missing, no row is in the period.
// FJ-3007: a key column is missing.
Result<Spine> spine_of_file(const ByteReader& file, table::Format format,
                            const SpineRequest& request);
// `view` brings keys as its entity's or as features. FJ-3004 for a damaged segment.
Result<Spine> spine_of_view(const storage::BlobStore& blobs, const ViewDefinition& view,
                            const std::vector<Segment>& segments, const SpineRequest& request);

// SHA-256 over names, types and values: equal spines, equal texts.
std::string hash_rows(const table::Batch& rows);

}  // namespace falaj::features
