// features/arrivals.h — whether a view's rows keep coming: not too old, and not too few.
//
//   spec: {freshness: 2h, volume: {rows_min: 1000, every: 1d}}
//
// Looked at by the server's tick, not at the door: a source that stops sends nothing that could be
// checked. What begins and what ends is an audit entry (`features.alarm`, `features.alarm_end`)
// once; metrics show it all the time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"
#include "features/view_care.h"
#include "security/audit.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::features {

extern const storage::Migration kArrivalsMigration;

// What came, at one moment.
struct ArrivalFacts {
  Timestamp declared{};      // When the view was declared as it is.
  Timestamp newest_event{};  // Not in the future; 0 when no row came yet.
  std::uint64_t rows = 0;    // That were committed in the `every` before now.
};

struct ArrivalState {
  bool stale = false;
  bool few = false;
  Duration age{};          // Of the newest event, or since the declaration when there is none.
  std::uint64_t rows = 0;  // As in the facts.
  bool operator==(const ArrivalState&) const = default;
};

// Pure. An age of exactly `freshness` is fresh. Nothing is wrong before the view was declared for
// as long as is expected of its rows.
ArrivalState judge_arrival(const Arrival& expected, const ArrivalFacts& facts, Timestamp now);

// Judges every view that expects something; safe to repeat.
struct ArrivalServices {
  storage::SqlStore& sql;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;
};
Status tick_arrivals(const ArrivalServices& services);
// Before the first tick, so that the metrics are known from the start.
void declare_arrival_metrics(telemetry::Metrics& metrics);

// One row for each view of the project that expects something: {view, freshness_seconds,
// age_seconds, rows_min, every_seconds, rows, stale, few}, judged now.
struct ViewArrival {
  std::string view;
  Arrival expected{};
  ArrivalState state{};
};
Result<std::vector<ViewArrival>> read_arrivals(storage::SqlStore& sql, const ProjectName& project,
                                               Timestamp now);
Value to_value(const ViewArrival& arrival);

}  // namespace falaj::features
