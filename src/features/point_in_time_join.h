// features/point_in_time_join.h — training rows without leakage from the future.
//
// For each spine row, the newest feature row of the same key that is not younger than it and not
// older than the time to live. That rule is why a feature store exists, so it lives here alone, as
// a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "table/batch.h"

namespace falaj::features {

// Keys are encoded entity keys (features/key.h); "" stands for a null key and matches nothing.
struct SpineRow {
  std::string_view key;
  Timestamp at;
};
struct VersionedRow {
  std::string_view key;
  Timestamp event;
  Timestamp created;       // Equal event times: the later creation wins, then the later sequence.
  std::uint64_t sequence;  // Order of arrival.
};

// For each spine row, in its order: the index of the winning row, or table::Column::kNoRow.
//
// Candidates: same key, event ≤ at, and with ttl > 0 also event ≥ at − ttl; both bounds inclusive.
// Winner: the largest (event, created, sequence). Every spine row gets exactly one answer.
// `rows` ascend by (key, event, created, sequence), else kInvalidArgument.
// Cost: O(rows + spine · log spine). Pure; keeps no reference to its inputs.
Result<std::vector<std::uint32_t>> point_in_time_join(std::span<const SpineRow> spine,
                                                      std::span<const VersionedRow> rows,
                                                      Duration ttl);

}  // namespace falaj::features
