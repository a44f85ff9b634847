#include "features/internal/segment_merge.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "exec/pool.h"
#include "features/internal/segments.h"

namespace falaj::features {
namespace {

using Runs = std::vector<std::shared_ptr<const SegmentFile>>;

// Keys at which slices begin, the first being before all.
std::vector<std::string> cut(const Runs& runs, std::size_t slice_rows) {
  std::vector<std::pair<std::string_view, std::size_t>> blocks;
  for (const auto& run : runs) {
    for (const SegmentFile::Block& block : run->blocks()) {
      blocks.emplace_back(block.first_key, block.rows);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  std::vector<std::string> out{""};
  std::size_t rows = 0;
  for (const auto& [key, count] : blocks) {
    if (rows >= slice_rows && key != out.back()) {
      out.emplace_back(key);
      rows = 0;
    }
    rows += count;
  }
  return out;
}

Result<table::Batch> read_slice(const Runs& runs, std::string_view from, std::string_view to) {
  table::Batch rows(runs.front()->schema());
  for (const auto& run : runs) FALAJ_TRY(run->read_keys(from, to, rows));
  return sorted_rows(std::move(rows), runs.front()->keys());
}

}  // namespace

Status merge_segments(const Runs& runs, ByteWriter& out, std::size_t slice_rows) {
  const std::vector<std::string> from = cut(runs, slice_rows);
  SegmentFileWriter writer(out, runs.front()->keys());
  std::optional<Result<table::Batch>> next = read_slice(runs, "", from.size() > 1 ? from[1] : "");
  for (std::size_t i = 0; i < from.size(); ++i) {
    const table::Batch rows = FALAJ_TRY(*std::exchange(next, std::nullopt));
    Status written;
    {
      exec::Pool ahead({"merge", 1, 1});
      if (i + 1 < from.size()) {
        const std::string_view to = i + 2 < from.size() ? std::string_view(from[i + 2]) : "";
        FALAJ_TRY(ahead.submit([&, to, i] { next.emplace(read_slice(runs, from[i + 1], to)); }));
      }
      if (rows.rows() > 0) written = writer.append(rows);
    }
    if (!written.ok()) return written;
  }
  return writer.finish();
}

}  // namespace falaj::features
