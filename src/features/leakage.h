// features/leakage.h — was each training value available at the time of its row?
//
// The point-in-time rule looks at event times. A row that was created later than the moment it
// speaks of (a correction, a late batch) still wins there, though a model would not have had it at
// that time. This says how often that happened, and how much time there was otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "base/value.h"
#include "table/batch.h"

namespace falaj::features {

// What becomes of values that were created after the time of the row they are joined to.
enum class CreatedLater : std::uint8_t {
  kMark,      // They are used, and counted.
  kRefuse,    // The set is not frozen.
  kLeaveOut,  // They are no candidates: an older value that was known is used, or none.
};

// Of one view; all its features come from the same row. The slack of a row is its time less the
// time at which what it got was available: negative when it was created later.
struct Leakage {
  std::string view;
  std::uint64_t rows = 0;           // That got a value.
  std::uint64_t created_later = 0;  // Of these.
  Duration slack_min{};
  Duration slack_p01{};
  Duration slack_p50{};
  bool operator==(const Leakage&) const = default;
};

// `available` are the timestamps that a join gives under JoinView::available_as; null: no value.
// Cost: O(rows).
Leakage measure_leakage(const std::string& view, const table::Column& time,
                        const table::Column& available);
Value to_value(const Leakage& leakage);
Result<Leakage> leakage_from_value(const Value& value);

}  // namespace falaj::features
