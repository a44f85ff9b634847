#include "features/internal/erasing.h"

#include <set>

#include "features/internal/kept_profiles.h"
#include "features/internal/online_rows.h"
#include "features/internal/segment_writer.h"

namespace falaj::features {
namespace {

// A segment that held the subject, and what stands in its place (nothing when no row is left).
struct Replacement {
  Segment before;
  std::vector<Segment> after;
  std::uint64_t rows = 0;  // Taken out.
};

struct Rows {
  std::vector<std::uint32_t> kept;
  std::uint64_t taken = 0;
};

// The whole keys of taken rows go to `keys`: an entity may have more keys than the subject.
Rows split(const table::Batch& batch, std::size_t key_count, const Subject& subject,
           std::set<std::string>& keys) {
  std::vector<const table::Column*> whole;
  for (std::size_t i = 0; i < key_count; ++i) whole.push_back(&batch.columns[i]);
  std::vector<const table::Column*> named;
  for (const table::Field& key : subject.keys) named.push_back(batch.find(key.name));
  const std::string wanted = encode_key(subject.parts);
  Rows rows;
  for (std::uint32_t row = 0; row < batch.rows(); ++row) {
    if (key_of_row(named, row) != wanted) {
      rows.kept.push_back(row);
      continue;
    }
    ++rows.taken;
    keys.insert(key_of_row(whole, row));
  }
  return rows;
}

Result<std::vector<Replacement>> rewrite(const ErasingStores& stores,
                                         const ViewDefinition& definition,
                                         const std::vector<Segment>& segments,
                                         const Subject& subject, std::set<std::string>& keys) {
  const ViewName name{definition.project, definition.view.name};
  const table::Schema schema = segment_schema(definition.view, definition.entity);
  const std::size_t key_count = definition.entity.keys.size();
  std::vector<Replacement> out;
  for (const Segment& segment : segments) {
    const table::Batch batch = FALAJ_TRY(read_segment(stores.blobs, name, segment, schema));
    const Rows rows = split(batch, key_count, subject, keys);
    if (rows.taken == 0) continue;
    Replacement replaced{segment, {}, rows.taken};
    if (!rows.kept.empty()) {
      SegmentWriter writer(stores.blobs, owner_of_view(name.project, segment.zone, name.view),
                           key_count, OnlineUse::kOffline);
      FALAJ_TRY(writer.add(batch.take(rows.kept)));
      FALAJ_TRY(writer.finish());
      replaced.after = FALAJ_TRY(writer.commit());
    }
    out.push_back(std::move(replaced));
  }
  return out;
}

Status forget_blob(storage::SqlTransaction& tx, const ViewDefinition& definition, const Zone& zone,
                   const std::string& blob) {
  FALAJ_TRY(tx.execute(
      "INSERT OR IGNORE INTO feature_erased_blobs (project, zone, view, blob) VALUES (?, ?, ?, ?)",
      {definition.project, zone.name(), definition.view.name, blob}));
  return {};
}

Status replace(storage::SqlTransaction& tx, const ViewDefinition& definition,
               const Replacement& one) {
  const auto commit = static_cast<std::int64_t>(one.before.commit);
  const std::string& old = one.before.blob.str();
  FALAJ_TRY(forget_blob(tx, definition, one.before.zone, old));
  if (one.after.empty()) {
    FALAJ_TRY(tx.execute("DELETE FROM feature_segments WHERE commit_number = ? AND blob = ?",
                         {commit, old}));
  } else {
    // A segment that lost rows fits into one.
    const Segment& now = one.after.front();
    FALAJ_TRY(
        tx.execute("UPDATE feature_segments SET blob = ?, content = ?, rows = ?, "
                   "event_min = ?, event_max = ? WHERE commit_number = ? AND blob = ?",
                   {now.blob.str(), now.content, static_cast<std::int64_t>(now.rows),
                    now.event_min.nanos, now.event_max.nanos, commit, old}));
  }
  FALAJ_TRY(tx.execute("UPDATE feature_commits SET rows = rows - ? WHERE commit_number = ?",
                       {static_cast<std::int64_t>(one.rows), commit}));
  return {};
}

Result<std::uint64_t> drop_quarantines(storage::SqlTransaction& tx,
                                       const ViewDefinition& definition) {
  const storage::SqlRows rows = FALAJ_TRY(
      tx.query("SELECT zone, blob FROM feature_quarantines WHERE project = ? AND view = ?",
               {definition.project, definition.view.name}));
  for (const storage::SqlRow& row : rows) {
    FALAJ_TRY(forget_blob(tx, definition, Zone(row.text(0)), row.text(1)));
  }
  FALAJ_TRY(tx.execute("DELETE FROM feature_quarantines WHERE project = ? AND view = ?",
                       {definition.project, definition.view.name}));
  return rows.size();
}

Status record(storage::SqlTransaction& tx, security::Audit& audit,
              const security::RequestContext& context, const ViewDefinition& definition,
              const ErasedView& report, std::uint64_t profiles) {
  Value detail;  // Counts only: the audit log never learns who.
  detail["rows"] = report.rows;
  detail["segments"] = report.segments;
  detail["online"] = report.online;
  detail["quarantines"] = report.quarantines;
  detail["profiles"] = profiles;
  FALAJ_TRY(
      audit.append(tx, context,
                   {"features.erase",
                    "FeatureView/" + definition.project + "/" + definition.view.name, detail}));
  return {};
}

}  // namespace

Result<ErasedView> erase_from_view(const ErasingStores& stores,
                                   const security::RequestContext& context,
                                   const ViewDefinition& definition, const Subject& subject) {
  std::vector<Segment> segments;
  FALAJ_TRY(stores.sql.read([&](storage::SqlTransaction& tx) -> Status {
    segments = FALAJ_TRY(list_segments(tx, definition.project, definition.view.name, {}));
    return {};
  }));
  std::set<std::string> keys;
  if (subject.keys.size() == definition.entity.keys.size()) {
    keys.insert(encode_key(subject.parts));  // Online even if an earlier try stopped half-way.
  }
  const std::vector<Replacement> replaced =
      FALAJ_TRY(rewrite(stores, definition, segments, subject, keys));
  ErasedView report;
  report.view = definition.view.name;
  report.segments = replaced.size();
  for (const Replacement& one : replaced) report.rows += one.rows;
  const auto erase_online = [&]() -> Result<std::uint64_t> {
    if (definition.view.online == OnlineUse::kOffline) return std::uint64_t{0};
    return stores.online.erase(ProjectName(definition.project), definition.view, definition.entity,
                               {keys.begin(), keys.end()});
  };
  report.online = FALAJ_TRY(erase_online());
  if (definition.entity.row_key == storage::RowKey::kItsOwn) {
    const Zone zone = segments.empty() ? context.zone : segments.front().zone;
    report.owner = owner_of_view(definition.project, zone, definition.view.name);
    for (const std::string& key : keys) report.own_keys.push_back(kRowMark + key);
  }
  FALAJ_TRY(stores.sql.write([&](storage::SqlTransaction& tx) -> Status {
    const ViewName name{definition.project, definition.view.name};
    std::uint64_t profiles = 0;
    for (const Replacement& one : replaced) {
      FALAJ_TRY(replace(tx, definition, one));
      profiles += FALAJ_TRY(forget_profiles_of(tx, name, one.before.commit));
    }
    report.quarantines = FALAJ_TRY(drop_quarantines(tx, definition));
    return record(tx, stores.audit, context, definition, report, profiles);
  }));
  // Again: a view that was loaded meanwhile may have caught up from the old segments.
  FALAJ_TRY(erase_online());
  FALAJ_TRY(finish_erasures(stores.sql, stores.blobs));
  return report;
}

Status forget_view(const ErasingStores& stores, const std::string& project, const std::string& view,
                   const Zone& zone) {
  FALAJ_TRY(stores.online.forget(ProjectName(project), view, zone));
  const storage::SqlParams place{project, view, zone.name()};
  FALAJ_TRY(stores.sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute(
        "INSERT OR IGNORE INTO feature_erased_blobs (project, zone, view, blob)"
        " SELECT c.project, c.zone, c.view, s.blob FROM feature_segments s JOIN feature_commits c"
        " ON c.commit_number = s.commit_number WHERE c.project = ? AND c.view = ? AND c.zone = ?",
        place));
    FALAJ_TRY(tx.execute(
        "INSERT OR IGNORE INTO feature_erased_blobs (project, zone, view, blob)"
        " SELECT project, zone, view, blob FROM feature_quarantines WHERE project = ? AND view = ?"
        " AND zone = ?",
        place));
    FALAJ_TRY(forget_profiles_in(tx, {project, view}, zone));
    FALAJ_TRY(
        tx.execute("DELETE FROM feature_segments WHERE commit_number IN (SELECT commit_number FROM"
                   " feature_commits WHERE project = ? AND view = ? AND zone = ?)",
                   place));
    FALAJ_TRY(tx.execute(
        "DELETE FROM feature_quarantines WHERE project = ? AND view = ? AND zone = ?", place));
    FALAJ_TRY(tx.execute(
        "UPDATE feature_commits SET rows = 0 WHERE project = ? AND view = ? AND zone = ?", place));
    return {};
  }));
  return finish_erasures(stores.sql, stores.blobs);
}

}  // namespace falaj::features
