#include "tracking/runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/json.h"

namespace falaj::tracking {
namespace {

using storage::SqlParams;
using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::size_t kMetricNameMax = 128;
constexpr std::int64_t kListMax = 10'000;

constexpr std::array<std::string_view, 5> kStatusNames{"queued", "running", "finished", "failed",
                                                       "stopped"};

#define FALAJ_RUN_COLUMNS                                                                \
  "id, project, experiment, status, params, metrics, inputs, outputs, error, progress, " \
  "created_at, started_at, ended_at, zone"
constexpr std::string_view kSelectOne = "SELECT " FALAJ_RUN_COLUMNS " FROM runs WHERE id = ?";
constexpr std::string_view kSelectProject =
    "SELECT " FALAJ_RUN_COLUMNS " FROM runs WHERE project = ? ORDER BY id DESC LIMIT ?";
constexpr std::string_view kSelectUnfinished =
    "SELECT " FALAJ_RUN_COLUMNS " FROM runs WHERE status IN (0, 1) ORDER BY id";
#undef FALAJ_RUN_COLUMNS

bool has_ended(RunStatus status) {
  return status != RunStatus::kQueued && status != RunStatus::kRunning;
}

Result<Value> parse_column(const SqlRow& row, std::size_t column) {
  auto value = parse_json(row.text(column));
  if (value.ok()) return value;
  return Error(ErrorId::kDatabaseCorrupt,
               "run " + row.text(0) + " holds a value that is no JSON; restore a backup");
}

Result<Run> run_from_row(const SqlRow& row) {
  Run run;
  run.id = RunId(row.text(0));
  run.project = row.text(1);
  run.experiment = row.text(2);
  const std::int64_t status = std::clamp<std::int64_t>(row.integer(3), 0, kStatusNames.size() - 1);
  run.status = static_cast<RunStatus>(status);
  run.params = FALAJ_TRY(parse_column(row, 4));
  run.metrics = FALAJ_TRY(parse_column(row, 5));
  run.inputs = FALAJ_TRY(parse_column(row, 6));
  run.outputs = FALAJ_TRY(parse_column(row, 7));
  run.error = row.text(8);
  run.progress = row.real(9);
  run.created_at = Timestamp{row.integer(10)};
  run.started_at = Timestamp{row.integer(11)};
  run.ended_at = Timestamp{row.integer(12)};
  run.zone = Zone(row.text(13));
  return run;
}

Result<std::vector<Run>> runs_from_rows(const SqlRows& rows) {
  std::vector<Run> runs;
  runs.reserve(rows.size());
  for (const SqlRow& row : rows) runs.push_back(FALAJ_TRY(run_from_row(row)));
  return runs;
}

Result<Run> find_run(SqlTransaction& tx, const RunId& id) {
  const SqlRows rows = FALAJ_TRY(tx.query(kSelectOne, {id.str()}));
  if (rows.empty()) {
    return Error(Code::kNotFound,
                 "there is no run '" + id.str() + "'; `falaj runs` lists those there are");
  }
  return run_from_row(rows.front());
}

// Runs change only until they have ended.
Result<Run> find_open_run(SqlTransaction& tx, const RunId& id, std::string_view what) {
  Run run = FALAJ_TRY(find_run(tx, id));
  if (!has_ended(run.status)) return run;
  return Error(Code::kConflict, "cannot " + std::string(what) + " run " + id.str() + ": it is " +
                                    std::string(status_name(run.status)) + " since " +
                                    to_rfc3339(run.ended_at));
}

void merge(Value& into, const Value& from) {
  if (!from.is_object()) return;
  for (const auto& [key, value] : from.as_object()) into[key] = value;
}

Value object_or_empty(const Value& value) { return value.is_null() ? Value::object() : value; }

std::string object_name(const Run& run) { return "Run/" + run.project + "/" + run.id.str(); }

Status insert_run(SqlTransaction& tx, const Run& run) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO runs (id, project, experiment, status, params, metrics, inputs, outputs, error,"
      " progress, created_at, started_at, ended_at, zone)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {run.id.str(), run.project, run.experiment, static_cast<std::int64_t>(run.status),
       to_json(run.params), to_json(run.metrics), to_json(run.inputs), to_json(run.outputs),
       run.error, run.progress, run.created_at.nanos, run.started_at.nanos, run.ended_at.nanos,
       run.zone.name()}));
  return {};
}

