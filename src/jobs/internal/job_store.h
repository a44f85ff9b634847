// jobs/internal/job_store.h — jobs as rows of the metadata store.
#pragma once

#include <optional>
#include <vector>

#include "jobs/executor.h"
#include "jobs/ledger.h"
#include "jobs/queue.h"
#include "security/audit.h"
#include "storage/sql.h"

namespace falaj::jobs::internal {

// Thread-safe: every call is one transaction.
class JobStore {
 public:
  JobStore(storage::SqlStore& sql, security::Audit& audit, const Clock& clock,
           std::int64_t decisions_bytes_max = QueueOptions{}.decisions_bytes_max)
      : sql_(sql), audit_(audit), clock_(clock), decisions_bytes_max_(decisions_bytes_max) {}

  // `count` of them, all or none, with one audit entry. FJ-7017 as room(), within the same
  // transaction. What a long payload leaves out of its row (brief()), the answer leaves out too.
  Result<std::vector<Job>> insert(const security::RequestContext& context, JobSpec spec,
                                  std::size_t count);
  Status room(const ProjectName& project, std::size_t count) const;
  Result<std::int64_t> in_flight(const ProjectName& project) const;
  Result<Job> get(const JobId& id) const;
  Result<std::vector<Job>> list(const ProjectName& project) const;  // Payloads are brief().
  Result<std::optional<Job>> of_run(const RunId& run) const;
  Result<std::vector<Event>> events(const JobId& id) const;
  // What was declared about sharing the machine.
  struct Sharing {
    std::vector<QueueSpec> queues;
    SchedulingPolicy policy = first_come();
    bool declared = false;  // Somebody declared the policy.
    NodeSpec node;          // Those prices that it says are the policy's.
  };
  Result<Sharing> sharing() const;
  // Attempts that are over, of the newest `jobs_max` jobs submitted since; by submission.
  struct Past {
    Job job;  // Without its payload.
    Spell spell;
  };
  Result<std::vector<Past>> attempts(Timestamp since, std::int64_t jobs_max) const;
  // Of the project's jobs those that are not over, that ended otherwise than was waited for, or
  // that are not there at all.
  struct Dependencies {
    std::vector<JobId> open;
    std::vector<After> otherwise;
    std::vector<JobId> unknown;
  };
  Result<Dependencies> look_at(const std::string& project, const std::vector<After>& jobs) const;
  // Oldest first. What was running when the server died is queued again by this call, but for
  // commands, of which the executor may still know, and for those whose cancel was asked. Long
  // payloads are brief().
  struct Unfinished {
    Job job{};
    bool cancelled = false;  // Its cancel was asked: it is to end, and not to run again.
    // Of one that runs: since when, and what it was given.
    Timestamp began{};
    Grant grant{};
  };
  Result<std::vector<Unfinished>> recover();

  // queued → running, one attempt more; the job as it is then, asking for what it was given.
  // kConflict when it is not queued. The decision that gave it is written with it, once.
  Result<Job> begin_attempt(const JobId& id, const Grant& grant = {},
                            const DecisionRecordPtr& decision = nullptr);
  // Writes down a decision that makes these jobs leave, before they are told.
  Status keep_decision(const DecisionRecord& decision, const std::vector<JobId>& leaving);
  // Its body; kNotFound.
  Result<std::string> decision(const std::string& id) const;
  // running → queued; `attempts` is what it counts from now on. Both this and end() are fenced:
  // kConflict, and nothing is written, when `attempt` is not the job's newest (0: it never ran).
  Status requeue(const AttemptId& attempt, int attempts, const std::string& error);
  // → ended, with an audit entry by `context`. kConflict when it has ended already.
  Status end(const security::RequestContext& context, const AttemptId& attempt, JobStatus status,
             const std::string& error, const Value& result);
  // What its newest attempt printed.
  struct Log {
    std::string text;
    std::int64_t offset = 0;  // How much came before it.
  };
  Status keep_log(const JobId& id, const Log& log);
  Result<Log> log(const JobId& id) const;
  // And an earlier one, which is kept with the event that queued the job again. kNotFound.
  Result<Log> earlier_log(const AttemptId& id) const;
  // How an attempt used the machine, as JSON; null when that was not kept.
  Status keep_curve(const AttemptId& id, const Value& curve);
  Result<Value> curve(const AttemptId& id) const;
  // Writes down who asked for the end of a running job.
  Status record_cancel(const security::RequestContext& context, const Job& job);

 private:
  static Status add_beginning(storage::SqlTransaction& tx, const Job& job, Unfinished& out);
  Status add_decision(storage::SqlTransaction& tx, const DecisionRecord::Packed& decision,
                      const std::vector<JobId>& leaving);
  Event requeued(const Job& job, int attempts, const std::string& error) const;

  storage::SqlStore& sql_;
  security::Audit& audit_;
  const Clock& clock_;
  const std::int64_t decisions_bytes_max_;
};

bool has_ended(JobStatus status);
// By what its end says: status and error.
Spell::Ended how_ended(std::string_view status, std::string_view error);

}  // namespace falaj::jobs::internal
