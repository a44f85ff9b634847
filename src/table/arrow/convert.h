// table/arrow/convert.h — Arrow's arrays to our columns and back. Only sources of this folder
// include it.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "table/io.h"

namespace falaj::table {

// A failed library call as FJ-3001 about `path`.
Error from_arrow(const std::string& path, const ::arrow::Status& status);

// The columns to read: where they stand in the file, and as what.
struct Selection {
  Schema schema;
  std::vector<int> fields;  // Index of each in the file's schema.
};

// FJ-3002 when a wanted column is missing, doubled or of a type that cannot become the wanted one;
// without wanted ones: all columns, FJ-3001 for a type we do not know.
Result<Selection> select_columns(const std::string& path, const ::arrow::Schema& found,
                                 const Schema& wanted);

// Row within the batch → why it is bad (the first reason).
using Faults = std::map<std::size_t, std::string>;

// `array` as a column of `type`; select_columns has said that this can be done.
Column to_column(const ::arrow::Array& array, const Field& field, Faults& faults);

// Hands `record`, whose columns are those of `selection`, to `on_batch` in pieces of
// options.batch_rows. `first_row` is the 1-based number of its first row.
Status deliver(const std::string& path, const ::arrow::RecordBatch& record,
               const Selection& selection, std::uint64_t first_row, const ReadOptions& options,
               const OnBatch& on_batch);

// Keeps references into `batch`, which outlives the table.
std::shared_ptr<::arrow::Table> to_arrow(const Batch& batch);

// Refuses a number of rows that the bytes of the file cannot stand for.
Status check_row_count(const std::string& path, std::int64_t rows, std::int64_t file_bytes);
// How much memory the library may take to read a file of this size.
std::int64_t memory_limit(std::int64_t file_bytes);

}  // namespace falaj::table
