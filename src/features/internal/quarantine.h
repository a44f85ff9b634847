// features/internal/quarantine.h — where rows go that an ingest could not accept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "features/ingest.h"
#include "storage/blob.h"
#include "table/batch.h"

namespace falaj::features {

// A CSV blob of line, reason and raw text. Nothing is created before the first row.
class Quarantine {
 public:
  static constexpr std::size_t kExamples = 20;

  Quarantine(storage::BlobStore& blobs, storage::Owner owner)
      : blobs_(blobs), owner_(std::move(owner)) {}

  // Rows are added from callbacks that cannot fail, so a failed write is kept for finish().
  void add(const table::BadRow& row);
  std::uint64_t rows() const { return rows_; }
  const std::vector<QuarantinedRow>& examples() const { return examples_; }
  // Durable when it returns; empty when no row was added.
  Result<BlobId> finish();

 private:
  void flush();

  storage::BlobStore& blobs_;
  const storage::Owner owner_;
  std::unique_ptr<storage::BlobWriter> writer_;
  std::string buffer_;
  Status status_;
  std::uint64_t rows_ = 0;
  std::vector<QuarantinedRow> examples_;
};

// The values of one row joined by commas, as a person would write them.
std::string row_text(const table::Batch& batch, std::size_t row);

}  // namespace falaj::features
