// features/internal/view_copy.h — the durable copy of what is read online.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "features/internal/key_column.h"
#include "features/internal/view_state.h"
#include "storage/blob.h"
#include "storage/kv.h"

namespace falaj::features {

std::vector<const table::Column*> first_columns(const table::Batch& rows, std::size_t count);

// The row of a key that is not in memory, from the durable copy; it is in memory again if there is
// nothing newer. False when there is none. Any thread; blocks.
Result<bool> fetch_row(const storage::KvStore& kv, const ViewState& state, std::string_view key,
                       RowWords& out);
// The rows of all these keys that the durable copy has are in memory. Hold the index meanwhile, and
// as long as they must stay.
Status bring_in(const storage::KvStore& kv, const ViewState& state,
                const std::vector<std::string>& keys);
Status bring_in(const storage::KvStore& kv, const ViewState& state, const KeyColumn& row_keys,
                std::size_t rows);

// What the rows of all views take, and may.
struct MemoryBound {
  const std::atomic<std::int64_t>& bytes;
  std::int64_t most = 0;  // 0: no bound.
  bool reached() const { return most > 0 && bytes.load() > most; }
};
// Whether it is time to let rows go. A sweep that could not free enough is not begun again for
// every row that comes in: only once a sixteenth of the bound came on top, or something changed.
// Any thread.
class SweepGate {
 public:
  explicit SweepGate(MemoryBound bound) : bound_(bound), past_(bound.most) {}
  bool due() const { return bound_.most > 0 && bound_.bytes.load() > past_.load(); }
  // What to come down to: a little more than must go, so that it is not begun for every row.
  std::int64_t target() const { return bound_.most - bound_.most / 16; }
  void swept() { past_.store(std::max(bound_.most, bound_.bytes.load() + bound_.most / 16)); }
  // Rows may go that could not before, or rows were forgotten.
  void changed() { past_.store(bound_.most); }

 private:
  const MemoryBound bound_;
  std::atomic<std::int64_t> past_;
};
// The rows of the durable copy into a new index, up to the bound; the others are counted.
Status scan_rows(const storage::KvStore& kv, const ViewState& state, const MemoryBound& bound,
                 ViewIndex& index);

// Which rows of a segment schema are at least as new as what is in the index.
std::vector<bool> winners(const ViewState& state, const table::Batch& rows,
                          const KeyColumn& row_keys, std::uint64_t commit);

// Writes the rows that came in, in parts; the watermark goes with the last, so a part that is
// missing is written again. Ends early, without it, when `stopping`.
Status write_durably(storage::KvStore& kv, const std::atomic<bool>& stopping, ViewState& state,
                     const Fresh& fresh, const KeyColumn& row_keys);

// The committed rows behind `after`, a commit at a time, in their order.
Status for_each_commit(storage::SqlStore& sql, const storage::BlobStore& blobs,
                       const ViewState& state, std::uint64_t after, std::uint64_t up_to,
                       const std::function<Status(const CommitRows& rows)>& each);

}  // namespace falaj::features
