#include "features/internal/view_copy.h"

#include <algorithm>
#include <limits>
#include <memory>
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
constexpr std::size_t kKeysPerRead = 1'024;

Status unpack(const storage::KvStore& kv, const ViewState& state, std::string_view value,
              RowWords& out) {
  const MutexLock lock(state.unpacking);
  if (state.unpacker == nullptr) {
    state.unpacker = std::make_unique<RowUnpacker>(kv, state.owner(), state.fields);
  }
  return state.unpacker->unpack(value, out);
}

}  // namespace

Result<bool> fetch_row(const storage::KvStore& kv, const ViewState& state, std::string_view key,
                       RowWords& out) {
  const std::uint64_t ticket = state.index->ticket(key);
  const auto value = FALAJ_TRY(kv.get(state.owner(), kRowMark + std::string(key)));
  if (!value) return false;
  FALAJ_TRY(unpack(kv, state, *value, out));
  state.index->fill(key, out.row(), ticket);
  return true;
}

Status bring_in(const storage::KvStore& kv, const ViewState& state,
                const std::vector<std::string>& keys) {
  if (state.index->complete()) return {};
  RowWords words(state.fields.size());
  std::vector<std::string> missing;
  const auto fetch = [&]() -> Status {
    std::vector<std::uint64_t> tickets;
    for (const std::string& key : missing) {
      tickets.push_back(state.index->ticket(std::string_view(key).substr(1)));
    }
    const auto values = FALAJ_TRY(kv.get_many(state.owner(), missing));
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (!values[i]) continue;
      FALAJ_TRY(unpack(kv, state, *values[i], words));
      state.index->fill(std::string_view(missing[i]).substr(1), words.row(), tickets[i]);
    }
    missing.clear();
    return {};
  };
  for (const std::string& key : keys) {
    const auto seen = state.index->read(key, kAllCommits, [](const RowView&) {});
    if (seen != ViewIndex::Seen::kElsewhere) continue;
    missing.push_back(kRowMark + key);
    if (missing.size() == kKeysPerRead) FALAJ_TRY(fetch());
  }
  return fetch();
}

Status bring_in(const storage::KvStore& kv, const ViewState& state, const KeyColumn& row_keys,
                std::size_t rows) {
  if (state.index->complete()) return {};
  std::vector<std::string> keys;
  for (std::size_t row = 0; row < rows; ++row) keys.emplace_back(row_keys[row]);
  return bring_in(kv, state, keys);
}

Status scan_rows(const storage::KvStore& kv, const ViewState& state, const MemoryBound& bound,
                 ViewIndex& index) {
  RowUnpacker unpacker(kv, state.owner(), state.fields);
  RowWords words(state.fields.size());
  Status status;
  std::uint64_t left_out = 0;
  FALAJ_TRY(kv.scan(state.owner(), [&](std::string_view key, std::string_view value) {
    if (key.empty() || key.front() != kRowMark) return true;
    if (bound.reached()) {
      ++left_out;
      return true;
    }
    status = unpacker.unpack(value, words);
    if (status.ok()) index.put(key.substr(1), words.row(), ViewIndex::Replaced::kForget);
    return status.ok();
  }));
  index.leave_out(left_out);
  return status;
}

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

Status for_each_commit(storage::SqlStore& sql, const storage::BlobStore& blobs,
                       const ViewState& state, std::uint64_t after, std::uint64_t up_to,
                       const std::function<Status(const CommitRows& rows)>& each) {
  std::vector<Segment> segments;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    segments =
        FALAJ_TRY(list_segments(tx, state.project, state.view, {after, up_to, Reach::kOnline}));
    return {};
  }));
  for (std::size_t i = 0; i < segments.size();) {
    CommitRows out;
    out.commit = segments[i].commit;
    out.committed_at = segments[i].committed_at;
    for (; i < segments.size() && segments[i].commit == out.commit; ++i) {
      Batch rows =
          FALAJ_TRY(read_segment(blobs, {state.project, state.view}, segments[i], state.segments));
      out.newest.append(newest_rows(rows, state.keys.size()));
      if (state.events == nullptr) continue;
      const Timestamp oldest = state.events->oldest_needed(out.committed_at);
      out.all.append(rows_behind(std::move(rows), state.keys.size(), oldest));
    }
    FALAJ_TRY(each(out));
  }
  return {};
}

}  // namespace falaj::features
