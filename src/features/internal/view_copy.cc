#include "features/internal/view_copy.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <tuple>

#include "features/internal/online_rows.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;

constexpr std::uint64_t kAllCommits = std::numeric_limits<std::uint64_t>::max();
// Rows of one durable write: large enough to amortise it, small enough for memory.
constexpr std::size_t kRowsPerWrite = 20'000;

}  // namespace

std::vector<const Column*> first_columns(const Batch& rows, std::size_t count) {
  std::vector<const Column*> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(&rows.columns[i]);
  return out;
}

std::vector<bool> winners(const ViewState& state, const Batch& rows, const KeyColumn& row_keys,
                          std::uint64_t commit) {
  const std::size_t keys = state.keys.size();
  std::vector<bool> out(rows.rows(), true);
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    const auto mine = std::make_tuple(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                                      sequence_of(commit, rows.columns[keys + 2].ints()[row]));
    state.index->read(row_keys[row], kAllCommits, [&](const RowView& there) {
      out[row] = mine >= std::make_tuple(there.event(), there.created(), there.sequence());
    });
  }
  return out;
}

Status write_durably(storage::KvStore& kv, const std::atomic<bool>& stopping, ViewState& state,
                     const Fresh& fresh, const KeyColumn& row_keys) {
  const std::size_t keys = state.keys.size();
  const Batch& rows = fresh.rows;
  const RowPacker packer(state.fields);
  const std::span<const Column> features = std::span(rows.columns).subspan(keys + 3);
  std::vector<storage::KvWrite> batch{packer.schema_record()};
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    if (!fresh.wins[row]) continue;
    batch.push_back(
        {kRowMark + std::string(row_keys[row]),
         packer.pack(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                     sequence_of(fresh.commit, rows.columns[keys + 2].ints()[row]), features, row),
         state.row_key});
    if (batch.size() < kRowsPerWrite) continue;
    if (stopping.load()) return {};
    FALAJ_TRY(kv.write(fresh.owner, batch));
    batch.clear();
  }
  batch.push_back({std::string(kWatermarkKey), encode_number(fresh.commit)});
  FALAJ_TRY(kv.write(fresh.owner, batch));
  state.copied = std::max(state.copied.load(), fresh.commit);
  return {};
}

}  // namespace falaj::features
