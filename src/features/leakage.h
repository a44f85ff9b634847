// features/leakage.h — was each training value available at the time of its row?
//
// The point-in-time rule looks at event times. A row that was created later than the moment it
// speaks of (a correction, a late batch) still wins there, though a model would not have had it at
// that time. This says how often that happened, and how much time there was otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

// Of one view. All its features that are read come from the same row, so they share one time; those
// over windows share the latest of all events in the view's longest window. The slack of a row is
// its time less the time at which what it got was available: negative when it was created later.
struct Leakage {
  std::string view;
  std::uint64_t rows = 0;           // That got a value.
  std::uint64_t created_later = 0;  // Of these.
  Duration slack_min{};
  Duration slack_p01{};
  Duration slack_p50{};
  bool operator==(const Leakage&) const = default;
};

// Measures a view's rows as they are joined. Holds eight bytes for each row that got a value: the
// quantiles are exact.
class LeakageMeter {
 public:
  explicit LeakageMeter(std::string view) { found_.view = std::move(view); }
  // `available` are the timestamps that a join gives under JoinView::available_as; null: no value.
  void add(const table::Column& time, const table::Column& available);
  // Of all rows that were added. Call once.
  Leakage finish();

 private:
  Leakage found_;
  std::vector<std::int64_t> slack_;
};
Value to_value(const Leakage& leakage);
Result<Leakage> leakage_from_value(const Value& value);

}  // namespace falaj::features
