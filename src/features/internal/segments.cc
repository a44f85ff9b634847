#include "features/internal/segments.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/decode.h"
#include "base/log.h"
#include "features/internal/key_column.h"
#include "features/internal/sort_by_number.h"
#include "features/key.h"
#include "storage/objects.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

// Where the columns that Falaj adds stand, behind the keys.
struct Times {
  const std::vector<std::int64_t>& event;
  const Column& created;
  const std::vector<std::int64_t>& row;
};

Times times_of(const Batch& rows, std::size_t keys) {
  return {rows.columns[keys].ints(), rows.columns[keys + 1], rows.columns[keys + 2].ints()};
}

std::int64_t created_at(const Column& created, std::size_t row) {
  return created.is_null(row) ? std::numeric_limits<std::int64_t>::min() : created.ints()[row];
}

struct SortRow {
  std::uint64_t prefix;  // features/key.h
  std::int64_t event;
  std::uint32_t row;
};

bool single_int(const Batch& rows, std::size_t keys) {
  return keys == 1 && rows.columns[0].type() == Type::kInt64;
}

KeyColumn encoded_keys(const Batch& rows, std::size_t keys) {
  std::vector<const Column*> columns;
  for (std::size_t i = 0; i < keys; ++i) columns.push_back(&rows.columns[i]);
  return KeyColumn(columns);
}

bool same_key(const Batch& rows, std::size_t keys, std::size_t a, std::size_t b) {
  for (std::size_t i = 0; i < keys; ++i) {
    const Column& column = rows.columns[i];
    const bool equal = column.type() == Type::kString ? column.strings()[a] == column.strings()[b]
                                                      : column.ints()[a] == column.ints()[b];
    if (!equal) return false;
  }
  return true;
}

std::vector<std::uint32_t> segment_order(const Batch& rows, std::size_t keys) {
  const bool whole = single_int(rows, keys);
  const KeyColumn texts = whole ? KeyColumn() : encoded_keys(rows, keys);
  const Times times = times_of(rows, keys);
  std::vector<SortRow> order(rows.rows());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t prefix =
        whole ? key_prefix(rows.columns[0].ints()[i]) : key_prefix(texts[i]);
    order[i] = {prefix, times.event[i], static_cast<std::uint32_t>(i)};
  }
  const auto later = [&times](const SortRow& a, const SortRow& b) {
    const std::int64_t created_a = created_at(times.created, a.row);
    const std::int64_t created_b = created_at(times.created, b.row);
    if (created_a != created_b) return created_a < created_b;
    return times.row[a.row] < times.row[b.row];
  };
  sort_by_number(
      order, [](const SortRow& row) { return row.prefix; },
      [&](const SortRow& a, const SortRow& b) {
        if (a.prefix != b.prefix) return a.prefix < b.prefix;
        if (!whole) {
          if (const int text = texts[a.row].compare(texts[b.row]); text != 0) return text < 0;
        }
        return a.event != b.event ? a.event < b.event : later(a, b);
      });
  std::vector<std::uint32_t> out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[i] = order[i].row;
  return out;
}

Error corrupt(const Segment& segment, std::string_view why) {
  return Error(ErrorId::kSegmentCorrupt, "segment " + segment.blob.str() + " of commit " +
                                             std::to_string(segment.commit) + ": " +
                                             std::string(why));
}

// A blob that is missing or does not match its hash is named by its id; other failures are the
// server's own (a disk, a permission) and name its folders: those go to the log only.
Error unavailable(const Segment& segment, const Error& error) {
  if (error.code == Code::kNotFound || error.id == ErrorId::kBlobCorrupt) {
    return corrupt(segment, error.message);
  }
  log::error("segment not readable", {{"blob", segment.blob.str()}, {"reason", error.message}});
  return corrupt(segment, "its blob cannot be read; the server's log says why");
}

// The reach of rows that are not for this.
std::string left_out(Reach use) {
  if (use == Reach::kBoth) return "";
  return std::string(reach_name(use == Reach::kOnline ? Reach::kOffline : Reach::kOnline));
}

}  // namespace

Result<ViewDefinition> load_view(storage::SqlTransaction& tx, const std::string& project,
                                 const std::string& view) {
  const storage::Object object = FALAJ_TRY(storage::get_object(tx, "FeatureView", project, view));
  ViewDefinition out;
  out.project = project;
  out.generation = object.generation;
  out.view = FALAJ_TRY(decode_feature_view(object));
  out.entity = FALAJ_TRY(
      decode_entity(FALAJ_TRY(storage::get_object(tx, "Entity", project, out.view.entity))));
  out.source = FALAJ_TRY(
      decode_source(FALAJ_TRY(storage::get_object(tx, "Source", project, out.view.source))));
  return out;
}

