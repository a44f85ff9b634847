#include "monitoring/internal/store.h"

#include "base/json.h"

namespace falaj::monitoring {

const storage::Migration kMonitoringMigration{"monitoring-001-windows", R"sql(
CREATE TABLE monitor_references (
  project TEXT NOT NULL,
  model TEXT NOT NULL,
  version INTEGER NOT NULL,
  zone TEXT NOT NULL CHECK (zone != ''),
  training_set TEXT NOT NULL,
  bins TEXT NOT NULL,
  profile TEXT NOT NULL,
  PRIMARY KEY (project, model, version)
);
CREATE TABLE monitor_windows (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT NOT NULL,
  monitor TEXT NOT NULL,
  model TEXT NOT NULL,
  zone TEXT NOT NULL CHECK (zone != ''),
  version INTEGER NOT NULL,
  begins_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  verdict INTEGER NOT NULL,
  alarm INTEGER NOT NULL DEFAULT 0,
  profile TEXT NOT NULL,
  drift TEXT NOT NULL
);
CREATE INDEX monitor_windows_by_monitor ON monitor_windows (project, monitor, id);
CREATE TABLE monitor_alarms (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT NOT NULL,
  monitor TEXT NOT NULL,
  deployment TEXT NOT NULL,
  zone TEXT NOT NULL CHECK (zone != ''),
  version INTEGER NOT NULL,
  window_id INTEGER NOT NULL,
  drift TEXT NOT NULL,
  raised_at INTEGER NOT NULL,
  closed_at INTEGER
);
CREATE UNIQUE INDEX monitor_alarms_open ON monitor_alarms (project, monitor, version)
  WHERE closed_at IS NULL;
)sql"};

Result<std::optional<Reference>> find_reference(storage::SqlTransaction& tx, const ModelKey& key) {
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT training_set, bins, profile, zone FROM monitor_references"
                         " WHERE project = ? AND model = ? AND version = ?",
                         {key.project, key.model, key.version}));
  if (rows.empty()) return std::optional<Reference>();
  Reference reference;
  reference.training_set = rows[0].text(0);
  reference.zone = Zone(rows[0].text(3));
  const Value bins = FALAJ_TRY(parse_json(rows[0].text(1)));
  if (bins.is_array()) {
    for (const Value& one : bins.as_array()) {
      reference.bins.push_back(FALAJ_TRY(bins_from_value(one)));
    }
  }
  reference.profile = FALAJ_TRY(profile_from_value(FALAJ_TRY(parse_json(rows[0].text(2)))));
  if (reference.profile.counts.size() != reference.bins.size()) {
    return Error(ErrorId::kDataLoss, "the stored reference of model '" + key.model +
                                         "' does not fit its bins; restore from a backup");
  }
  return std::optional<Reference>(std::move(reference));
}

Status insert_reference(storage::SqlTransaction& tx, const ModelKey& key,
                        const Reference& reference) {
  Value bins = Value::array();
  for (const Bins& one : reference.bins) bins.push(to_value(one));
  FALAJ_TRY(
      tx.execute("INSERT INTO monitor_references"
                 " (project, model, version, training_set, bins, profile, zone)"
                 " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                 {key.project, key.model, key.version, reference.training_set, to_json(bins),
                  to_json(to_value(reference.profile)), reference.zone.name()}));
  return {};
}

Status insert_window(storage::SqlTransaction& tx, const std::string& model, Verdict verdict,
                     Window& window) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "INSERT INTO monitor_windows (project, monitor, model, version, begins_at, ends_at,"
      " verdict, profile, drift, zone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
      {window.project, window.monitor, model, window.version, window.from.nanos, window.to.nanos,
       std::int64_t{static_cast<std::uint8_t>(verdict)}, to_json(to_value(window.profile)),
       to_json(to_value(window.drift)), window.zone.name()}));
  window.id = rows.at(0).integer(0);
  return {};
}

Status forget_windows(storage::SqlTransaction& tx, const Window& newest, std::int64_t kept) {
  FALAJ_TRY(
      tx.execute("DELETE FROM monitor_windows WHERE project = ? AND monitor = ?"
                 " AND id <= (SELECT id FROM monitor_windows WHERE project = ?"
                 " AND monitor = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"
                 " AND id NOT IN (SELECT window_id FROM monitor_alarms WHERE project = ?"
                 " AND monitor = ?)",
                 {newest.project, newest.monitor, newest.project, newest.monitor, kept,
                  newest.project, newest.monitor}));
  return {};
}

