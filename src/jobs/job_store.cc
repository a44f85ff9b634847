#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "jobs/internal/job_store.h"
#include "security/quota/quota.h"

namespace falaj::jobs {
namespace {

std::string error_code(const std::string& error) {
  const std::string code = error.substr(0, error.find(':'));
  return find_error(code) == nullptr ? "" : code;
}

}  // namespace

Value to_value(const Job& job) {
  Value value;
  value["id"] = job.id.str();
  value["type"] = job.spec.type;
  value["project"] = job.spec.project;
  value["zone"] = job.spec.zone.name();
  value["payload"] = job.spec.payload;
  value["status"] = status_name(job.status);
  value["attempts"] = job.attempts;
  value["attempts_max"] = job.spec.attempts_max;
  value["attempt"] = job.epoch;
  value["request"] = to_value(job.spec.request);
  value["error"] = job.error;
  value["code"] = error_code(job.error);
  value["result"] = job.result;
  value["created_at"] = to_rfc3339(job.created_at);
  value["ended_at"] = job.ended_at == Timestamp{} ? Value() : Value(to_rfc3339(job.ended_at));
  return value;
}

const storage::Migration kJobsMigration{
    "jobs-001-jobs",
    "CREATE TABLE jobs (id TEXT PRIMARY KEY, type TEXT NOT NULL, project TEXT NOT NULL,"
    " zone TEXT NOT NULL CHECK (zone != ''),"
    " payload TEXT NOT NULL, attempts_max INTEGER NOT NULL,"
    " status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 4), attempts INTEGER NOT NULL,"
    " error TEXT NOT NULL, result TEXT NOT NULL, created_at INTEGER NOT NULL,"
    " ended_at INTEGER NOT NULL, log TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX jobs_by_project ON jobs (project, id);"
    "CREATE INDEX jobs_unfinished ON jobs (status, id) WHERE status IN (0, 1);"};

// Jobs from before begin with what they are: an event that says so would be made up.
const storage::Migration kJobEventsMigration{
    "jobs-002-events",
    "ALTER TABLE jobs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN request TEXT NOT NULL DEFAULT 'null';"
    "ALTER TABLE jobs ADD COLUMN log_offset INTEGER NOT NULL DEFAULT 0;"
    "UPDATE jobs SET epoch = attempts;"
    "CREATE TABLE job_events (job TEXT NOT NULL REFERENCES jobs (id), sequence INTEGER NOT NULL, "
    "at INTEGER NOT NULL,"
    " kind INTEGER NOT NULL, attempt INTEGER NOT NULL, detail TEXT NOT NULL,"
    " PRIMARY KEY (job, sequence)) WITHOUT ROWID;"};

namespace internal {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 1'000;
constexpr auto kStatusLast = static_cast<std::int64_t>(JobStatus::kCancelled);

#define FALAJ_JOB_COLUMNS                                                                   \
  "id, type, project, payload, attempts_max, status, attempts, error, result, created_at, " \
  "ended_at, zone, epoch, request"
constexpr std::string_view kSelectOne = "SELECT " FALAJ_JOB_COLUMNS " FROM jobs WHERE id = ?";
constexpr std::string_view kSelectProject =
    "SELECT " FALAJ_JOB_COLUMNS " FROM jobs WHERE project = ? ORDER BY id DESC LIMIT ?";
constexpr std::string_view kSelectUnfinished =
    "SELECT " FALAJ_JOB_COLUMNS " FROM jobs WHERE status IN (0, 1) ORDER BY id";
#undef FALAJ_JOB_COLUMNS

Result<Value> parse_column(const SqlRow& row, std::size_t column) {
  auto value = parse_json(row.text(column));
  if (value.ok()) return value;
  return Error(ErrorId::kDatabaseCorrupt,
               "job " + row.text(0) + " holds a value that is no JSON; restore a backup");
}

Result<Job> job_from_row(const SqlRow& row) {
  Job job;
  job.id = JobId(row.text(0));
  job.spec.type = row.text(1);
  job.spec.project = row.text(2);
  job.spec.payload = FALAJ_TRY(parse_column(row, 3));
  job.spec.attempts_max = static_cast<int>(row.integer(4));
  job.status = static_cast<JobStatus>(std::clamp<std::int64_t>(row.integer(5), 0, kStatusLast));
  job.attempts = static_cast<int>(row.integer(6));
  job.error = row.text(7);
  job.result = FALAJ_TRY(parse_column(row, 8));
  job.created_at = Timestamp{row.integer(9)};
  job.ended_at = Timestamp{row.integer(10)};
  job.spec.zone = Zone(row.text(11));
  job.epoch = static_cast<int>(row.integer(12));
  const Value request = FALAJ_TRY(parse_column(row, 13));
  job.spec.request = request_from_stored(request);
  return job;
}

Result<Job> find_job(SqlTransaction& tx, const JobId& id) {
  const SqlRows rows = FALAJ_TRY(tx.query(kSelectOne, {id.str()}));
  if (rows.empty()) {
    return Error(Code::kNotFound, "there is no job '" + id.str() + "'; list the project's jobs");
  }
  return job_from_row(rows.front());
}

Result<std::int64_t> count_in_flight(SqlTransaction& tx, const std::string& project) {
  const SqlRows rows = FALAJ_TRY(
      tx.query("SELECT COUNT(*) FROM jobs WHERE status IN (0, 1) AND project = ?", {project}));
  return rows.at(0).integer(0);
}

Status check_room(SqlTransaction& tx, const std::string& project) {
  const security::Quota quota = FALAJ_TRY(security::quota_of(tx, project));
  if (!quota.jobs) return {};
  const std::int64_t held = FALAJ_TRY(count_in_flight(tx, project));
  if (held < *quota.jobs) return {};
  return security::quota_reached(project,
                                 "has " + std::to_string(held) +
                                     " jobs that wait or run, and its quota is " +
                                     std::to_string(*quota.jobs) + ": wait until one has ended",
                                 security::Shortage::kPassing);
}

Progress progress_of(const Job& job) {
  return {job.status, job.attempts, job.epoch, job.error, job.result, job.ended_at};
}

// Appends an event and brings the row to what follows from it. kConflict when it cannot follow.
Status happen(SqlTransaction& tx, Job& job, Event event) {
  const SqlRows rows = FALAJ_TRY(
      tx.query("SELECT COALESCE(MAX(sequence), 0) FROM job_events WHERE job = ?", {job.id.str()}));
  event.sequence = rows.at(0).integer(0) + 1;
  auto next = apply(progress_of(job), event);
  if (!next.ok()) {
    return Error(Code::kConflict, "job " + job.id.str() + ": " + next.error().message);
  }
  FALAJ_TRY(tx.execute(
      "INSERT INTO job_events (job, sequence, at, kind, attempt, detail) VALUES (?, ?, ?, ?, ?, ?)",
      {job.id.str(), event.sequence, event.at.nanos, static_cast<std::int64_t>(event.kind),
       std::int64_t{event.attempt}, to_json(event.detail)}));
  job.status = next->status;
  job.attempts = next->attempts;
  job.epoch = next->epoch;
  job.error = next->error;
  job.result = next->result;
  job.ended_at = next->ended_at;
  FALAJ_TRY(tx.execute(
      "UPDATE jobs SET status = ?, attempts = ?, epoch = ?, error = ?, result = ?,"
      " ended_at = ? WHERE id = ?",
      {static_cast<std::int64_t>(job.status), std::int64_t{job.attempts}, std::int64_t{job.epoch},
       job.error, to_json(job.result), job.ended_at.nanos, job.id.str()}));
  return {};
}

Result<bool> cancel_was_asked(SqlTransaction& tx, const JobId& id) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT COUNT(*) FROM job_events WHERE job = ? AND kind = ?",
                         {id.str(), static_cast<std::int64_t>(EventKind::kCancelAsked)}));
  return rows.at(0).integer(0) > 0;
}

