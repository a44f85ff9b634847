#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "jobs/internal/job_store.h"
#include "security/quota/quota.h"

namespace falaj::jobs {
namespace {

std::string error_code(const std::string& error) {
  const std::string code = error.substr(0, error.find(':'));
  return find_error(code) == nullptr ? "" : code;
}

constexpr std::size_t kCommandShown = 256;

}  // namespace

Value to_value(const Job& job) {
  Value value;
  value["id"] = job.id.str();
  value["type"] = job.spec.type;
  value["project"] = job.spec.project;
  value["zone"] = job.spec.zone.name();
  value["payload"] = job.spec.payload;
  if (value["payload"].is_object()) value["payload"].as_object().erase("submitter");
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

const storage::Migration kJobCurvesMigration{
    "jobs-curves",
    "CREATE TABLE job_curves (job TEXT NOT NULL REFERENCES jobs (id), attempt INTEGER NOT NULL,"
    " curve TEXT NOT NULL, PRIMARY KEY (job, attempt)) WITHOUT ROWID;"};

const storage::Migration kJobPayloadsMigration{
    "jobs-payloads",
    "ALTER TABLE jobs ADD COLUMN run TEXT NOT NULL DEFAULT '';"
    "UPDATE jobs SET run = COALESCE(json_extract(payload, '$.run'), '') WHERE json_valid(payload);"
    "CREATE INDEX jobs_by_run ON jobs (run) WHERE run != '';"
    "CREATE TABLE job_payloads (job TEXT PRIMARY KEY REFERENCES jobs (id), payload TEXT NOT NULL)"
    " WITHOUT ROWID;"
    "ALTER TABLE jobs ADD COLUMN whole TEXT NOT NULL DEFAULT '';"};

Value brief(Value payload) {
  if (!payload.is_object()) return payload;
  for (const char* name : {"lock", "env", "capture", "groups"}) payload.as_object().erase(name);
  if (!payload["command"].is_array()) return payload;
  Value shown = Value::array();
  std::size_t left = kCommandShown;
  for (std::string& word : command_of(payload)) {
    if (left == 0) break;
    const bool fits = word.size() <= left;
    cut(word, left);
    left = fits ? left - word.size() : 0;
    shown.push(std::move(word));
  }
  payload["command"] = std::move(shown);
  return payload;
}

namespace internal {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 1'000;
constexpr auto kStatusLast = static_cast<std::int64_t>(JobStatus::kCancelled);

// A payload that is longer, or that several jobs share, lies in a table of its own, where only
// those look who want the whole of it.
constexpr std::size_t kPayloadInRowMax = 2048;

#define FALAJ_JOB_COLUMNS                                                                   \
  "id, type, project, payload, attempts_max, status, attempts, error, result, created_at, " \
  "ended_at, zone, epoch, request"
constexpr std::string_view kSelectOne =
    "SELECT " FALAJ_JOB_COLUMNS
    ", (SELECT p.payload FROM job_payloads p WHERE p.job = jobs.whole) FROM jobs WHERE id = ?";
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
  Job job = FALAJ_TRY(job_from_row(rows.front()));
  if (rows.front().is_null(14)) return job;
  Value whole = FALAJ_TRY(parse_column(rows.front(), 14));
  if (job.spec.payload.has("array")) whole["array"] = job.spec.payload["array"];
  job.spec.payload = std::move(whole);
  return job;
}

Result<std::int64_t> count_in_flight(SqlTransaction& tx, const std::string& project) {
  const SqlRows rows = FALAJ_TRY(
      tx.query("SELECT COUNT(*) FROM jobs WHERE status IN (0, 1) AND project = ?", {project}));
  return rows.at(0).integer(0);
}

Status check_room(SqlTransaction& tx, const std::string& project, std::size_t count) {
  const security::Quota quota = FALAJ_TRY(security::quota_of(tx, project));
  if (!quota.jobs) return {};
  const std::int64_t held = FALAJ_TRY(count_in_flight(tx, project));
  if (held + static_cast<std::int64_t>(count) <= *quota.jobs) return {};
  return security::quota_reached(project,
                                 "has " + std::to_string(held) +
                                     " jobs that wait or run, and its quota is " +
                                     std::to_string(*quota.jobs) + ": wait until one has ended",
                                 security::Shortage::kPassing);
}

Progress progress_of(const Job& job) {
  return {job.status, job.attempts, job.epoch, job.error, job.result, job.ended_at};
}

Status write_event(SqlTransaction& tx, const JobId& id, const Event& event) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO job_events (job, sequence, at, kind, attempt, detail) VALUES (?, ?, ?, ?, ?, ?)",
      {id.str(), event.sequence, event.at.nanos, static_cast<std::int64_t>(event.kind),
       std::int64_t{event.attempt}, to_json(event.detail)}));
  return {};
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
  FALAJ_TRY(write_event(tx, job.id, event));
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

