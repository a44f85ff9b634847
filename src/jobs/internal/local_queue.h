// jobs/internal/local_queue.h — the queue of one server.
//
// A dispatcher thread asks the scheduler whenever something changed and hands out tasks; worker
// threads do what takes time. An engine job holds a worker as long as its process runs, a command
// only at its beginning and at its end: in between it is the executor's.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "jobs/command.h"
#include "jobs/executor.h"
#include "jobs/internal/job_store.h"
#include "jobs/internal/spare_folders.h"
#include "jobs/internal/waits.h"
#include "jobs/queue.h"
#include "jobs/replay.h"
#include "scheduler/simulate/plan.h"

namespace falaj::jobs::internal {

struct Gauges {
  telemetry::Gauge& waiting;
  telemetry::Gauge& running;
  telemetry::Counter& malformed;
  explicit Gauges(telemetry::Metrics& metrics);
};

class LocalQueue final : public Queue {
 public:
  LocalQueue(const QueueOptions& options, storage::SqlStore& sql, security::Audit& audit,
             telemetry::Metrics& metrics, const Clock& clock);
  ~LocalQueue() override { stop(); }
  Status recover();

  void handle(const std::string& type, Handler& handler) override { handlers_[type] = &handler; }
  void accompany(const std::string& name, Companion& companion) override {
    companions_[name] = &companion;
  }
  void run_commands(Executor& executor, const CommandOptions& options) override;
  void start() override;
  void stop() override;
  void end_waits() override { waits_.stop(); }

  Result<JobId> submit(const security::RequestContext& context, JobSpec spec) override;
  Result<std::vector<JobId>> submit_array(const security::RequestContext& context, JobSpec spec,
                                          std::size_t count) override;
  Status room(const ProjectName& project) const override;
  Result<std::int64_t> in_flight(const ProjectName& project) const override {
    return store_.in_flight(project);
  }
  Status cancel(const security::RequestContext& context, const JobId& id) override;
  Result<Job> get(const JobId& id) const override { return store_.get(id); }
  Result<std::vector<Job>> list(const ProjectName& project) const override {
    return store_.list(project);
  }
  Result<std::optional<Job>> of_run(const RunId& run) const override { return store_.of_run(run); }
  Result<std::vector<Event>> events(const JobId& id) const override;
  Result<Why> why(const JobId& id) const override;
  Result<std::vector<Usage>> usage(const ProjectName& project) const override;
  Result<scheduler::simulate::Plan> plan(const std::vector<storage::Object>& changes) override;
  Result<bool> guarded(const std::vector<storage::Object>& changes) const override;
  Result<Value> replay_decision(const security::AuditEntry& entry) const override;
  const Machine& machine() const override { return options_.machine; }
  Result<Job> wait(const JobId& id, Duration limit) const override;
  Status when_ended(std::string_view who, const JobId& id, Duration limit, Then then) override {
    return waits_.add(who, id, limit, std::move(then));
  }
  Result<std::string> log_tail(const JobId& id, int attempt) const override;
  Result<LogPart> log_from(const JobId& id, int attempt, std::int64_t offset) const override;
  Result<Value> curve(const JobId& id) const override;

 private:
  struct Running {
    exec::Child* child = nullptr;      // Of an engine job.
    std::optional<AttemptId> attempt;  // Of a command, once it was written down.
    std::uint64_t told = 0;            // The round in which the executor had been told; 0: not yet.
    DecisionRecordPtr decision;        // That admitted it, until that was written down.
    bool cancelled = false;
    bool preempted = false;
    // It is stopped to go on with so many workers, for which its place is kept.
    std::optional<Verdict::Place> resize{};
    bool finishing = false;                           // Its end is a task already.
    Spell::Ended ended = Spell::Ended::kInterrupted;  // Once its end was written.
    std::int64_t looked = 0;         // For its newest checkpoint: monotonic_nanos().
    Timestamp began{};               // When its attempt was written down; zero: it has none.
    std::shared_ptr<const Job> job;  // A command as its attempt began: saves reading it at its end.
    std::shared_ptr<const Job> read{};  // And as it was last read, to look for its checkpoint.
  };
  struct Task {
    JobId id;
    std::optional<AttemptEnd> end;  // Of a command; absent: the job is to begin.
    int attempt = 0;                // Whose end that is.
  };
  // How a job's time with a worker ended: for good, back into the queue at one of its ends, or it
  // is with the executor.
  enum class Next : std::uint8_t { kDone, kFront, kBack, kHeld };
  enum class Place : std::uint8_t { kRunning, kWaiting, kNowhere, kOver };
  struct Ending {
    JobStatus status;
    std::string error;
    Value result;
  };