Status check_point(const MetricPoint& point) {
  if (point.metric.empty() || point.metric.size() > kMetricNameMax ||
      !is_valid_utf8(point.metric)) {
    return Error(ErrorId::kInvalidName, "a metric's name has 1 to 128 characters, not " +
                                            std::to_string(point.metric.size()));
  }
  if (point.step < 0) {
    return Error(ErrorId::kOutOfRange, "metric '" + point.metric + "': step " +
                                           std::to_string(point.step) + " is negative");
  }
  return {};
}

// SQLite keeps NaN as NULL; the newest value of a metric is a number or nothing.
storage::SqlValue sql_number(double value) {
  if (std::isnan(value)) return nullptr;
  return value;
}

// The value with the highest step per metric becomes the run's current one.
Status refresh_newest(SqlTransaction& tx, Run& run, const std::vector<MetricPoint>& points) {
  for (const MetricPoint& point : points) {
    const SqlRows rows =
        FALAJ_TRY(tx.query("SELECT value FROM run_metrics WHERE run = ? AND metric = ?"
                           " ORDER BY step DESC LIMIT 1",
                           {run.id.str(), point.metric}));
    if (!rows.empty() && !rows.front().is_null(0)) {
      run.metrics[point.metric] = rows.front().real(0);
    }
  }
  FALAJ_TRY(
      tx.execute("UPDATE runs SET metrics = ? WHERE id = ?", {to_json(run.metrics), run.id.str()}));
  return {};
}

Value time_or_null(Timestamp at) { return at == Timestamp{} ? Value() : Value(to_rfc3339(at)); }

}  // namespace

const storage::Migration kTrackingMigration{
    "tracking-001-runs",
    "CREATE TABLE runs (id TEXT PRIMARY KEY, project TEXT NOT NULL,"
    " zone TEXT NOT NULL CHECK (zone != ''), experiment TEXT NOT NULL,"
    " status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 4), params TEXT NOT NULL,"
    " metrics TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT NOT NULL, error TEXT NOT NULL,"
    " progress REAL NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER NOT NULL,"
    " ended_at INTEGER NOT NULL);"
    "CREATE INDEX runs_by_project ON runs (project, id);"
    "CREATE INDEX runs_unfinished ON runs (status) WHERE status IN (0, 1);"
    "CREATE TABLE run_metrics (run TEXT NOT NULL REFERENCES runs (id), metric TEXT NOT NULL,"
    " step INTEGER NOT NULL, value REAL, at INTEGER NOT NULL,"
    " PRIMARY KEY (run, metric, step)) WITHOUT ROWID;"};

std::string_view status_name(RunStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

Value to_value(const Run& run) {
  Value value;
  value["id"] = run.id.str();
  value["project"] = run.project;
  value["zone"] = run.zone.name();
  value["experiment"] = run.experiment;
  value["status"] = status_name(run.status);
  value["params"] = run.params;
  value["metrics"] = run.metrics;
  value["inputs"] = run.inputs;
  value["outputs"] = run.outputs;
  value["error"] = run.error;
  value["progress"] = run.progress;
  value["created_at"] = time_or_null(run.created_at);
  value["started_at"] = time_or_null(run.started_at);
  value["ended_at"] = time_or_null(run.ended_at);
  return value;
}

Runs::Runs(storage::SqlStore& sql, security::Audit& audit, const Clock& clock)
    : sql_(sql), audit_(audit), clock_(clock) {}

Result<Run> Runs::create(const security::RequestContext& context, Run run) {
  run.created_at = clock_.now();
  if (run.id.empty()) run.id = RunId(new_ulid(run.created_at));
  run.project = context.project.str();
  run.zone = context.zone;
  if (!run.zone.labelled()) {
    return Error(ErrorId::kZoneMissing, "a run without a zone is refused: project '" + run.project +
                                            "' says where its data may be");
  }
  run.params = object_or_empty(run.params);
  run.metrics = object_or_empty(run.metrics);
  run.inputs = object_or_empty(run.inputs);
  run.outputs = object_or_empty(run.outputs);
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(insert_run(tx, run));
    Value detail;
    detail["experiment"] = run.experiment;
    detail["params"] = run.params;
    detail["inputs"] = run.inputs;
    FALAJ_TRY(audit_.append(tx, context, {"run.create", object_name(run), detail}));
    return {};
  }));
  return run;
}

Status Runs::start(const RunId& id) {
  const std::int64_t now = clock_.now().nanos;
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(find_open_run(tx, id, "start"));
    // Another attempt begins again at zero, with the time of the first start.
    FALAJ_TRY(
        tx.execute("UPDATE runs SET status = 1, progress = 0, started_at ="
                   " CASE started_at WHEN 0 THEN ? ELSE started_at END WHERE id = ?",
                   {now, id.str()}));
    return {};
  });
}