Result<Timestamp> newest_admission(SqlTransaction& tx, const JobId& id) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT COALESCE(MAX(at), 0) FROM job_events WHERE job = ? AND kind = ?",
                         {id.str(), static_cast<std::int64_t>(EventKind::kAdmitted)}));
  return Timestamp{rows.at(0).integer(0)};
}

// Each admission with what ended it: the next event of the job that does.
constexpr std::string_view kSelectAttempts =
    "SELECT j.id, j.project, j.type, j.request, j.created_at, a.at, e.at, e.kind, e.detail"
    " FROM (SELECT * FROM jobs WHERE id >= ? ORDER BY id DESC LIMIT ?) j"
    " JOIN job_events a ON a.job = j.id AND a.kind = 1"
    " JOIN job_events e ON e.job = j.id AND e.sequence ="
    "  (SELECT MIN(n.sequence) FROM job_events n WHERE n.job = j.id AND n.sequence > a.sequence"
    "   AND n.kind IN (2, 3))"
    " ORDER BY j.id, a.sequence";
static_assert(static_cast<int>(EventKind::kAdmitted) == 1 &&
              static_cast<int>(EventKind::kRequeued) == 2 &&
              static_cast<int>(EventKind::kEnded) == 3);

Event event_of(EventKind kind, Timestamp at, int attempt, Value detail = Value::object()) {
  Event event;
  event.kind = kind;
  event.at = at;
  event.attempt = attempt;
  event.detail = std::move(detail);
  return event;
}

