// table/io.h — Parquet, CSV and Arrow IPC in and out. The only door to Arrow, which stays hidden.
//
// Foreign bytes: every reader bounds what it allocates and answers FJ-3001 with the place of the
// fault; it never stops the process. Types outside table/schema.h are widened (int32 → int64,
// float32 → float64, any timestamp unit → ns UTC, dictionary → string) or refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "table/batch.h"

namespace falaj::table {

enum class Format : std::uint8_t { kParquet, kCsv, kArrowIpc };

Result<Format> parse_format(std::string_view name);         // "parquet", "csv", "arrow"
Result<Format> format_of_path(std::string_view path);       // by extension
std::optional<Format> sniff_format(std::string_view head);  // by magic bytes; CSV is never sniffed

// A row that could not be read as the schema asks.
struct BadRow {
  std::uint64_t line = 0;  // 1-based: the line of a CSV file, the row of the others.
  std::string reason;      // Names the column and the value seen.
  std::string raw;  // The row as it stood (CSV line, or values joined by commas), cut at 4 KiB.
};

struct ReadOptions {
  // Columns to read, with their types. Empty: all, types as found (CSV: inferred from the file).
  Schema schema;
  std::size_t batch_rows = 65'536;
  // Called for each row that has the wrong type or number of cells. Unset: the first one is
  // FJ-3001.
  std::function<void(BadRow)> on_bad_row;
};

// Calls `on_batch` with batches in file order until it returns an error or the file ends.
// `rows` of a batch carry their 1-based line in `lines` (same length as the batch).
using OnBatch = std::function<Status(Batch batch, const std::vector<std::uint64_t>& lines)>;
Status read_table(const ByteReader& file, Format format, const ReadOptions& options,
                  const OnBatch& on_batch);
// The whole file as one batch; convenience for what fits in memory.
Result<Batch> read_all(const ByteReader& file, Format format, const ReadOptions& options = {});
// The column names and types of a file, without its rows (CSV: inferred from the first 64 KiB).
Result<Schema> read_schema(const ByteReader& file, Format format);

struct WriteOptions {
  std::size_t row_group_rows = 131'072;
  // Parquet only; stored in the footer, e.g. the manifest of a training set.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// The same batch and options give the same bytes.
Status write_table(ByteWriter& file, Format format, const Batch& batch,
                   const WriteOptions& options = {});

// Files that a person named: command line, demo, tests. A server keeps no table in a plain file.
// Errors begin with the path.
Status read_file(const std::string& path, Format format, const ReadOptions& options,
                 const OnBatch& on_batch);
Result<Batch> read_all(const std::string& path, Format format, const ReadOptions& options = {});
Result<Schema> read_schema(const std::string& path, Format format);
// Writes path whole, not durably.
Status write_file(const std::string& path, Format format, const Batch& batch,
                  const WriteOptions& options = {});

}  // namespace falaj::table
