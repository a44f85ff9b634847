// jobs/queue.h — work that runs outside the server, in the order it came, surviving restarts.
//
// A job is recorded before it is acknowledged. Its process reports over a socket (one JSON object a
// line). When the server dies the job's process dies with it and the job is tried again at start,
// up to its limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/value.h"
#include "exec/child.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::jobs {

enum class JobStatus : std::uint8_t { kQueued, kRunning, kSucceeded, kFailed, kCancelled };
std::string_view status_name(JobStatus status);

struct JobSpec {
  std::string type;  // "train": selects the handler.
  std::string project;
  Zone zone{};    // Of what it reads, and of its log: the submitter's context says.
  Value payload;  // What the handler needs to build the command.
  int attempts_max = 3;
};

struct Job {
  JobId id;
  JobSpec spec;
  JobStatus status = JobStatus::kQueued;
  int attempts = 0;
  std::string error;  // Begins with the error's code: "FJ-4004: the process ran past …".
  Value result;
  Timestamp created_at{};
  Timestamp ended_at{};
};
// {id, type, …, error, code}: `code` is that of the error ("FJ-4004"), "" when it has none.
Value to_value(const Job& job);

// How a type of job runs. Called on the queue's worker thread. Whatever happens to a job, finish()
// or abandoned() is called before its end is written down, and again after a crash in between; only
// of one that is cancelled while it waits, finish() is called after (a crash may then leave it out:
// look at ended jobs at start).
class Handler {
 public:
  virtual ~Handler() = default;
  // The command, its sandbox and limits, for this attempt. work_dir exists and is empty. An error
  // fails the job at once: abandoned() follows, and not finish().
  virtual Result<exec::ChildSpec> prepare(const Job& job, const std::string& work_dir) = 0;
  // One report of the child, parsed.
  virtual void on_report(const Job& job, const Value& report) = 0;
  // The child ended. Ok → the job's result; an error → failed (tried again only when `retry` and
  // job.attempts < attempts_max). A cancelled job ends here too, with ExitReason::kStopped, and
  // without work_dir when it never ran; its outcome is not looked at. jobs/exit_error.h helps.
  struct Outcome {
    Result<Value> result;
    bool retry = false;
  };
  virtual Outcome finish(const Job& job, const exec::ChildExit& exit,
                         const std::string& work_dir) = 0;
  // The job failed without a process: its folder, prepare(), the program's start or the store said
  // no.
  virtual void abandoned(const Job& job, const Error& error) = 0;
};

extern const storage::Migration kJobsMigration;

// How many may wait for the end of jobs at once: one alone never takes every place.
struct WaitLimits {
  std::size_t each_max = 64;
  std::size_t all_max = 1024;
};

struct QueueOptions {
  std::string work_folder;
  unsigned concurrency = 1;
  std::size_t waiting_max = 1000;  // FJ-4005 past it.
  // What the store refuses is tried again, the wait doubling each time; then the job fails or, when
  // not even that can be written, goes back to the end of the queue.
  int writes_max = 6;
  Duration write_wait = Duration::milliseconds(50);
  WaitLimits waits{};
};

class Queue {
 public:
  // Jobs left running by a dead server go back to the queue, and fail at start() (their handler is
  // told, as if killed) when that was their last attempt.
  static Result<std::unique_ptr<Queue>> open(const QueueOptions& options, storage::SqlStore& sql,
                                             security::Audit& audit, telemetry::Metrics& metrics,
                                             const Clock& clock);
  virtual ~Queue() = default;
  // Before start(). Not owned.
  virtual void handle(const std::string& type, Handler& handler) = 0;
  virtual void start() = 0;
  // Stops children (they are tried again at the next start) and joins.
  virtual void stop() = 0;

  // FJ-4005 when too many wait, FJ-7017 when the project has as many jobs as its quota allows.
  virtual Result<JobId> submit(const security::RequestContext& context, JobSpec spec) = 0;
  // Whether submit() would say so now: for callers who have something to write before.
  virtual Status room(const ProjectName& project) const = 0;
  // Jobs of the project that wait or run.
  virtual Result<std::int64_t> in_flight(const ProjectName& project) const = 0;
  // kConflict when it has ended.
  virtual Status cancel(const security::RequestContext& context, const JobId& id) = 0;
  virtual Result<Job> get(const JobId& id) const = 0;
  virtual Result<std::vector<Job>> list(const ProjectName& project) const = 0;
  // Waits until the job has ended or `limit` has passed; the job as it is then.
  virtual Result<Job> wait(const JobId& id, Duration limit) const = 0;
  // The same without holding a thread: `then` is called once, on a thread of the queue, and must
  // not block. When the queue stops, everybody is told at once. kResourceExhausted, and `then` is
  // never called, past QueueOptions::waits; `who` is the one whom its share is counted for.
  using Then = std::function<void(Result<Job>)>;
  virtual Status when_ended(std::string_view who, const JobId& id, Duration limit, Then then) = 0;
  // What the newest attempt's process printed: the last 64 KiB, whole lines, as valid UTF-8. ""
  // when nothing was printed yet; kNotFound for a job that there is not.
  virtual Result<std::string> log_tail(const JobId& id) const = 0;
};

}  // namespace falaj::jobs