// What an older attempt says is no longer listened to.
Status check_newest(const Job& job, const AttemptId& attempt) {
  if (job.epoch == attempt.attempt) return {};
  return Error(Code::kConflict, "job " + job.id.str() + " is at attempt " +
                                    std::to_string(job.epoch) + ": attempt " +
                                    std::to_string(attempt.attempt) + " changes it no more");
}

std::string object_name(const Job& job) { return "Job/" + job.spec.project + "/" + job.id.str(); }

}  // namespace

bool has_ended(JobStatus status) {
  return status != JobStatus::kQueued && status != JobStatus::kRunning;
}

Result<Job> JobStore::insert(const security::RequestContext& context, JobSpec spec) {
  Job job;
  job.created_at = clock_.now();
  job.id = JobId(new_ulid(job.created_at));
  job.spec = std::move(spec);
  job.spec.zone = context.zone;
  if (!job.spec.zone.labelled()) {
    return Error(ErrorId::kZoneMissing, "a job without a zone is refused: project '" +
                                            job.spec.project + "' says where its data may be");
  }
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(check_room(tx, job.spec.project));
    FALAJ_TRY(tx.execute(
        "INSERT INTO jobs (id, type, project, payload, attempts_max, status, attempts, error,"
        " result, created_at, ended_at, zone, request)"
        " VALUES (?, ?, ?, ?, ?, 0, 0, '', 'null', ?, 0, ?, ?)",
        {job.id.str(), job.spec.type, job.spec.project, to_json(job.spec.payload),
         std::int64_t{job.spec.attempts_max}, job.created_at.nanos, job.spec.zone.name(),
         to_json(to_value(job.spec.request))}));
    FALAJ_TRY(happen(tx, job, event_of(EventKind::kSubmitted, job.created_at, 0)));
    Value detail;
    detail["type"] = job.spec.type;
    detail["payload"] = job.spec.payload;
    FALAJ_TRY(audit_.append(tx, context, {"job.submit", object_name(job), detail}));
    return {};
  }));
  return job;
}

Status JobStore::room(const ProjectName& project) const {
  return sql_.read([&](SqlTransaction& tx) { return check_room(tx, project.str()); });
}

Result<std::int64_t> JobStore::in_flight(const ProjectName& project) const {
  std::int64_t count = 0;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    count = FALAJ_TRY(count_in_flight(tx, project.str()));
    return {};
  }));
  return count;
}