Result<std::uint64_t> count_drifted(storage::SqlTransaction& tx, const Window& window,
                                    std::uint64_t seen) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT count(*) FROM (SELECT verdict FROM monitor_windows"
      " WHERE project = ? AND monitor = ? AND version = ? AND verdict <> ?"
      " ORDER BY id DESC LIMIT ?) AS newest WHERE verdict = ?",
      {window.project, window.monitor, window.version,
       std::int64_t{static_cast<std::uint8_t>(Verdict::kUnjudged)}, static_cast<std::int64_t>(seen),
       std::int64_t{static_cast<std::uint8_t>(Verdict::kDrifted)}}));
  return static_cast<std::uint64_t>(rows.at(0).integer(0));
}

Status mark_alarm(storage::SqlTransaction& tx, std::int64_t window) {
  FALAJ_TRY(tx.execute("UPDATE monitor_windows SET alarm = 1 WHERE id = ?", {window}));
  return {};
}

Result<std::vector<StoredWindow>> select_windows(storage::SqlTransaction& tx,
                                                 const WindowQuery& query) {
  const storage::SqlRows rows = FALAJ_TRY(
      tx.query("SELECT id, project, monitor, model, version, begins_at, ends_at, alarm, profile,"
               " drift, zone FROM monitor_windows WHERE (? = '' OR project = ?) AND"
               " (? = '' OR monitor = ?) AND (? = 0 OR id = ?) ORDER BY id DESC LIMIT ?",
               {query.project, query.project, query.monitor, query.monitor, query.id, query.id,
                query.limit}));
  std::vector<StoredWindow> windows;
  for (const storage::SqlRow& row : rows) {
    StoredWindow& stored = windows.emplace_back();
    stored.model = row.text(3);
    Window& window = stored.window;
    window.id = row.integer(0);
    window.project = row.text(1);
    window.monitor = row.text(2);
    window.version = row.integer(4);
    window.from = {row.integer(5)};
    window.to = {row.integer(6)};
    window.alarm = row.integer(7) != 0;
    window.zone = Zone(row.text(10));
    window.profile = FALAJ_TRY(profile_from_value(FALAJ_TRY(parse_json(row.text(8)))));
    window.drift = FALAJ_TRY(drift_from_value(FALAJ_TRY(parse_json(row.text(9)))));
  }
  return windows;
}

Result<std::int64_t> insert_alarm(storage::SqlTransaction& tx, const Monitors::Alarm& alarm) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "INSERT INTO monitor_alarms (project, monitor, deployment, version, window_id, drift,"
      " raised_at, zone) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
      {alarm.project, alarm.monitor, alarm.deployment, alarm.version, alarm.window,
       to_json(to_value(alarm.drift)), alarm.at.nanos, alarm.zone.name()}));
  return rows.at(0).integer(0);
}

Status close_alarm(storage::SqlTransaction& tx, std::int64_t id, Timestamp at) {
  FALAJ_TRY(tx.execute("UPDATE monitor_alarms SET closed_at = ? WHERE id = ? AND closed_at IS NULL",
                       {at.nanos, id}));
  return {};
}

Result<std::vector<Monitors::Alarm>> select_alarms(storage::SqlTransaction& tx,
                                                   const std::string& project, AlarmFilter filter) {
  const std::int64_t open_only = filter == AlarmFilter::kOpen ? 1 : 0;
  const storage::SqlRows rows = FALAJ_TRY(
      tx.query("SELECT id, project, monitor, deployment, version, window_id, drift, raised_at,"
               " closed_at, zone FROM monitor_alarms WHERE (? = '' OR project = ?) AND"
               " (? = 0 OR closed_at IS NULL) ORDER BY id DESC",
               {project, project, open_only}));
  std::vector<Monitors::Alarm> alarms;
  for (const storage::SqlRow& row : rows) {
    Monitors::Alarm& alarm = alarms.emplace_back();
    alarm.id = row.integer(0);
    alarm.project = row.text(1);
    alarm.monitor = row.text(2);
    alarm.deployment = row.text(3);
    alarm.version = row.integer(4);
    alarm.window = row.integer(5);
    alarm.drift = FALAJ_TRY(drift_from_value(FALAJ_TRY(parse_json(row.text(6)))));
    alarm.at = {row.integer(7)};
    alarm.open = row.is_null(8);
    alarm.zone = Zone(row.text(9));
  }
  return alarms;
}

}  // namespace falaj::monitoring