// Each admission with what ended it: the next event of the job that does.
constexpr std::string_view kSelectAttempts =
    "SELECT j.id, j.project, j.type, j.request, j.created_at, a.at, e.at, e.kind,"
    " CASE e.kind WHEN 3 THEN e.detail ELSE 'null' END, a.detail"
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

// The log is for ever: of the code's state it gets the hash, not the text.
Value shown_in_audit(Value payload) {
  if (payload.is_object()) payload.as_object().erase("submitter");  // The entry names who acts.
  if (payload.is_object() && payload["capture"].is_object()) {
    payload["capture"] = sha256_hex(to_json(payload["capture"]));
  }
  return payload;
}

std::string object_name(const Job& job) { return "Job/" + job.spec.project + "/" + job.id.str(); }

Value array_place(std::size_t index, std::size_t count) {
  Value out;
  out["index"] = static_cast<std::int64_t>(index);
  out["count"] = static_cast<std::int64_t>(count);
  return out;
}

// A new one, with the event that it begins with. `whole` is the job whose payload it shares, ""
// when its own row has all of it.
Status insert_one(SqlTransaction& tx, const Job& job, const std::string& whole) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO jobs (id, type, project, payload, attempts_max, status, attempts, error,"
      " result, created_at, ended_at, zone, request, run, whole)"
      " VALUES (?, ?, ?, ?, ?, 0, 0, '', 'null', ?, 0, ?, ?, ?, ?)",
      {job.id.str(), job.spec.type, job.spec.project, to_json(job.spec.payload),
       std::int64_t{job.spec.attempts_max}, job.created_at.nanos, job.spec.zone.name(),
       to_json(to_value(job.spec.request)), job.spec.payload.text("run"), whole}));
  Event event = event_of(EventKind::kSubmitted, job.created_at, 0);
  event.sequence = 1;
  return write_event(tx, job.id, event);
}

}  // namespace

bool has_ended(JobStatus status) {
  return status != JobStatus::kQueued && status != JobStatus::kRunning;
}

Result<std::vector<Job>> JobStore::insert(const security::RequestContext& context, JobSpec spec,
                                          std::size_t count) {
  spec.zone = context.zone;
  if (!spec.zone.labelled()) {
    return Error(ErrorId::kZoneMissing, "a job without a zone is refused: project '" +
                                            spec.project + "' says where its data may be");
  }
  const std::string payload = to_json(spec.payload);
  const bool apart = payload.size() > kPayloadInRowMax;
  JobSpec row = spec;
  if (apart) row.payload = brief(std::move(row.payload));
  std::vector<Job> jobs(count);
  for (std::size_t i = 0; i < count; ++i) {
    jobs[i].created_at = clock_.now();
    jobs[i].id = JobId(new_ulid(jobs[i].created_at));
    jobs[i].spec = row;
    if (count > 1) jobs[i].spec.payload["array"] = array_place(i, count);
  }
  const std::string whole = apart ? jobs.front().id.str() : std::string();
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(check_room(tx, spec.project, count));
    for (const Job& job : jobs) FALAJ_TRY(insert_one(tx, job, whole));
    if (apart) {
      FALAJ_TRY(
          tx.execute("INSERT INTO job_payloads (job, payload) VALUES (?, ?)", {whole, payload}));
    }
    Value detail;
    detail["type"] = spec.type;
    detail["payload"] = shown_in_audit(spec.payload);
    if (count > 1) {
      detail["count"] = static_cast<std::int64_t>(count);
      detail["last"] = jobs.back().id.str();
    }
    FALAJ_TRY(audit_.append(tx, context, {"job.submit", object_name(jobs.front()), detail}));
    return {};
  }));
  return jobs;
}