Result<Job> JobStore::get(const JobId& id) const {
  std::optional<Job> found;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    found = FALAJ_TRY(find_job(tx, id));
    return {};
  }));
  return *std::move(found);
}

Result<std::vector<Job>> JobStore::list(const ProjectName& project) const {
  std::vector<Job> jobs;
  for (const SqlRow& row :
       FALAJ_TRY(storage::query(sql_, kSelectProject, {project.str(), kListMax}))) {
    jobs.push_back(FALAJ_TRY(job_from_row(row)));
  }
  return jobs;
}

Result<std::vector<Event>> JobStore::events(const JobId& id) const {
  std::vector<Event> out;
  for (const SqlRow& row : FALAJ_TRY(
           storage::query(sql_,
                          "SELECT sequence, at, kind, attempt, detail FROM job_events WHERE job = ?"
                          " ORDER BY sequence",
                          {id.str()}))) {
    Event event;
    event.sequence = row.integer(0);
    event.at = Timestamp{row.integer(1)};
    event.kind = static_cast<EventKind>(std::clamp<std::int64_t>(
        row.integer(2), 0, static_cast<std::int64_t>(EventKind::kCancelAsked)));
    event.attempt = static_cast<int>(row.integer(3));
    auto detail = parse_json(row.text(4));
    if (detail.ok()) event.detail = std::move(detail).value();
    out.push_back(std::move(event));
  }
  return out;
}

Result<JobStore::Sharing> JobStore::sharing() const {
  Sharing out;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    out = {};
    for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "Queue"))) {
      out.queues.push_back(FALAJ_TRY(decode_queue(object)));
    }
    const auto policy = FALAJ_TRY(storage::find_object(tx, "SchedulingPolicy", "", kPolicyInForce));
    out.declared = policy.has_value();
    if (policy) out.policy = FALAJ_TRY(decode_scheduling_policy(*policy));
    return {};
  }));
  return out;
}

Result<std::vector<JobStore::Past>> JobStore::attempts(Timestamp since,
                                                       std::int64_t jobs_max) const {
  std::vector<Past> out;
  // Ids sort by time: the job's own would be this, or later.
  for (const SqlRow& row :
       FALAJ_TRY(storage::query(sql_, kSelectAttempts, {new_ulid(since), jobs_max}))) {
    Past past;
    past.job.id = JobId(row.text(0));
    past.job.spec.project = past.spell.project = row.text(1);
    past.job.spec.type = row.text(2);
    const Value request = FALAJ_TRY(parse_column(row, 3));
    past.job.spec.request = past.spell.request = request_from_stored(request);
    past.job.created_at = Timestamp{row.integer(4)};
    past.spell.from = Timestamp{row.integer(5)};
    past.spell.to = Timestamp{row.integer(6)};
    const Value detail = FALAJ_TRY(parse_column(row, 8));
    const std::string status = detail.text("status");
    const bool own = row.integer(7) == static_cast<std::int64_t>(EventKind::kEnded) &&
                     status != status_name(JobStatus::kCancelled);
    past.spell.ended = own ? Spell::Ended::kByItself : Spell::Ended::kInterrupted;
    out.push_back(std::move(past));
  }
  return out;
}

Result<JobStore::Dependencies> JobStore::look_at(const std::string& project,
                                                 const std::vector<JobId>& jobs) const {
  Dependencies out;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    for (const JobId& id : jobs) {
      const SqlRows rows = FALAJ_TRY(
          tx.query("SELECT status FROM jobs WHERE id = ? AND project = ?", {id.str(), project}));
      if (rows.empty()) {
        out.unknown.push_back(id);
        continue;
      }
      const auto status = static_cast<JobStatus>(rows.front().integer(0));
      if (!has_ended(status)) {
        out.open.push_back(id);
      } else if (status != JobStatus::kSucceeded) {
        out.failed.push_back(id);
      }
    }
    return {};
  }));
  return out;
}

