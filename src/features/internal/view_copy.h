// features/internal/view_copy.h — the durable copy of what is read online.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "features/internal/key_column.h"
#include "features/internal/view_state.h"
#include "storage/kv.h"

namespace falaj::features {

std::vector<const table::Column*> first_columns(const table::Batch& rows, std::size_t count);

// Which rows of a segment schema are at least as new as what is in the index.
std::vector<bool> winners(const ViewState& state, const table::Batch& rows,
                          const KeyColumn& row_keys, std::uint64_t commit);

// Writes the rows that came in, in parts; the watermark goes with the last, so a part that is
// missing is written again. Ends early, without it, when `stopping`.
Status write_durably(storage::KvStore& kv, const std::atomic<bool>& stopping, ViewState& state,
                     const Fresh& fresh, const KeyColumn& row_keys);

}  // namespace falaj::features
