// features/internal/segment_file.h — a view's rows as an immutable, sorted, columnar file.
//
// Rows ascend by key, event time, creation time and position. They stand in blocks of at most
// kBlockRows; within a block each column is a chunk of its own, and a key that repeats is stored
// once for its run of rows. The footer knows where each block begins and with which key and time,
// so that a reader finds the one block that may hold an answer without touching the others.
// The bytes: docs/reference/segment-format.md. Sealing is the blob store's, below this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "features/internal/key_column.h"
#include "features/internal/segment_chunk.h"
#include "table/batch.h"

namespace falaj::features {

inline constexpr std::size_t kBlockRows = 4096;

// Writes one file, piece by piece. One thread.
class SegmentFileWriter {
 public:
  // Columns of a segment schema (see segments.h), the first `keys` being the key. `block_rows` is
  // from 1 to kBlockRows; tests make many blocks of few rows. `out` outlives it.
  SegmentFileWriter(ByteWriter& out, std::size_t keys, std::size_t block_rows = kBlockRows);

  // Rows in segment order, behind those before: at least one row, no null key or event time;
  // kInvalidArgument otherwise.
  Status append(const table::Batch& rows);
  // Call once, after at least one append().
  Status finish();

 private:
  Status begin(const table::Batch& rows);

  ByteWriter& out_;
  const std::size_t keys_;
  const std::size_t block_rows_;
  table::Schema schema_;
  table::Batch last_;  // The last row.
  std::uint64_t rows_ = 0;
  std::uint32_t blocks_ = 0;
  std::string blocks_footer_;
};

// All at once. The same rows give the same bytes.
Status write_segment_file(ByteWriter& out, const table::Batch& rows, std::size_t keys,
                          std::size_t block_rows = kBlockRows);

// Thread-safe: reading changes nothing.
class SegmentFile {
 public:
  // Chunks of a block in the order of the file: the ends of the runs, then the columns.
  struct Block {
    std::uint64_t offset = 0;     // Of its first chunk.
    std::uint64_t first_row = 0;  // Rows of the blocks before.
    std::uint32_t rows = 0;
    std::uint32_t runs = 0;
    std::int64_t first_event = 0;
    std::string first_key;  // Encoded (features/key.h).
    std::uint64_t first_prefix = 0;
    std::vector<ChunkInfo> chunks;
  };
  // What the footer says of a column over all blocks.
  struct Summary {
    bool any_null = false;
    bool all_null = true;
    std::int64_t min = 0;  // Of all blocks; doubles and texts have none.
    std::int64_t max = 0;
  };
  // Chunks that stand side by side, read at once.
  class Chunks {
   public:
    // `index` is one of those that were read.
    const Chunk& at(std::size_t index) const { return chunks_[index - first_]; }

   private:
    friend class SegmentFile;
    std::string bytes_;
    std::size_t first_ = 0;
    std::vector<Chunk> chunks_;
  };

  // Reads the footer only. FJ-3004 when it is not one; what the chunks hold is judged when read.
  static Result<SegmentFile> open(std::shared_ptr<const ByteReader> bytes);

  const table::Schema& schema() const { return schema_; }  // Keys, event, created, row, features.
  std::size_t keys() const { return keys_; }
  std::uint64_t rows() const { return rows_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const Summary& summary(std::size_t column) const { return summaries_[column]; }

  // Where the chunk of a column stands in a block; chunk 0 is the ends of the runs.
  static constexpr std::size_t chunk_of(std::size_t column) { return column + 1; }
  // Chunks [first, last] of a block, in one read. FJ-3004 for bytes that contradict the footer.
  // `out` is reused.
  Status read_chunks(std::size_t block, std::size_t first, std::size_t last, Chunks& out) const;
  // Few rows of one chunk, read one by one: row i of what `out` then has at `chunk` is row rows[i]
  // of the block. False, and nothing read, when its values have no fixed place (nulls, texts).
  Result<bool> read_values(std::size_t block, std::size_t chunk,
                           std::span<const std::uint32_t> rows, Chunks& out) const;
  // The same for the rows [begin, end), in one read: row i of `out` is row begin + i of the block.
  Result<bool> read_rows(std::size_t block, std::size_t chunk, std::uint32_t begin,
                         std::uint32_t end, Chunks& out) const;
  // The encoded keys of a block's runs; `chunks` has those of the key columns.
  void read_run_keys(const Chunks& chunks, std::size_t runs, KeyColumn& out) const;
  // All rows of these columns. A feature that the segment does not have is null (the view got it
  // later). FJ-3002 for a column of another type, FJ-3004 for damage.
  Result<table::Batch> read(const table::Schema& wanted) const;
  // Appends the rows with from ≤ key < to (encoded; an empty `to` is behind all keys) to `out`,
  // which has this schema. Reads only blocks that may have some.
  Status read_keys(std::string_view from, std::string_view to, table::Batch& out) const;

 private:
  SegmentFile() = default;
  // Where the chunk begins in the file, if its values have a fixed place there: no nulls, no texts.
  Result<std::optional<std::uint64_t>> place_of(const Block& block, std::size_t chunk) const;
  Status open_values(const Block& block, std::size_t chunk, std::size_t rows, Chunks& out) const;
  std::size_t rows_of(const Block& block, std::size_t chunk) const {
    return chunk <= keys_ ? block.runs : block.rows;
  }
  table::Type type_of(std::size_t chunk) const {
    return chunk == 0 ? table::Type::kInt64 : schema_.fields[chunk - 1].type;
  }

  std::shared_ptr<const ByteReader> bytes_;
  table::Schema schema_;
  std::size_t keys_ = 0;
  std::uint64_t rows_ = 0;
  std::vector<Block> blocks_;
  std::vector<Summary> summaries_;  // Of the columns.
};

// The ends of a block's runs, from its chunk 0: ascending, the last is the block's rows.
// FJ-3004 otherwise.
Status read_run_ends(const Chunk& chunk, std::uint32_t rows, std::vector<std::uint32_t>& out);

}  // namespace falaj::features