Result<std::vector<JobStore::Unfinished>> JobStore::recover() {
  std::vector<Unfinished> unfinished;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    unfinished.clear();
    for (const SqlRow& row : FALAJ_TRY(tx.query(kSelectUnfinished))) {
      Job job = FALAJ_TRY(job_from_row(row));
      const bool cancelled = FALAJ_TRY(cancel_was_asked(tx, job.id));
      if (job.status == JobStatus::kRunning && job.spec.type != kCommandType && !cancelled) {
        FALAJ_TRY(happen(tx, job, requeued(job, job.attempts, "the server died")));
      }
      const Timestamp began = FALAJ_TRY(newest_admission(tx, job.id));
      unfinished.push_back({std::move(job), cancelled, began});
    }
    return {};
  }));
  return unfinished;
}

Event JobStore::requeued(const Job& job, int attempts, const std::string& error) const {
  Value detail;
  detail["attempts"] = attempts;
  detail["error"] = error;
  return event_of(EventKind::kRequeued, clock_.now(), job.epoch, std::move(detail));
}

Result<Job> JobStore::begin_attempt(const JobId& id) {
  std::optional<Job> job;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    job = FALAJ_TRY(find_job(tx, id));
    Value detail;
    detail["attempts"] = job->attempts + 1;
    return happen(tx, *job,
                  event_of(EventKind::kAdmitted, clock_.now(), job->epoch + 1, std::move(detail)));
  }));
  return *std::move(job);
}

Status JobStore::requeue(const AttemptId& attempt, int attempts, const std::string& error) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Job job = FALAJ_TRY(find_job(tx, attempt.job));
    FALAJ_TRY(check_newest(job, attempt));
    if (job.status != JobStatus::kRunning) return {};
    return happen(tx, job, requeued(job, attempts, error));
  });
}

Status JobStore::end(const security::RequestContext& context, const AttemptId& attempt,
                     JobStatus status, const std::string& error, const Value& result) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Job job = FALAJ_TRY(find_job(tx, attempt.job));
    FALAJ_TRY(check_newest(job, attempt));
    if (has_ended(job.status)) {
      return Error(Code::kConflict, "job " + job.id.str() + " is " +
                                        std::string(status_name(job.status)) + " since " +
                                        to_rfc3339(job.ended_at));
    }
    Value end;
    end["status"] = status_name(status);
    end["error"] = error;
    end["result"] = result;
    FALAJ_TRY(
        happen(tx, job, event_of(EventKind::kEnded, clock_.now(), job.epoch, std::move(end))));
    Value detail;
    detail["status"] = status_name(status);
    detail["attempts"] = job.attempts;
    if (!error.empty()) detail["error"] = error;
    FALAJ_TRY(audit_.append(tx, context, {"job.end", object_name(job), detail}));
    return {};
  });
}

Status JobStore::keep_log(const JobId& id, const Log& log) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("UPDATE jobs SET log = ?, log_offset = ? WHERE id = ?",
                         {log.text, log.offset, id.str()}));
    return {};
  });
}

Result<JobStore::Log> JobStore::log(const JobId& id) const {
  const SqlRows rows =
      FALAJ_TRY(storage::query(sql_, "SELECT log, log_offset FROM jobs WHERE id = ?", {id.str()}));
  if (!rows.empty()) return Log{rows.front().text(0), rows.front().integer(1)};
  return Error(Code::kNotFound, "there is no job '" + id.str() + "'; list the project's jobs");
}

Status JobStore::record_cancel(const security::RequestContext& context, const Job& job) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Job now = FALAJ_TRY(find_job(tx, job.id));
    if (!has_ended(now.status)) {
      FALAJ_TRY(happen(tx, now, event_of(EventKind::kCancelAsked, clock_.now(), now.epoch)));
    }
    FALAJ_TRY(audit_.append(tx, context, {"job.cancel", object_name(job), Value::object()}));
    return {};
  });
}

}  // namespace internal
}  // namespace falaj::jobs
