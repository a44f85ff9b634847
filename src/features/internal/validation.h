// features/internal/validation.h — which rows of a source may become rows of a view.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "features/ingest.h"
#include "features/internal/expectations.h"
#include "features/internal/seen_keys.h"
#include "features/internal/segments.h"
#include "table/io.h"

namespace falaj::features {

// Reads batches of the source's columns, says which rows are bad, and puts the others into the
// form of a segment. One per ingest; not thread-safe.
class Validation {
 public:
  // FJ-3002 when one column is wanted as two types, FJ-3050 for an expectation that does not fit
  // the columns.
  // `now`: later events are accepted, but do not count as the newest.
  static Result<Validation> create(const ViewDefinition& definition, Timestamp now);

  // The columns to read from the source.
  const table::Schema& source_schema() const { return source_; }
  // Good rows of `batch` as segment rows, in order; each bad one goes to `on_bad_row`.
  table::Batch accept(table::Batch batch, const std::vector<std::uint64_t>& lines,
                      const std::function<void(const table::BadRow&)>& on_bad_row);
  std::uint64_t accepted() const { return accepted_; }
  // The newest event among accepted rows that is not in the future; 0 when there is none.
  Timestamp newest_event() const { return newest_event_; }
  // FJ-3002 when a feature had more nulls than its nulls_max allows, FJ-3051 when more rows broke
  // an expectation than its broken_max does, kResourceExhausted when more rows were to be unique
  // than are compared (SeenKeys::kMax).
  Status check_shares();
  // After check_shares(): what was broken that only warns, in the order of the view.
  std::vector<IngestReport::Warning> warnings() const;

 private:
  using Warning = IngestReport::Warning;
  // Row of the batch → the first reason against it.
  using Faults = std::map<std::size_t, std::string>;

  Validation(const ViewDefinition& definition, Timestamp now);
  Status want(const table::Field& field);
  const table::Column& source_column(const table::Batch& batch, const std::string& name) const;
  Faults find_faults(const table::Batch& batch, const std::vector<std::uint64_t>& lines);
  // The reasons against rows of one feature.
  Faults check_feature(const Feature& feature, const table::Column& column) const;
  void check_row_expectations(const table::Batch& batch, const std::vector<std::uint64_t>& lines,
                              Faults& faults);
  // Which rows break expectation `number`.
  std::vector<std::uint32_t> breaking(std::size_t number, const table::Batch& batch);
  std::vector<std::uint32_t> repeated(std::size_t number, const table::Batch& batch);
  table::Batch to_segment_rows(table::Batch good);

  const ViewDefinition& definition_;
  const Timestamp now_;
  Timestamp newest_event_{};
  table::Schema source_;
  std::vector<std::size_t> uses_;  // How many parts of the view each source column is.
  table::Schema segment_;
  std::vector<CompiledExpectation> expect_;
  std::uint64_t read_ = 0;
  std::uint64_t accepted_ = 0;
  std::vector<SeenKeys> seen_;          // Of each row expectation, for those about uniqueness.
  bool too_many_keys_ = false;          // One of them could not keep all.
  std::vector<Warning> broken_;         // Of each row expectation, those in quarantine too.
  std::vector<Warning> feature_warns_;  // Of each feature that warns.
  std::vector<std::uint64_t> nulls_;    // Per feature, among accepted rows.
};

}  // namespace falaj::features
