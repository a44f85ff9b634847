// features/feast/verify.h — Feast's point-in-time answers beside the exact ones.
//
// The exact answer of each spine row is that of our join (point_in_time_join.h), which is checked
// against the rule itself, written down plainly, for every row. Where Feast answers otherwise, the
// source's rows tell how: which row, of which entity and time, its values are of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "features/feast/translate.h"
#include "table/batch.h"

namespace falaj::features::feast {

// Numbers the rows of a spine that was sampled: Feast passes columns that it does not know through.
inline constexpr std::string_view kRowNumber = "falaj_row";

enum class Fault : std::uint8_t {
  kDroppedRow,      // A spine row is not in the answers.
  kCollapsedRow,    // The same, where another row of equal keys and time is.
  kMultipliedRow,   // A spine row is there more than once.
  kForeignRow,      // A row of the answers is none of the spine.
  kTtlIgnored,      // Values of a row that was older than the time to live.
  kFutureValue,     // Values of a row that was not there yet.
  kStaleValue,      // Values of an older row than the newest.
  kCreatedIgnored,  // Of two rows of one time, the one that was created earlier.
  kMissingValue,    // Null where there is a value.
  kWrongEntity,     // Values of a row of another entity.
  kUnknownValue,    // Values that no row has.
  kRoundedInteger,  // A whole number that was rounded on its way through floats.
  kOpenTie,         // Rows with equal times: Feast promises no winner, so this is no fault.
};
std::string_view fault_name(Fault fault);  // "dropped_row"
std::string_view fault_text(Fault fault);  // For people: "spine rows are missing from the answers"

struct SampleOptions {
  std::size_t rows_max = 1000;
};
// A spine for the view, from rows taken evenly from its own: for each its key at the time of its
// event, a second before, at the end of its time to live and a second after that, and the first
// once more with the same key and time; last an entity that has no row. Columns: keys,
// event_timestamp, falaj_row. The same rows give the same spine.
table::Batch sample_spine(const ViewPlan& view, const table::Batch& rows,
                          const SampleOptions& options);

struct Example {
  std::size_t spine_row = 0;  // From 0.
  std::string key;            // "driver_id=7"
  std::string at;             // RFC 3339; "" for none.
  std::string feature;        // "" when it is about the row.
  std::string exact;
  std::string theirs;
};

struct Comparison {
  std::uint64_t spine_rows = 0;
  std::uint64_t answer_rows = 0;
  std::uint64_t right_rows = 0;           // Once there, with every value right.
  bool order_kept = true;                 // Whether the answers stand in the order of the spine.
  std::map<Fault, std::uint64_t> counts;  // Rows by their worst fault of each kind.
  std::map<Fault, std::vector<Example>> examples;  // The first few of each.
  // Without what Feast leaves open.
  std::uint64_t faults() const;
};

struct CompareInput {
  const ViewPlan& view;
  const table::Batch& rows;     // Of read_rows().
  const table::Batch& spine;    // With the view's keys.
  std::string time_column;      // Of the spine, and of the answers.
  const table::Batch& answers;  // Features as "view__feature" or "feature".
  std::size_t examples_max = 3;
};
// Answers belong to spine rows by their column falaj_row; without one, by equal keys and times, the
// first to the first. Null and NaN are one: Feast cannot tell them apart.
// FJ-3006 or 3007 for a spine that lacks a column; FJ-3002 for answers that lack one; kInternal if
// our join and the plain rule disagree, which would be ours to mend.
// Cost: memory of the rows twice; for each spine row all rows of its key.
Result<Comparison> compare_answers(const CompareInput& input);

}  // namespace falaj::features::feast
