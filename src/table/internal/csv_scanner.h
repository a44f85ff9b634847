// table/internal/csv_scanner.h — splits bytes into rows of cells; knows nothing of types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "table/internal/csv.h"

namespace falaj::table {

struct CsvCell {
  std::string_view text;
  bool quoted = false;
};

// Valid until the next call of CsvScanner::next().
struct CsvRow {
  std::uint64_t line = 0;  // 1-based line on which it begins.
  std::vector<CsvCell> cells;
  std::string_view raw;     // Without the line end; of a defective row, its first line.
  std::string_view defect;  // Not empty: why it is no row; cells are then meaningless.
};

class CsvScanner {
 public:
  static constexpr std::size_t kRowBytesMax = 1u << 20;
  // Reads grow from the first to the second: a small file should not pay for a large buffer.
  static constexpr std::size_t kChunkMin = 128u << 10;
  static constexpr std::size_t kChunkMax = 4u << 20;

  // Keeps a reference: `source` outlives this.
  explicit CsvScanner(const ByteSource& source) : source_(source) {}

  // False at the end. An error comes from the source only.
  Result<bool> next(CsvRow& row);
  // The next bytes without taking them: at least `bytes` unless the input ends before.
  Result<std::string_view> peek(std::size_t bytes);
  // True once the source has no more bytes than those buffered.
  bool ended() const { return ended_; }

 private:
  enum class Step : std::uint8_t { kNextCell, kRowEnd, kNeedMore, kDefect };

  Step scan_row(CsvRow& row);
  Step scan_quoted(CsvRow& row, std::size_t& at);
  Step scan_plain(CsvRow& row, std::size_t& at);
  Step after_cell(CsvRow& row, std::size_t& at, std::string_view otherwise);
  Status skip_line(CsvRow& row);
  Status refill();
  std::size_t available() const { return buffer_.size(); }
  std::string_view view(std::size_t from, std::size_t to) const {
    return std::string_view(buffer_).substr(from, to - from);
  }

  const ByteSource& source_;
  std::string buffer_;
  std::size_t chunk_ = kChunkMin;
  std::size_t begin_ = 0;  // The first byte not yet given out.
  std::size_t raw_end_ = 0;
  bool ended_ = false;
  std::uint64_t line_ = 1;
  std::uint64_t lines_inside_ = 0;     // Line breaks within the quotes of the row being scanned.
  std::string skipped_;                // The first bytes of a defective line.
  std::deque<std::string> unescaped_;  // Cells that had doubled quotes; addresses stay put.
};

}  // namespace falaj::table