table::Schema segment_schema(const FeatureView& view, const Entity& entity) {
  table::Schema schema;
  schema.fields = entity.keys;
  schema.fields.push_back({std::string(kEventColumn), Type::kTimestamp});
  schema.fields.push_back({std::string(kCreatedColumn), Type::kTimestamp});
  schema.fields.push_back({std::string(kRowColumn), Type::kInt64});
  for (const Feature& feature : view.features)
    schema.fields.push_back({feature.name, feature.type});
  return schema;
}

Result<std::vector<Segment>> list_segments(storage::SqlTransaction& tx, const std::string& project,
                                           const std::string& view, const Commits& commits) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT s.commit_number, s.blob, s.content, s.rows, s.event_min, s.event_max, c.zone, "
      "c.committed_at "
      "FROM feature_segments s JOIN feature_commits c USING (commit_number) "
      "WHERE c.project = ? AND c.view = ? AND c.commit_number > ? AND c.commit_number <= ? "
      "AND c.reach != ? ORDER BY s.commit_number, s.position",
      {project, view, static_cast<std::int64_t>(std::min(commits.after, kMost)),
       static_cast<std::int64_t>(std::min(commits.up_to, kMost)), left_out(commits.use)}));
  std::vector<Segment> out;
  for (const storage::SqlRow& row : rows) {
    out.push_back({static_cast<std::uint64_t>(row.integer(0)), BlobId(row.text(1)), row.text(2),
                   static_cast<std::uint64_t>(row.integer(3)), Timestamp{row.integer(4)},
                   Timestamp{row.integer(5)}, Zone(row.text(6)), Timestamp{row.integer(7)}});
  }
  return out;
}

Result<std::uint64_t> find_commit_of(storage::SqlTransaction& tx, const std::string& project,
                                     const std::string& view,
                                     const std::vector<Segment>& segments) {
  if (segments.empty()) return std::uint64_t{0};
  const storage::SqlRows candidates = FALAJ_TRY(
      tx.query("SELECT c.commit_number FROM feature_commits c JOIN feature_segments s "
               "USING (commit_number) WHERE c.project = ? AND c.view = ? AND s.position = 0 "
               "AND s.content = ? ORDER BY c.commit_number",
               {project, view, segments.front().content}));
  for (const storage::SqlRow& candidate : candidates) {
    const storage::SqlRows rows = FALAJ_TRY(
        tx.query("SELECT content FROM feature_segments WHERE commit_number = ? ORDER BY position",
                 {candidate.integer(0)}));
    const bool same = std::equal(rows.begin(), rows.end(), segments.begin(), segments.end(),
                                 [](const storage::SqlRow& row, const Segment& part) {
                                   return row.text(0) == part.content;
                                 });
    if (same) return static_cast<std::uint64_t>(candidate.integer(0));
  }
  return std::uint64_t{0};
}

Batch sorted_rows(Batch rows, std::size_t keys) {
  const std::vector<std::uint32_t> order = segment_order(rows, keys);
  if (std::is_sorted(order.begin(), order.end())) return rows;
  return rows.take(order);
}

Batch newest_rows(const Batch& sorted, std::size_t keys) {
  std::vector<std::uint32_t> last;
  for (std::size_t i = 0; i < sorted.rows(); ++i) {
    const bool ends = i + 1 == sorted.rows() || !same_key(sorted, keys, i, i + 1);
    if (ends) last.push_back(static_cast<std::uint32_t>(i));
  }
  return sorted.take(last);
}

storage::Owner owner_of_view(const std::string& project, const Zone& zone,
                             const std::string& view) {
  return {ProjectName(project), zone, "FeatureView/" + view};
}

Result<SegmentFile> open_segment(const storage::BlobStore& blobs, const ViewName& view,
                                 const Segment& segment) {
  Result<std::unique_ptr<ByteReader>> file =
      blobs.open(owner_of_view(view.project, segment.zone, view.view), segment.blob);
  if (!file.ok()) return unavailable(segment, file.error());
  const Result<SegmentFile> opened = SegmentFile::open(std::move(file).value());
  if (!opened.ok()) return corrupt(segment, opened.error().message);
  if (opened->rows() != segment.rows) {
    return corrupt(segment, "it does not have its recorded rows");
  }
  return opened;
}

Result<Batch> read_segment(const storage::BlobStore& blobs, const ViewName& view,
                           const Segment& segment, const table::Schema& schema) {
  const SegmentFile file = FALAJ_TRY(open_segment(blobs, view, segment));
  Result<Batch> rows = file.read(schema);
  if (!rows.ok() && rows.error().id == ErrorId::kSegmentCorrupt) {
    return corrupt(segment, rows.error().message);
  }
  return rows;
}

}  // namespace falaj::features