Status JobStore::room(const ProjectName& project, std::size_t count) const {
  return sql_.read([&](SqlTransaction& tx) { return check_room(tx, project.str(), count); });
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
    Job job = FALAJ_TRY(job_from_row(row));
    job.spec.payload = brief(std::move(job.spec.payload));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::optional<Job>> JobStore::of_run(const RunId& run) const {
  const SqlRows rows = FALAJ_TRY(storage::query(
      sql_, "SELECT id FROM jobs WHERE run = ? AND run != '' ORDER BY id DESC LIMIT 1",
      {run.str()}));
  if (rows.empty()) return std::optional<Job>();
  Job job = FALAJ_TRY(get(JobId(rows.front().text(0))));
  return std::optional<Job>(std::move(job));
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

Spell::Ended how_ended(std::string_view status, std::string_view error) {
  if (status == status_name(JobStatus::kSucceeded)) return Spell::Ended::kByItself;
  if (status == status_name(JobStatus::kCancelled)) return Spell::Ended::kInterrupted;
  const bool limit = error.starts_with(to_string(ErrorId::kJobTimedOut));
  return limit ? Spell::Ended::kByItself : Spell::Ended::kFailed;
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
    const auto node = FALAJ_TRY(storage::find_object(tx, "Node", "", kThisNode));
    if (node) out.node = FALAJ_TRY(decode_node(*node));
    out.policy.prices = out.node.prices.over(out.policy.prices);
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
    past.job.spec.request = request_from_stored(request);
    const Value granted = FALAJ_TRY(parse_column(row, 9));
    give_workers(past.job.spec.request, granted.integer("workers", 1));
    past.spell.request = past.job.spec.request;
    past.job.created_at = Timestamp{row.integer(4)};
    past.spell.from = Timestamp{row.integer(5)};
    past.spell.to = Timestamp{row.integer(6)};
    const Value detail = FALAJ_TRY(parse_column(row, 8));
    const bool over = row.integer(7) == static_cast<std::int64_t>(EventKind::kEnded);
    past.spell.ended =
        over ? how_ended(detail.text("status"), detail.text("error")) : Spell::Ended::kInterrupted;
    out.push_back(std::move(past));
  }
  return out;
}

Result<JobStore::Dependencies> JobStore::look_at(const std::string& project,
                                                 const std::vector<After>& jobs) const {
  Dependencies out;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    for (const After& after : jobs) {
      const JobId& id = after.job;
      const SqlRows rows = FALAJ_TRY(
          tx.query("SELECT status FROM jobs WHERE id = ? AND project = ?", {id.str(), project}));
      if (rows.empty()) {
        out.unknown.push_back(id);
        continue;
      }
      const auto status = static_cast<JobStatus>(rows.front().integer(0));
      if (!has_ended(status)) {
        out.open.push_back(id);
      } else if (after.end != AfterEnd::kAny &&
                 (status == JobStatus::kSucceeded) != (after.end == AfterEnd::kOk)) {
        out.otherwise.push_back(after);
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
      Unfinished each;
      each.cancelled = cancelled;
      if (job.status == JobStatus::kRunning) {
        FALAJ_TRY(add_beginning(tx, job, each));
        give_workers(job.spec.request, each.grant.workers);
      }
      each.job = std::move(job);
      unfinished.push_back(std::move(each));
    }
    return {};
  }));
  return unfinished;
}

// When the attempt that runs began, and with what.
Status JobStore::add_beginning(SqlTransaction& tx, const Job& job, Unfinished& out) {
  const SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT at, detail FROM job_events WHERE job = ? AND kind = ? AND attempt = ?",
      {job.id.str(), static_cast<std::int64_t>(EventKind::kAdmitted), std::int64_t{job.epoch}}));
  if (rows.empty()) return {};  // From before there were events.
  out.began = Timestamp{rows.front().integer(0)};
  const Value detail = FALAJ_TRY(parse_json(rows.front().text(1)));
  out.grant.gpus = static_cast<std::uint16_t>(detail.integer("gpus"));
  out.grant.workers = detail.integer("workers", 1);
  out.grant.numa = static_cast<std::uint8_t>(detail.integer("numa", 0xff));
  out.grant.mig_start = static_cast<std::uint8_t>(detail.integer("mig_start", 0xff));
  return {};
}

