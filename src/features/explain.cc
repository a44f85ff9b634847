#include "features/explain.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "features/internal/segments.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::int64_t kAuditPage = 1'000;

Value value_of(const Column& column, std::size_t row) {
  if (column.is_null(row)) return {};
  switch (column.type()) {
    case Type::kBool:
      return Value(column.bools()[row] != 0);
    case Type::kInt64:
      return Value(column.ints()[row]);
    case Type::kFloat64:
      return Value(column.doubles()[row]);
    case Type::kString:
      return Value(column.strings()[row]);
    case Type::kTimestamp:
      break;
  }
  return Value(to_rfc3339(Timestamp{column.ints()[row]}));
}

// The best row so far, by the rule of point_in_time_join.h.
struct Best {
  std::tuple<std::int64_t, std::int64_t, std::uint64_t> version;
  Segment segment;
  Batch rows;
  std::size_t row = 0;
};

// Rows of this key, of one segment.
Result<Batch> rows_of(const storage::BlobStore& blobs, const ViewName& view, const Segment& segment,
                      const std::string& key) {
  const SegmentFile file = FALAJ_TRY(open_segment(blobs, view, segment));
  Batch rows(file.schema());
  FALAJ_TRY(file.read_keys(key, key + '\0', rows));
  return rows;
}

void take_best(const Segment& segment, const Batch& rows, std::size_t keys, Timestamp latest,
               std::optional<Best>& best) {
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    const std::int64_t event = rows.columns[keys].ints()[row];
    if (event > latest.nanos) continue;
    const Column& created = rows.columns[keys + 1];
    const auto version = std::make_tuple(
        event,
        created.is_null(row) ? std::numeric_limits<std::int64_t>::min() : created.ints()[row],
        sequence_of(segment.commit, rows.columns[keys + 2].ints()[row]));
    if (best && best->version >= version) continue;
    best = Best{version, segment, rows.take({static_cast<std::uint32_t>(row)}), 0};
  }
}

Result<std::string> key_of(const Entity& entity, const EntityKeys& given) {
  OnlinePlan plan;
  plan.keys = entity.keys;
  std::vector<KeyPart> parts;
  FALAJ_TRY(append_keys(plan, given, parts));
  return encode_key(parts);
}

// How far `from` is before `to`. Two times can be further apart than a Duration reaches.
Duration time_until(Timestamp from, Timestamp to) {
  std::int64_t nanos = 0;
  if (!__builtin_sub_overflow(to.nanos, from.nanos, &nanos)) return {nanos};
  using Limits = std::numeric_limits<std::int64_t>;
  return {to < from ? Limits::min() : Limits::max()};
}

void describe(const ViewDefinition& definition, const Best& best, Explanation& out) {
  const std::size_t keys = definition.entity.keys.size();
  out.event = Timestamp{std::get<0>(best.version)};
  const Column& created = best.rows.columns[keys + 1];
  if (!created.is_null(0)) out.created = Timestamp{created.ints()[0]};
  out.commit = best.segment.commit;
  out.row = static_cast<std::uint64_t>(best.rows.columns[keys + 2].ints()[0]);
  out.segment = best.segment.blob;
  out.status = FeatureStatus::kPresent;
  if (definition.view.ttl > Duration{}) {
    out.ttl_margin = time_until(out.at, out.event + definition.view.ttl);
    // As readers decide it.
    if (out.event < out.at - definition.view.ttl) out.status = FeatureStatus::kOutsideMaxAge;
  }
  out.features = Value::object();
  for (const Feature& feature : definition.view.features) {
    const Column* column = best.rows.find(feature.name);
    out.features[feature.name] = column == nullptr ? Value() : value_of(*column, 0);
  }
}

}  // namespace

