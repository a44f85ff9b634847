// features/point_in_time_join.h — training rows without leakage from the future.
//
// For each spine row and view, the newest feature row of the same key that is not younger than it
// and not older than the time to live. That rule is why a feature store exists, so it lives here
// alone.
//
//   candidates  same key, event ≤ at, and with ttl > 0 also event ≥ at − ttl: both inclusive.
//   winner      the largest (event, created, sequence); no created time is the earliest.
//   no winner   every feature of the view is null for that row. A null key or a null time has none.
//
// Features over windows take many rows instead of one, by the rules of internal/windows.h, from the
// same candidates: known_at and the rule for creation times hold for them too, ttl does not.
//
// Every spine row gives exactly one row, in its order; equal ones each get their own.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "features/definitions.h"
#include "table/batch.h"

namespace falaj::features {

class SegmentFile;  // features/internal/segment_file.h

// What a creation time is for.
enum class CreatedRule : std::uint8_t {
  kBreaksTies,  // It decides between equal event times.
  kKnownByRow,  // It must also be ≤ the spine row's time; rows without one are no candidates.
};

struct JoinSegment {
  std::shared_ptr<const SegmentFile> file;
  std::uint64_t commit = 0;  // Upper half of its rows' sequences.
};

struct JoinFeature {
  table::Field stored;  // Of an aggregate: its name, and the type of its result.
  std::string as;       // The column that it becomes.
  std::optional<Aggregate> aggregate{};
};

struct JoinView {
  std::string name;                  // For messages, and in front of full names: an alias wins.
  std::vector<table::Field> keys;    // The entity's.
  std::vector<std::string> columns;  // Spine columns with those keys; empty: of the same names.
  std::vector<JoinFeature> features;
  Duration ttl{};  // 0: no limit.
  CreatedRule created = CreatedRule::kBreaksTies;
  // Not empty: one more column behind the features, a timestamp that says when the row that they
  // are from was available: its creation time, its event time if it has none. With aggregates the
  // latest of those of all events in the longest window too.
  std::string available_as{};
  std::vector<JoinSegment> segments;
  std::optional<table::Field> event_id{};  // For aggregates; see FeatureView.
};

// Fills in `as` of every feature. FJ-3005 when a name would be there twice, those of `taken` (the
// spine's columns) included.
Status name_features(NameStyle style, const std::vector<std::string>& taken,
                     std::vector<JoinView>& views);

struct JoinOptions {
  std::string time_column;
  // Nothing that arrived with a later commit is seen.
  std::uint64_t known_at = std::numeric_limits<std::uint64_t>::max();
  std::size_t threads = 2;
  // About what the joining may hold besides the spine and the batch that it hands out. Past it the
  // spine is joined in several passes, each of which reads the views again; nothing is written to
  // disk.
  std::int64_t memory_max = std::int64_t{1} << 30;
};

// The features of all views as columns, in their order, one row for each row of the spine.
//
// FJ-3007: the spine lacks a key. FJ-3006: it lacks the time, or a column has another type than the
// entity's key: never silent nulls. FJ-3002: a feature was stored with another type. FJ-3004: a
// segment is damaged.
// Cost: sorts the spine once for each set of key columns, then merges: O(spine · log(distance)),
// reading only blocks of segments that may hold an answer. Aggregates read the rows in their
// windows once for every stretch of 256 spine rows, and hold them. Thread-safe; starts threads of
// its own.
Result<table::Batch> point_in_time_join(const table::Batch& spine,
                                        const std::vector<JoinView>& views,
                                        const JoinOptions& options);
// The same in pieces: calls `on_rows` with the features of the spine's next rows until all were
// given or it returns an error. For what does not fit into memory.
using OnJoined = std::function<Status(table::Batch features)>;
Status point_in_time_join(const table::Batch& spine, const std::vector<JoinView>& views,
                          const JoinOptions& options, const OnJoined& on_rows);

}  // namespace falaj::features
