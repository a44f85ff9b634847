#include "security/access/emergencies.h"

namespace falaj::security::access {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::string_view kOne =
    "SELECT id, project, principal, action, object, request_id, entry, uses, first_at, last_at,"
    " closed_at, closed_by FROM emergencies WHERE id = ?";
constexpr std::string_view kOfProject =
    "SELECT id, project, principal, action, object, request_id, entry, uses, first_at, last_at,"
    " closed_at, closed_by FROM emergencies WHERE project = ?"
    " ORDER BY closed_by <> '', last_at DESC, id DESC LIMIT 1000";

Emergency from_row(const SqlRow& row) {
  Emergency out;
  out.id = row.integer(0);
  out.project = row.text(1);
  out.principal = row.text(2);
  out.action = row.text(3);
  out.object = row.text(4);
  out.request_id = row.text(5);
  out.entry = row.integer(6);
  out.uses = row.integer(7);
  out.first_at = Timestamp{row.integer(8)};
  out.last_at = Timestamp{row.integer(9)};
  out.closed_at = Timestamp{row.integer(10)};
  out.closed_by = row.text(11);
  return out;
}

Result<Emergency> find(SqlTransaction& tx, std::int64_t id) {
  const SqlRows rows = FALAJ_TRY(tx.query(kOne, {id}));
  if (!rows.empty()) return from_row(rows.front());
  return Error{Code::kNotFound, "there is no emergency " + std::to_string(id)};
}

Result<std::int64_t> count_open(SqlTransaction& tx) {
  const SqlRows rows = FALAJ_TRY(tx.query("SELECT COUNT(*) FROM emergencies WHERE closed_by = ''"));
  return rows.at(0).integer(0);
}

const telemetry::MetricInfo kOpen{"falaj_access_emergencies_open",
                                  "Uses of break-glass that nobody has closed. Alert on any.",
                                  telemetry::MetricKind::kGauge,
                                  {}};

}  // namespace

const storage::Migration kEmergenciesMigration{
    "access-001-emergencies",
    "CREATE TABLE emergencies (id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL,"
    " principal TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL,"
    " request_id TEXT NOT NULL, entry INTEGER NOT NULL, uses INTEGER NOT NULL,"
    " first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, closed_at INTEGER NOT NULL DEFAULT 0,"
    " closed_by TEXT NOT NULL DEFAULT '');"
    "CREATE UNIQUE INDEX emergencies_open ON emergencies (project, principal)"
    " WHERE closed_by = '';"};

Value to_value(const Emergency& emergency) {
  Value value;
  value["kind"] = "break-glass";
  value["id"] = emergency.id;
  value["project"] = emergency.project;
  value["principal"] = emergency.principal;
  value["action"] = emergency.action;
  value["object"] = emergency.object;
  value["request_id"] = emergency.request_id;
  value["audit_entry"] = emergency.entry;
  value["uses"] = emergency.uses;
  value["first_at"] = to_rfc3339(emergency.first_at);
  value["at"] = to_rfc3339(emergency.last_at);
  value["open"] = emergency.open();
  value["closed_by"] = emergency.closed_by;
  return value;
}

Emergencies::Emergencies(storage::SqlStore& sql, Audit& audit, telemetry::Metrics& metrics,
                         const Clock& clock)
    : sql_(sql), audit_(audit), clock_(clock), open_(metrics.gauge(kOpen)) {
  const Status counted = sql_.read([&](SqlTransaction& tx) -> Status {
    open_.set(static_cast<double>(FALAJ_TRY(count_open(tx))));
    return {};
  });
  (void)counted;  // The first use counts again.
}

Status Emergencies::record(const RequestContext& context, const AuditEvent& event) {
  std::int64_t open = 0;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    const AuditEntry entry = FALAJ_TRY(audit_.append(tx, context, event));
    const std::int64_t now = clock_.now().nanos;
    FALAJ_TRY(tx.execute(
        "INSERT INTO emergencies (project, principal, action, object, request_id, entry, uses,"
        " first_at, last_at) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)"
        " ON CONFLICT (project, principal) WHERE closed_by = '' DO UPDATE SET uses = uses + 1,"
        " action = excluded.action, object = excluded.object,"
        " request_id = excluded.request_id, entry = excluded.entry, last_at = excluded.last_at",
        {context.project.str(), context.principal.id, event.detail.text("action"), event.object,
         entry.request_id, entry.sequence, now, now}));
    open = FALAJ_TRY(count_open(tx));
    return {};
  }));
  open_.set(static_cast<double>(open));
  return {};
}

Result<std::vector<Emergency>> Emergencies::list(const std::string& project) const {
  std::vector<Emergency> found;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    const SqlRows rows = FALAJ_TRY(tx.query(kOfProject, {project}));
    for (const SqlRow& row : rows) found.push_back(from_row(row));
    return {};
  }));
  return found;
}

Result<Emergency> Emergencies::get(std::int64_t id) const {
  Emergency found;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    found = FALAJ_TRY(find(tx, id));
    return {};
  }));
  return found;
}

Result<Emergency> Emergencies::close(const RequestContext& context, std::int64_t id) {
  Emergency closed;
  std::int64_t open = 0;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    closed = FALAJ_TRY(find(tx, id));
    if (!closed.open()) {
      return Error{Code::kConflict, "emergency " + std::to_string(id) + " is closed already"};
    }
    if (closed.principal == context.principal.id) {
      return Error{Code::kPermissionDenied,
                   "nobody closes the alarm of their own emergency: ask another administrator"};
    }
    closed.closed_at = clock_.now();
    closed.closed_by = context.principal.id;
    FALAJ_TRY(tx.execute("UPDATE emergencies SET closed_at = ?, closed_by = ? WHERE id = ?",
                         {closed.closed_at.nanos, closed.closed_by, id}));
    RequestContext there = context;
    there.project = ProjectName(closed.project);
    Value detail;
    detail["principal"] = closed.principal;
    detail["uses"] = closed.uses;
    FALAJ_TRY(audit_.append(
        tx, there, {"access.emergency_closed", "Emergency/" + std::to_string(id), detail}));
    open = FALAJ_TRY(count_open(tx));
    return {};
  }));
  open_.set(static_cast<double>(open));
  return closed;
}

}  // namespace falaj::security::access
