#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "jobs/internal/job_store.h"
#include "security/quota/quota.h"

namespace falaj::jobs {
namespace {

constexpr std::array<std::string_view, 5> kStatusNames{"queued", "running", "succeeded", "failed",
                                                       "cancelled"};

std::string error_code(const std::string& error) {
  const std::string code = error.substr(0, error.find(':'));
  return find_error(code) == nullptr ? "" : code;
}

}  // namespace

std::string_view status_name(JobStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

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

namespace internal {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 1'000;

#define FALAJ_JOB_COLUMNS                                                                   \
  "id, type, project, payload, attempts_max, status, attempts, error, result, created_at, " \
  "ended_at, zone"
constexpr std::string_view kSelectOne = "SELECT " FALAJ_JOB_COLUMNS " FROM jobs WHERE id = ?";
constexpr std::string_view kSelectProject =
    "SELECT " FALAJ_JOB_COLUMNS " FROM jobs WHERE project = ? ORDER BY id DESC LIMIT ?";
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
  job.status =
      static_cast<JobStatus>(std::clamp<std::int64_t>(row.integer(5), 0, kStatusNames.size() - 1));
  job.attempts = static_cast<int>(row.integer(6));
  job.error = row.text(7);
  job.result = FALAJ_TRY(parse_column(row, 8));
  job.created_at = Timestamp{row.integer(9)};
  job.ended_at = Timestamp{row.integer(10)};
  job.spec.zone = Zone(row.text(11));
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
        " result, created_at, ended_at, zone) VALUES (?, ?, ?, ?, ?, 0, 0, '', 'null', ?, 0, ?)",
        {job.id.str(), job.spec.type, job.spec.project, to_json(job.spec.payload),
         std::int64_t{job.spec.attempts_max}, job.created_at.nanos, job.spec.zone.name()}));
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

Result<std::vector<JobId>> JobStore::recover() {
  std::vector<JobId> waiting;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("UPDATE jobs SET status = 0 WHERE status = 1"));
    for (const SqlRow& row :
         FALAJ_TRY(tx.query("SELECT id FROM jobs WHERE status = 0 ORDER BY id"))) {
      waiting.emplace_back(row.text(0));
    }
    return {};
  }));
  return waiting;
}

Result<Job> JobStore::begin_attempt(const JobId& id) {
  std::optional<Job> job;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    job = FALAJ_TRY(find_job(tx, id));
    if (job->status != JobStatus::kQueued) {
      return Error(Code::kConflict,
                   "job " + id.str() + " is " + std::string(status_name(job->status)));
    }
    job->status = JobStatus::kRunning;
    ++job->attempts;
    FALAJ_TRY(tx.execute("UPDATE jobs SET status = 1, attempts = ? WHERE id = ?",
                         {std::int64_t{job->attempts}, id.str()}));
    return {};
  }));
  return *std::move(job);
}

Status JobStore::requeue(const JobId& id, int attempts, const std::string& error) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute(
        "UPDATE jobs SET status = 0, attempts = ?, error = ? WHERE id = ? AND status = 1",
        {std::int64_t{attempts}, error, id.str()}));
    return {};
  });
}

Status JobStore::end(const security::RequestContext& context, const JobId& id, JobStatus status,
                     const std::string& error, const Value& result) {
  const std::int64_t now = clock_.now().nanos;
  return sql_.write([&](SqlTransaction& tx) -> Status {
    const Job job = FALAJ_TRY(find_job(tx, id));
    if (has_ended(job.status)) {
      return Error(Code::kConflict, "job " + id.str() + " is " +
                                        std::string(status_name(job.status)) + " since " +
                                        to_rfc3339(job.ended_at));
    }
    FALAJ_TRY(
        tx.execute("UPDATE jobs SET status = ?, error = ?, result = ?, ended_at = ? WHERE id = ?",
                   {static_cast<std::int64_t>(status), error, to_json(result), now, id.str()}));
    Value detail;
    detail["status"] = status_name(status);
    detail["attempts"] = job.attempts;
    if (!error.empty()) detail["error"] = error;
    FALAJ_TRY(audit_.append(tx, context, {"job.end", object_name(job), detail}));
    return {};
  });
}

Status JobStore::keep_log(const JobId& id, const std::string& text) {
  return sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("UPDATE jobs SET log = ? WHERE id = ?", {text, id.str()}));
    return {};
  });
}

Result<std::string> JobStore::log(const JobId& id) const {
  const SqlRows rows =
      FALAJ_TRY(storage::query(sql_, "SELECT log FROM jobs WHERE id = ?", {id.str()}));
  if (!rows.empty()) return rows.front().text(0);
  return Error(Code::kNotFound, "there is no job '" + id.str() + "'; list the project's jobs");
}

Status JobStore::record_cancel(const security::RequestContext& context, const Job& job) {
  FALAJ_TRY(audit_.record(context, {"job.cancel", object_name(job), Value::object()}));
  return {};
}

}  // namespace internal
}  // namespace falaj::jobs
