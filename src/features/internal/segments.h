// features/internal/segments.h — the immutable, sorted files that a view's rows live in.
//
// A segment is a blob (segment_file.h) with the columns: the entity's keys, __event, __created
// (null: the source has none), __row (position in its ingest) and the features; sorted by key,
// event, created, row. A row's sequence is its commit's number and its position, so later arrivals
// have larger ones.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/zone.h"
#include "features/definitions.h"
#include "features/internal/segment_file.h"
#include "features/reach.h"
#include "storage/blob.h"
#include "storage/sql.h"
#include "table/batch.h"

namespace falaj::features {

inline constexpr std::string_view kEventColumn = "__event";
inline constexpr std::string_view kCreatedColumn = "__created";
inline constexpr std::string_view kRowColumn = "__row";

struct ViewName {
  std::string project;
  std::string view;
};

// A view with all that its declaration refers to.
struct ViewDefinition {
  std::string project;
  std::int64_t generation = 0;
  FeatureView view;
  Entity entity;
  Source source;
};
// FJ-2001 when the view is not declared.
Result<ViewDefinition> load_view(storage::SqlTransaction& tx, const std::string& project,
                                 const std::string& view);

table::Schema segment_schema(const FeatureView& view, const Entity& entity);

struct Segment {
  std::uint64_t commit = 0;
  BlobId blob;
  std::string content;  // SHA-256 of the file's bytes: the same rows, the same text.
  std::uint64_t rows = 0;
  Timestamp event_min{};
  Timestamp event_max{};
  Zone zone;
  Timestamp committed_at{};
};
// Commits in (after, up_to] whose rows are for `use`; kBoth: of all.
struct Commits {
  std::uint64_t after = 0;
  std::uint64_t up_to = std::numeric_limits<std::uint64_t>::max();
  Reach use = Reach::kBoth;
};
// Their segments, oldest first.
Result<std::vector<Segment>> list_segments(storage::SqlTransaction& tx, const std::string& project,
                                           const std::string& view, const Commits& commits);

// The first commit of the view whose segments have exactly this content, 0 if there is none: an
// ingest with the same rows in the same order.
// Cost: one index lookup per commit of the view.
Result<std::uint64_t> find_commit_of(storage::SqlTransaction& tx, const std::string& project,
                                     const std::string& view, const std::vector<Segment>& segments);

// `rows` of a segment schema, the first `keys` columns being the key, in segment order.
table::Batch sorted_rows(table::Batch rows, std::size_t keys);
// The last row of each key of sorted rows.
table::Batch newest_rows(const table::Batch& sorted, std::size_t keys);

// Whose the rows of a view are.
storage::Owner owner_of_view(const std::string& project, const Zone& zone, const std::string& view);

// FJ-3004 when the blob is missing, damaged or not a segment.
Result<SegmentFile> open_segment(const storage::BlobStore& blobs, const ViewName& view,
                                 const Segment& segment);
// All rows of the columns of `schema`; a feature that the view did not have then is null.
// Errors as open_segment, and FJ-3002 when a column had another type then.
Result<table::Batch> read_segment(const storage::BlobStore& blobs, const ViewName& view,
                                  const Segment& segment, const table::Schema& schema);

// commit in the upper half, position in the lower.
constexpr std::uint64_t sequence_of(std::uint64_t commit, std::int64_t row) {
  return commit << 32 | static_cast<std::uint32_t>(row);
}
constexpr std::uint64_t commit_of(std::uint64_t sequence) { return sequence >> 32; }

}  // namespace falaj::features
