// jobs/queue.h — work that runs outside the server, as the scheduler admits it, surviving restarts.
//
// A job is recorded before it is acknowledged, and every change of it is an event
// (jobs/events.h). scheduler::decide says which job starts, which must make room and why the others
// wait (jobs/admission.h). There are two ways to run:
// - an engine job (training, conversion) has a Handler and a process of this server, which reports
//   over a socket, one JSON object a line, and dies with the server; the job is then tried again,
//   up to its limit;
// - a command is given to an Executor (jobs/executor.h) under the number of its attempt, and is
//   found again after a crash of the server where the executor outlives it.
//
// A command with workers (Request::workers) runs with any number of them from its least on. When
// others need the room, or more has come free, it is stopped as if it were preempted, its new place
// is kept for it, and its next attempt begins with that many; that costs it no attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/value.h"
#include "exec/child.h"
#include "jobs/admission.h"
#include "jobs/events.h"
#include "jobs/request.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::scheduler::simulate {
struct Plan;
}

namespace falaj::jobs {

class Executor;
struct CommandOptions;
struct Grant;
struct Work;

inline constexpr std::string_view kCommandType = "command";
inline constexpr std::size_t kArrayMax = 10'000;

struct JobSpec {
  std::string type;  // "train": selects the handler; "command": the executor.
  std::string project;
  Zone zone{};    // Of what it reads, and of its log: the submitter's context says.
  Value payload;  // What the handler needs to build the command, or the command itself.
  int attempts_max = 3;
  Request request{};  // What it asks of the scheduler: one processor unless it says more.
};

struct Job {
  JobId id;
  JobSpec spec;
  JobStatus status = JobStatus::kQueued;
  int attempts = 0;   // That count; what was lost or preempted does not.
  int epoch = 0;      // The number of the newest attempt, which no other has (AttemptId).
  std::string error;  // Begins with the error's code: "FJ-4004: the process ran past …".
  Value result;
  Timestamp created_at{};
  Timestamp ended_at{};
};
// {id, type, …, error, code}: `code` is that of the error ("FJ-4004"), "" when it has none. What a
// command was asked for ({name, queue, cpus, …}) stands under `request`.
Value to_value(const Job& job);

// A payload as lists show it: without env, capture, groups and a runtime's lock, of the command the
// first 256 bytes. Pure.
Value brief(Value payload);

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

// Beside commands that the server itself submits; the payload's `companion` names it. Called on the
// queue's worker threads.
class Companion {
 public:
  virtual ~Companion() = default;
  // Before every attempt: what the command gets beside what any command gets. `job` asks for what
  // it was granted. An error fails the job at once.
  virtual Status prepare(const Job& job, const Grant& grant, Work& work) = 0;
  // The job has ended for good: before that is written down, and again after a crash in between;
  // only of one that never ran after (a crash may then leave it out: look at ended jobs at start).
  // Answers with what is known of the command's workers, for the post-mortem: as jobs/post_mortem.h
  // reads it, or null.
  virtual Value ended(const Job& job, JobStatus status, const std::string& error) = 0;
  // When the newest checkpoint of a running job was kept; zero when there is none. Asked about once
  // a second while others wait.
  virtual Timestamp newest_checkpoint(const Job& job) const;
};

extern const storage::Migration kJobsMigration;
extern const storage::Migration kJobEventsMigration;
extern const storage::Migration kJobCurvesMigration;
extern const storage::Migration kJobPayloadsMigration;
extern const storage::Migration kJobDecisionsMigration;

// What a job printed, from some byte on.
struct LogPart {
  std::string text;         // Valid UTF-8, whole lines as long as more may come.
  int attempt = 0;          // Whose it is.
  std::int64_t offset = 0;  // Of its first byte.
  std::int64_t next = 0;    // Where to go on.
  JobStatus status = JobStatus::kQueued;
};

// A job that runs now, and what it takes.
struct Usage {
  JobId id;
  std::string project;
  int attempt = 0;
  Request request;
  Timestamp started_at{};
  std::int64_t memory_bytes = 0;  // 0 when the executor does not tell.
  Duration cpu_time{};
};
Value to_value(const Usage& usage);

// How many may wait for the end of jobs at once: one alone never takes every place.
struct WaitLimits {
  std::size_t each_max = 64;
  std::size_t all_max = 1024;
};

struct QueueOptions {
  std::string work_folder;
  unsigned concurrency = 1;        // Engine jobs at once.
  std::size_t waiting_max = 1000;  // FJ-4005 past it.
  // What the store refuses is tried again, the wait doubling each time; then the job fails or, when
  // not even that can be written, goes back to the end of the queue.
  int writes_max = 6;
  Duration write_wait = Duration::milliseconds(50);
  WaitLimits waits{};
  // So many bytes of what was decided upon are kept for replays; the oldest go first.
  std::int64_t decisions_bytes_max = std::int64_t{64} << 20;
  Machine machine = this_machine();  // What jobs share; its engines_max is not looked at.
  // Whether work of the context's project may be done on this machine (residency). Empty: yes.
  std::function<Status(const security::RequestContext&)> admits{};
  // Whether data of that zone may be computed on here for the project, now; leaves no trace. Asked
  // about each zone of Constraints::data, with every decision. Empty: yes.
  std::function<bool(const std::string& project, const Zone& data)> may_hold{};
};

class Queue {
 public:
  // Engine jobs left running by a dead server go back to the queue, and fail at start() (their
  // handler is told, as if killed) when that was their last attempt. Commands go on where the
  // executor still knows them; the others begin another attempt, which costs them nothing.
  // Whatever a cancel was asked for ends cancelled after start(), and never runs again.
  static Result<std::unique_ptr<Queue>> open(const QueueOptions& options, storage::SqlStore& sql,
                                             security::Audit& audit, telemetry::Metrics& metrics,
                                             const Clock& clock);
  virtual ~Queue() = default;
  // Before start(). Not owned.
  virtual void handle(const std::string& type, Handler& handler) = 0;
  // Before start() too: who runs commands. `executor` is not owned. Without it they are refused.
  virtual void run_commands(Executor& executor, const CommandOptions& options) = 0;
  // Before start(). Not owned.
  virtual void accompany(const std::string& name, Companion& companion) = 0;
  virtual void start() = 0;
  // Stops children (they are tried again at the next start) and joins. Commands are left to the
  // executor.
  virtual void stop() = 0;
  // Tells those who wait for an end how their job is now; later ones are told at once.
  virtual void end_waits() = 0;