Value to_value(const Explanation& explanation) {
  Value out = Value::object();
  out["view"] = explanation.view;
  out["at"] = to_rfc3339(explanation.at);
  out["status"] = status_name(explanation.status);
  out["candidates"] = explanation.candidates;
  if (explanation.status == FeatureStatus::kNotFound) return out;
  out["generation"] = explanation.generation;
  out["features"] = explanation.features;
  out["event_time"] = to_rfc3339(explanation.event);
  out["created_time"] = explanation.created ? Value(to_rfc3339(*explanation.created)) : Value();
  out["ttl_margin_seconds"] =
      explanation.ttl_margin ? Value(explanation.ttl_margin->as_seconds()) : Value();
  out["commit"] = explanation.commit;
  out["row"] = explanation.row;
  out["to"] = reach_name(explanation.reach);
  out["segment"] = explanation.segment.str();
  out["committed_at"] = to_rfc3339(explanation.committed_at);
  out["audit_sequence"] = explanation.audit_sequence;
  out["action"] = explanation.action;
  out["actor"] = explanation.actor;
  if (!explanation.file.empty()) out["file"] = explanation.file;
  if (explanation.file_row) out["file_row"] = *explanation.file_row;
  return out;
}

namespace {

enum class Search : std::uint8_t { kGoOn, kEnded };

// Whether the entry is of row `row` of the commit: an ingest brings all of it, a push a part.
Search take_author(const security::AuditEntry& entry, Explanation& out) {
  if (entry.action != "features.ingest" && entry.action != "features.push") return Search::kGoOn;
  const auto commit = static_cast<std::uint64_t>(entry.detail.integer("commit"));
  if (commit < out.commit) return Search::kEnded;
  if (commit > out.commit) return Search::kGoOn;
  const auto first = static_cast<std::uint64_t>(entry.detail.integer("first_row"));
  const auto rows = static_cast<std::uint64_t>(entry.detail.integer("rows"));
  if (out.row < first || out.row >= first + rows) return Search::kGoOn;
  out.audit_sequence = entry.sequence;
  out.action = entry.action;
  out.actor = entry.actor;
  out.file = entry.detail.text("file");
  if (!out.file.empty() && entry.detail.integer("quarantined") == 0) out.file_row = out.row + 1;
  return Search::kEnded;
}

// From the newest back, a page at a time: those of earlier commits stand before it.
Status find_author(const security::Audit& audit, const std::string& object, Explanation& out) {
  security::AuditQuery query;
  query.object = object;
  query.limit = kAuditPage;
  for (;;) {
    const std::vector<security::AuditEntry> page = FALAJ_TRY(audit.list(query));
    for (const security::AuditEntry& entry : page) {
      if (take_author(entry, out) == Search::kEnded) return {};
    }
    if (page.size() < static_cast<std::size_t>(kAuditPage)) return {};
    query.after = page.back().sequence;
  }
}

Status find_commit(storage::SqlTransaction& tx, Explanation& out) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT generation, committed_at, reach FROM feature_commits WHERE commit_number = ?",
      {static_cast<std::int64_t>(out.commit)}));
  if (rows.empty()) return {};
  out.generation = rows[0].integer(0);
  out.committed_at = Timestamp{rows[0].integer(1)};
  out.reach = FALAJ_TRY(parse_reach(rows[0].text(2)));
  return {};
}

}  // namespace

Result<Explanation> Explainer::explain(const ProjectName& project, const std::string& view,
                                       const EntityKeys& entity, const ExplainAsk& ask) const {
  ViewDefinition definition;
  std::vector<Segment> segments;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    definition = FALAJ_TRY(load_view(tx, project.str(), view));
    Commits commits;
    commits.use = ask.at && !ask.commit ? Reach::kOffline : Reach::kOnline;
    if (ask.commit) commits.up_to = *ask.commit;
    segments = FALAJ_TRY(list_segments(tx, project.str(), view, commits));
    return {};
  }));
  const std::string key = FALAJ_TRY(key_of(definition.entity, entity));
  Explanation out;
  out.view = view;
  out.at = ask.at.value_or(clock_.now());
  // Online, a row whose event is still to come is served; the join leaves it out.
  const Timestamp latest = ask.at && !ask.commit ? *ask.at : Timestamp::max();
  std::optional<Best> best;
  for (const Segment& segment : segments) {
    const Batch rows = FALAJ_TRY(rows_of(blobs_, {project.str(), view}, segment, key));
    out.candidates += rows.rows();
    take_best(segment, rows, definition.entity.keys.size(), latest, best);
  }
  if (!best) return out;
  describe(definition, *best, out);
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status { return find_commit(tx, out); }));
  FALAJ_TRY(find_author(audit_, "FeatureView/" + project.str() + "/" + view, out));
  return out;
}

}  // namespace falaj::features