  // queue.cc: the calls, and what they share.
  // Sets the priority that a named class stands for.
  Status check_submission(const security::RequestContext& context, JobSpec& spec) const;
  Status settle_submission(const security::RequestContext& context, JobSpec& spec,
                           std::size_t count) const;
  Status check_cost(Scene& scene, const Candidate& job) const;
  Candidate candidate_of(const Job& job) const;
  Machine machine_as(const JobStore::Sharing& sharing) const;
  using GateSays = std::map<std::pair<std::string, std::string>, bool>;  // By project and zone.
  std::vector<std::size_t> barred(const std::string& project, const Request& request,
                                  GateSays& said) const;
  Status check_data(const security::RequestContext& context, const Request& request) const;
  Status check_tags(const std::string& project, const Request& request) const;
  void count_tags(const Candidate& job, int by) FALAJ_REQUIRES(mutex_);
  void enter(const JobStore::Unfinished& entering) FALAJ_REQUIRES(mutex_);
  void show_counts() FALAJ_REQUIRES(mutex_);
  bool is_full() const FALAJ_REQUIRES(mutex_) {
    return waiting_ + arriving_ >= options_.waiting_max;
  }
  Error full() const;
  void tell_waiters(const JobId& id);
  std::uint64_t ends() const;
  Handler* handler_of(const Job& job) const;
  Companion* companion_of(const Job& job) const;
  Value tell_companion(const Job& job, JobStatus status, const std::string& error) const;
  Place take_for_cancel(const JobId& id);
  void put_back(const JobId& id);
  bool is_cancelled(const JobId& id) const;
  bool is_stopping() const;
  void count_end(const Job& job, JobStatus status, std::string_view error);
  static void note(const Status& status, const Job& job);

  // dispatch.cc: who is next.
  void dispatch();
  std::size_t collect_ends();
  void call_workers(std::size_t tasks);
  void settle_dependencies();
  void doom(const JobId& id, const After& after);
  void decide();
  bool anybody_may_change() const FALAJ_REQUIRES(mutex_);
  Scene picture() FALAJ_REQUIRES(mutex_);
  void look_for_checkpoints();
  bool written_down(const Scene& scene, const Verdict& verdict);
  void act_on(const Scene& scene, const Verdict& verdict);
  void seat(Candidate& candidate, const Verdict::Place& place) FALAJ_REQUIRES(mutex_);
  std::vector<JobId> tell_leavers(const Scene& scene, const Verdict& verdict)
      FALAJ_REQUIRES(mutex_);
  void stop_process(const JobId& id);
  void set_waiting(Candidate& candidate, Stage stage) FALAJ_REQUIRES(mutex_);

  // plan.cc: what other rules would do.
  Result<std::vector<PastJob>> past_jobs() const;
  void add_present(const JobStore::Sharing& sharing, std::vector<PastJob>& jobs);

  // sweep.cc: what a server that died left in the work folder.
  void sweep();

  // run.cc: what a worker does with an engine job.
  void work();
  bool release(const JobId& id, Next next);
  template <class Call>
  auto retried(Call call) -> decltype(call());
  void note_beginning(const JobId& id);
  void remember(Candidate& job, const Running& running) FALAJ_REQUIRES(mutex_);
  Next run(const JobId& id);
  std::optional<Next> run_at_once(const JobId& id);
  std::string work_dir(const Job& job) const;
  Next attempt(const Job& job, Handler& handler);
  void keep_log(const Job& job, const JobStore::Log& log);
  Next give_up(const Job& job, Handler& handler, const Error& error);
  Next end_cancelled(const JobId& id);
  Result<exec::ChildExit> run_child(const Job& job, Handler& handler, const std::string& folder,
                                    exec::ChildSpec spec);
  void report(const Job& job, Handler& handler, std::string_view line);
  Next conclude(const Job& job, Handler& handler, const std::string& folder,
                const exec::ChildExit& exit);
  Next settle(const Job& job, const Handler::Outcome& outcome);
  bool take_back(const Job& job, int attempts, const std::string& error);
  Next end(const Job& job, JobStatus status, const std::string& error, const Value& result);
  std::optional<Ending> take_unwritten(const JobId& id);