Event JobStore::requeued(const Job& job, int attempts, const std::string& error) const {
  Value detail;
  detail["attempts"] = attempts;
  detail["error"] = error;
  return event_of(EventKind::kRequeued, clock_.now(), job.epoch, std::move(detail));
}

Result<Job> JobStore::begin_attempt(const JobId& id, const Grant& grant,
                                    const DecisionRecordPtr& decision) {
  // Packed on this thread: the store's one writer has enough to do.
  const DecisionRecord::Packed* packed = decision ? &decision->packed() : nullptr;
  std::optional<Job> job;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    job = FALAJ_TRY(find_job(tx, id));
    Value detail;
    detail["attempts"] = job->attempts + 1;
    if (grant.gpus != 0) detail["gpus"] = std::int64_t{grant.gpus};
    if (job->spec.request.workers) detail["workers"] = grant.workers;
    if (grant.numa != kNowhere) detail["numa"] = std::int64_t{grant.numa};
    if (grant.mig_start != kNowhere) detail["mig_start"] = std::int64_t{grant.mig_start};
    give_workers(job->spec.request, grant.workers);
    if (packed != nullptr) {
      FALAJ_TRY(add_decision(tx, *packed, {}));
      detail["decision"] = packed->id;
      detail["number"] = static_cast<std::int64_t>(grant.number);
    }
    FALAJ_TRY(happen(
        tx, *job, event_of(EventKind::kAdmitted, clock_.now(), job->epoch + 1, std::move(detail))));
    if (job->epoch == 1) return {};
    // What the one before printed is with its event.
    FALAJ_TRY(tx.execute("UPDATE jobs SET log = '', log_offset = 0 WHERE id = ?", {id.str()}));
    return {};
  }));
  return *std::move(job);
}

Status JobStore::requeue(const AttemptId& attempt, int attempts, const std::string& error) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    Job job = FALAJ_TRY(find_job(tx, attempt.job));
    FALAJ_TRY(check_newest(job, attempt));
    if (job.status != JobStatus::kRunning) return {};
    Event event = requeued(job, attempts, error);
    const SqlRows rows =
        FALAJ_TRY(tx.query("SELECT log, log_offset FROM jobs WHERE id = ?", {job.id.str()}));
    if (!rows.at(0).text(0).empty()) {
      event.detail["log"] = rows.at(0).text(0);
      event.detail["log_offset"] = rows.at(0).integer(1);
    }
    return happen(tx, job, std::move(event));
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

Result<JobStore::Log> JobStore::earlier_log(const AttemptId& id) const {
  const SqlRows rows = FALAJ_TRY(storage::query(
      sql_, "SELECT detail FROM job_events WHERE job = ? AND kind = ? AND attempt = ?",
      {id.job.str(), static_cast<std::int64_t>(EventKind::kRequeued), std::int64_t{id.attempt}}));
  if (rows.empty()) {
    return Error(Code::kNotFound, "job " + id.job.str() + " had no attempt " +
                                      std::to_string(id.attempt) +
                                      " that ended before another one; its events list them");
  }
  const Value detail = FALAJ_TRY(parse_json(rows.front().text(0)));
  return Log{detail.text("log"), detail.integer("log_offset")};
}

Status JobStore::keep_curve(const AttemptId& id, const Value& curve) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT OR REPLACE INTO job_curves (job, attempt, curve) VALUES (?, ?, ?)",
                         {id.job.str(), std::int64_t{id.attempt}, to_json(curve)}));
    return {};
  });
}

Result<Value> JobStore::curve(const AttemptId& id) const {
  const SqlRows rows =
      FALAJ_TRY(storage::query(sql_, "SELECT curve FROM job_curves WHERE job = ? AND attempt = ?",
                               {id.job.str(), std::int64_t{id.attempt}}));
  return rows.empty() ? Result<Value>(Value()) : parse_json(rows.front().text(0));
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