  // FJ-4005 when too many wait, FJ-7017 when the project has as many jobs as its quota allows.
  // What could never start is refused: FJ-1006 (more than the machine, its queue or jobs.*_max
  // has; a deadline that has passed), FJ-2001 (no such queue), FJ-7030… (its zone may not be
  // computed on here), kNotFound (a job of `after` that the project does not have: so there are no
  // circles), FJ-1015 (no program). FJ-4005 too when jobs that wait or run avoid or are near to too
  // many tags already.
  virtual Result<JobId> submit(const security::RequestContext& context, JobSpec spec) = 0;
  // The same `count` times (at most kArrayMax), all or none: the members of an array. Each is a job
  // by itself; a command learns its place from FALAJ_ARRAY_INDEX and FALAJ_ARRAY_COUNT.
  virtual Result<std::vector<JobId>> submit_array(const security::RequestContext& context,
                                                  JobSpec spec, std::size_t count) = 0;
  // Whether submit() would say so now: for callers who have something to write before.
  virtual Status room(const ProjectName& project) const = 0;
  // Jobs of the project that wait or run.
  virtual Result<std::int64_t> in_flight(const ProjectName& project) const = 0;
  // kConflict when it has ended.
  virtual Status cancel(const security::RequestContext& context, const JobId& id) = 0;
  virtual Result<Job> get(const JobId& id) const = 0;
  // The newest thousand, newest first; their payloads are brief().
  virtual Result<std::vector<Job>> list(const ProjectName& project) const = 0;
  // The newest job whose payload names this run, under `run`; none when there is none.
  virtual Result<std::optional<Job>> of_run(const RunId& run) const = 0;
  // Everything that happened to it, oldest first.
  virtual Result<std::vector<Event>> events(const JobId& id) const = 0;
  // Why it waits, as the scheduler said last; of one that does not wait, what it does.
  virtual Result<Why> why(const JobId& id) const = 0;
  // What these Queues and this SchedulingPolicy (whatever its name) would have done to the newest
  // jobs of the past, and would do to those who wait: both replayed under the current rules and the
  // new. The guard-rails are those of the policy in force, or the new one's when there is none.
  // Takes seconds; nothing is changed. FJ-2002 for other kinds.
  virtual Result<scheduler::simulate::Plan> plan(const std::vector<storage::Object>& changes) = 0;
  // Whether guard-rails hold for such a change: it is of the policy in force, or of queues under
  // one.
  virtual Result<bool> guarded(const std::vector<storage::Object>& changes) const = 0;
  // Decides again what the entry `scheduler.decide` says was decided, from what was kept, and
  // verifies it: see jobs/decision_record.h. kNotFound when that is kept no more, FJ-1006 for
  // another entry.
  virtual Result<Value> replay_decision(const security::AuditEntry& entry) const = 0;
  // What runs now, of one project, and the machine it shares.
  virtual Result<std::vector<Usage>> usage(const ProjectName& project) const = 0;
  virtual const Machine& machine() const = 0;
  // Waits until the job has ended or `limit` has passed; the job as it is then.
  virtual Result<Job> wait(const JobId& id, Duration limit) const = 0;
  // The same without holding a thread: `then` is called once, on a thread of the queue, and must
  // not block. When the queue stops, everybody is told at once. kResourceExhausted, and `then` is
  // never called, past QueueOptions::waits; `who` is the one whom its share is counted for.
  using Then = std::function<void(Result<Job>)>;
  virtual Status when_ended(std::string_view who, const JobId& id, Duration limit, Then then) = 0;
  // What an attempt's process printed (0: the newest one's): the last 64 KiB, whole lines, as valid
  // UTF-8. "" when nothing was printed yet; kNotFound for a job or an attempt that there is not.
  virtual Result<std::string> log_tail(const JobId& id, int attempt) const = 0;
  // What was printed since: at most 64 KiB from `offset` of that attempt's log, or from the
  // beginning when a newer attempt has begun. What was left out of a long log is skipped.
  virtual Result<LogPart> log_from(const JobId& id, int attempt, std::int64_t offset) const = 0;
  // How the newest attempt of a command used the machine: {job, attempt, status, cpus_max,
  // memory_max[, gpus_max]} and the columns of jobs/usage_curve.h, empty when it ran under a
  // second.
  virtual Result<Value> curve(const JobId& id) const = 0;
};

}  // namespace falaj::jobs