  // run_command.cc: and with a command.
  bool runs_command(const Job& job) const {
    return executor_ != nullptr && job.spec.type == kCommandType;
  }
  Next start_command(const Job& job);
  void end_identity(const JobId& id) const;
  void know_again();
  Next finish_command(const AttemptId& id, const AttemptEnd& end);
  // Forgets an attempt that has ended, and removes its files. One that runs is left alone.
  void clear_away(const AttemptId& id);
  Result<Job> job_of(const AttemptId& id);
  Next follow(const Job& job);
  Next conclude_command(const Job& job, const AttemptEnd& end, std::string_view log);
  Next hold_for_later(const JobId& id);
  Grant grant_of(const JobId& id) const;
  Result<Job> begin(const JobId& id);
  void keep_curve(const Job& job, const AttemptEnd& end);  // usage_curve.cc

  QueueOptions options_;
  JobStore store_;
  std::unique_ptr<SpareFolders> spares_;
  telemetry::Metrics& metrics_;
  const Clock& clock_;
  Gauges gauges_;
  // Fixed before start(), as the two that follow.
  std::map<std::string, Handler*, std::less<>> handlers_;
  std::map<std::string, Companion*, std::less<>> companions_;
  Executor* executor_ = nullptr;
  CommandOptions commands_;

  mutable Mutex mutex_;
  mutable CondVar changed_;  // For those who wait for an end.
  mutable CondVar decided_;  // For those who ask why.
  CondVar asked_;            // For the dispatcher.
  CondVar tasked_;           // For the workers.
  // Everything that waits or runs; and of those that run, what is known.
  std::map<JobId, Candidate> line_ FALAJ_GUARDED_BY(mutex_);
  std::map<JobId, Running> running_ FALAJ_GUARDED_BY(mutex_);
  // By project, the tags that its jobs in line_ avoid or are near to, and how often.
  std::map<std::string, std::map<std::string, int>> sought_ FALAJ_GUARDED_BY(mutex_);
  std::map<JobId, std::vector<After>> unmet_ FALAJ_GUARDED_BY(mutex_);
  std::map<JobId, Why> why_ FALAJ_GUARDED_BY(mutex_);
  std::map<JobId, Ending> unwritten_ FALAJ_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ FALAJ_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ FALAJ_GUARDED_BY(mutex_);
  mutable Ledger ledger_ FALAJ_GUARDED_BY(mutex_);    // Of attempts that are over.
  std::size_t waiting_ FALAJ_GUARDED_BY(mutex_) = 0;  // Of line_.
  std::size_t arriving_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t sequence_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t round_ FALAJ_GUARDED_BY(mutex_) = 1;  // How often the executor was asked.
  std::uint64_t ends_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool dirty_ FALAJ_GUARDED_BY(mutex_) = true;
  bool executor_news_ FALAJ_GUARDED_BY(mutex_) = false;
  bool stopping_ FALAJ_GUARDED_BY(mutex_) = false;
  JobStore::Sharing sharing_;  // As last read; the dispatcher's own, as the one that follows.
  std::int64_t recorded_ = 0;  // When a large decision was last recorded: monotonic_nanos().
  Waits waits_;                // Last: its thread reads the store.
};

// Calls until it is ok, or the error is one that time does not mend, or patience or the server's
// time is over. For the store and the executor: a full disk or a lock may pass.
template <class Call>
auto LocalQueue::retried(Call call) -> decltype(call()) {
  std::int64_t pause = options_.write_wait.nanos;
  for (int tried = 1;; ++tried, pause *= 2) {
    auto result = call();
    if (result.ok() || tried >= options_.writes_max) return result;
    const Code code = result.error().code;
    if (code == Code::kNotFound || code == Code::kConflict) return result;
    MutexLock lock(mutex_);
    if (changed_.wait_for(mutex_, std::chrono::nanoseconds(pause),
                          [this]() FALAJ_REQUIRES(mutex_) { return stopping_; })) {
      return result;
    }
  }
}

// What an error reads like in a job's row: its code first.
inline std::string describe(const Error& error) {
  return to_string(error.id) + ": " + error.message;
}

// The attempt that its row is at.
inline AttemptId newest(const Job& job) { return {job.id, job.epoch}; }

security::RequestContext queue_context(const Job& job);
exec::ChildExit stopped_exit();

}  // namespace falaj::jobs::internal