Status Runs::log_metrics(const RunId& id, const std::vector<MetricPoint>& points) {
  for (const MetricPoint& point : points) FALAJ_TRY(check_point(point));
  if (points.empty()) return {};
  const Timestamp now = clock_.now();
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Run run = FALAJ_TRY(find_open_run(tx, id, "log metrics of"));
    for (const MetricPoint& point : points) {
      const Timestamp at = point.at == Timestamp{} ? now : point.at;
      FALAJ_TRY(
          tx.execute("INSERT INTO run_metrics (run, metric, step, value, at) VALUES (?, ?, ?, ?, ?)"
                     " ON CONFLICT (run, metric, step) DO UPDATE SET value = excluded.value,"
                     " at = CASE WHEN value IS excluded.value THEN at ELSE excluded.at END",
                     {id.str(), point.metric, point.step, sql_number(point.value), at.nanos}));
    }
    return refresh_newest(tx, run, points);
  });
}

Status Runs::set_progress(const RunId& id, double progress) {
  if (!(progress >= 0 && progress <= 1)) {
    return Error(ErrorId::kOutOfRange, "progress of run " + id.str() + " is outside 0 to 1");
  }
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(find_open_run(tx, id, "set the progress of"));
    FALAJ_TRY(tx.execute("UPDATE runs SET progress = ? WHERE id = ?", {progress, id.str()}));
    return {};
  });
}

Status Runs::set_metrics(const RunId& id, const Value& metrics) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Run run = FALAJ_TRY(find_open_run(tx, id, "set the metrics of"));
    merge(run.metrics, metrics);
    FALAJ_TRY(
        tx.execute("UPDATE runs SET metrics = ? WHERE id = ?", {to_json(run.metrics), id.str()}));
    return {};
  });
}

Status Runs::end(const security::RequestContext& context, const RunId& id, RunStatus status,
                 const std::string& error, const Value& outputs) {
  if (!has_ended(status)) {
    return Error(Code::kInvalidArgument,
                 "a run ends finished, failed or stopped, not " + std::string(status_name(status)));
  }
  const std::int64_t now = clock_.now().nanos;
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Run run = FALAJ_TRY(find_open_run(tx, id, "end"));
    merge(run.outputs, outputs);
    const double progress = status == RunStatus::kFinished ? 1.0 : run.progress;
    FALAJ_TRY(tx.execute(
        "UPDATE runs SET status = ?, error = ?, outputs = ?, progress = ?,"
        " ended_at = ? WHERE id = ?",
        {static_cast<std::int64_t>(status), error, to_json(run.outputs), progress, now, id.str()}));
    Value detail;
    detail["status"] = status_name(status);
    detail["metrics"] = run.metrics;
    detail["outputs"] = run.outputs;
    if (!error.empty()) detail["error"] = error;
    FALAJ_TRY(audit_.append(tx, context, {"run.end", object_name(run), detail}));
    return {};
  });
}

Result<Run> Runs::get(const RunId& id) const {
  std::optional<Run> found;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    found = FALAJ_TRY(find_run(tx, id));
    return {};
  }));
  return *std::move(found);
}

Result<std::vector<Run>> Runs::list(const ProjectName& project, std::int64_t limit) const {
  const std::int64_t most = std::clamp<std::int64_t>(limit, 0, kListMax);
  return runs_from_rows(FALAJ_TRY(storage::query(sql_, kSelectProject, {project.str(), most})));
}

Result<std::vector<MetricPoint>> Runs::history(const RunId& id, const std::string& metric) const {
  FALAJ_TRY(get(id));
  const SqlRows rows = FALAJ_TRY(storage::query(
      sql_, "SELECT step, value, at FROM run_metrics WHERE run = ? AND metric = ? ORDER BY step",
      {id.str(), metric}));
  std::vector<MetricPoint> points;
  points.reserve(rows.size());
  for (const SqlRow& row : rows) {
    const double value = row.is_null(1) ? std::numeric_limits<double>::quiet_NaN() : row.real(1);
    points.push_back({metric, row.integer(0), value, Timestamp{row.integer(2)}});
  }
  return points;
}

Result<std::vector<Run>> Runs::unfinished() const {
  return runs_from_rows(FALAJ_TRY(storage::query(sql_, kSelectUnfinished)));
}

}  // namespace falaj::tracking
