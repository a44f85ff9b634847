#include "jobs/queue.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "jobs/exit_error.h"
#include "jobs/internal/job_store.h"

namespace falaj::jobs {
namespace {

using internal::has_ended;
using internal::JobStore;

constexpr int kAttemptsMost = 100;
constexpr int kSigkill = 9;
constexpr int kNotStarted = 127;

security::RequestContext queue_context(const Job& job) {
  return security::system_context("service:jobs", ProjectName(job.spec.project), Zone());
}

const telemetry::MetricInfo kEnded{"falaj_jobs_ended_total",
                                   "Jobs that ended, by how.",
                                   telemetry::MetricKind::kCounter,
                                   {"type", "status"}};

struct Gauges {
  telemetry::Gauge& waiting;
  telemetry::Gauge& running;
  telemetry::Counter& malformed;

  explicit Gauges(telemetry::Metrics& metrics)
      : waiting(metrics.gauge({"falaj_jobs_waiting",
                               "Jobs that wait for a worker.",
                               telemetry::MetricKind::kGauge,
                               {}})),
        running(metrics.gauge({"falaj_jobs_running",
                               "Jobs whose process runs now.",
                               telemetry::MetricKind::kGauge,
                               {}})),
        malformed(metrics.counter({"falaj_jobs_reports_malformed_total",
                                   "Lines from job processes that were no JSON object.",
                                   telemetry::MetricKind::kCounter,
                                   {}})) {}
};

class LocalQueue final : public Queue {
 public:
  LocalQueue(const QueueOptions& options, storage::SqlStore& sql, security::Audit& audit,
             telemetry::Metrics& metrics, const Clock& clock)
      : options_(options), store_(sql, audit, clock), metrics_(metrics), gauges_(metrics) {
    // Children have another working folder: their paths may not be relative.
    options_.work_folder = std::filesystem::absolute(options_.work_folder).string();
    metrics.declare(kEnded);
  }
  ~LocalQueue() override { stop(); }

  Status recover() {
    std::error_code error;
    std::filesystem::create_directories(options_.work_folder, error);
    if (error) {
      return Error(ErrorId::kDataFolderReadOnly, "cannot create the jobs' folder " +
                                                     options_.work_folder + ": " + error.message());
    }
    const std::vector<JobId> ids = FALAJ_TRY(store_.recover());
    MutexLock lock(mutex_);
    waiting_.assign(ids.begin(), ids.end());
    gauges_.waiting.set(static_cast<double>(waiting_.size()));
    return {};
  }

  void handle(const std::string& type, Handler& handler) override { handlers_[type] = &handler; }

  void start() override {
    MutexLock lock(mutex_);
    if (!workers_.empty()) return;
    stopping_ = false;
    for (unsigned i = 0; i < std::max(1u, options_.concurrency); ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  void stop() override {
    std::vector<std::thread> workers;
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      for (auto& [id, running] : running_) {
        if (running.child != nullptr) running.child->stop();
      }
      workers.swap(workers_);
    }
    changed_.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  Result<JobId> submit(const security::RequestContext& context, JobSpec spec) override {
    if (!handlers_.contains(spec.type)) {
      return Error(Code::kInvalidArgument, "no job has the type '" + spec.type + "'");
    }
    spec.project = context.project.str();
    spec.attempts_max = std::clamp(spec.attempts_max, 1, kAttemptsMost);
    {
      MutexLock lock(mutex_);
      if (waiting_.size() + arriving_ >= options_.waiting_max) {
        return Error(ErrorId::kQueueFull, std::to_string(options_.waiting_max) +
                                              " jobs wait already; try again when some have "
                                              "ended, or cancel some");
      }
      ++arriving_;
    }
    auto job = store_.insert(context, std::move(spec));
    {
      MutexLock lock(mutex_);
      --arriving_;
      if (job.ok()) waiting_.push_back(job->id);
      gauges_.waiting.set(static_cast<double>(waiting_.size()));
    }
    if (!job.ok()) return std::move(job).error();
    changed_.notify_all();
    return job->id;
  }

  Status cancel(const security::RequestContext& context, const JobId& id) override {
    const Job job = FALAJ_TRY(store_.get(id));
    bool was_waiting = false;
    {
      MutexLock lock(mutex_);
      const auto at = std::find(waiting_.begin(), waiting_.end(), id);
      was_waiting = at != waiting_.end();
      if (was_waiting) {
        waiting_.erase(at);
        gauges_.waiting.set(static_cast<double>(waiting_.size()));
      } else if (const auto found = running_.find(id); found != running_.end()) {
        found->second.cancelled = true;
        if (found->second.child != nullptr) found->second.child->stop();
      } else {
        return Error(Code::kConflict, "job " + id.str() + " has ended: there is nothing to cancel");
      }
    }
    if (!was_waiting) return store_.record_cancel(context, job);
    // It does not run: nobody else will tell its handler.
    FALAJ_TRY(store_.end(context, id, JobStatus::kCancelled, "cancelled before it ran", {}));
    if (Handler* handler = handler_of(job); handler != nullptr) {
      (void)handler->finish(job, stopped_exit(), "");
    }
    count_end(job, JobStatus::kCancelled);
    tell_waiters();
    return {};
  }

  Result<Job> get(const JobId& id) const override { return store_.get(id); }
  Result<std::vector<Job>> list(const ProjectName& project) const override {
    return store_.list(project);
  }

  Result<Job> wait(const JobId& id, Duration limit) const override {
    const std::int64_t begin = monotonic_nanos();
    while (true) {
      const std::uint64_t seen = ends();
      const Job job = FALAJ_TRY(store_.get(id));
      const std::int64_t left = limit.nanos - (monotonic_nanos() - begin);
      if (has_ended(job.status) || left <= 0) return job;
      MutexLock lock(mutex_);
      (void)changed_.wait_for(mutex_, std::chrono::nanoseconds(left),
                              [&]() FALAJ_REQUIRES(mutex_) { return ends_ != seen; });
    }
  }

 private:
  struct Running {
    exec::Child* child = nullptr;
    bool cancelled = false;
  };

  static exec::ChildExit stopped_exit() {
    exec::ChildExit exit;
    exit.reason = exec::ExitReason::kStopped;
    return exit;
  }

  void tell_waiters() {
    {
      MutexLock lock(mutex_);
      ++ends_;
    }
    changed_.notify_all();
  }

  std::uint64_t ends() const {
    MutexLock lock(mutex_);
    return ends_;
  }

  Handler* handler_of(const Job& job) const {
    const auto found = handlers_.find(job.spec.type);
    return found == handlers_.end() ? nullptr : found->second;
  }

  void work() {
    while (true) {
      JobId id;
      {
        MutexLock lock(mutex_);
        changed_.wait(mutex_,
                      [this]() FALAJ_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        id = waiting_.front();
        waiting_.pop_front();
        running_[id] = Running{};
        gauges_.waiting.set(static_cast<double>(waiting_.size()));
        gauges_.running.set(static_cast<double>(running_.size()));
      }
      run(id);
      {
        MutexLock lock(mutex_);
        running_.erase(id);
        gauges_.running.set(static_cast<double>(running_.size()));
      }
      tell_waiters();
    }
  }

  void run(const JobId& id) {
    auto before = store_.get(id);
    if (!before.ok() || has_ended(before->status)) return;
    Handler* handler = handler_of(*before);
    if (handler == nullptr) {
      end(*before, JobStatus::kFailed, "no job has the type '" + before->spec.type + "'", {});
      return;
    }
    if (before->attempts >= before->spec.attempts_max) {
      // The server died during its last attempt: the process died with it.
      exec::ChildExit exit;
      exit.reason = exec::ExitReason::kSignalled;
      exit.code = kSigkill;
      settle(*before, handler->finish(*before, exit, work_dir(*before)));
      return;
    }
    auto job = store_.begin_attempt(id);
    if (!job.ok()) {
      log::error("job not started", {{"job", id.str()}, {"error", job.error().message}});
      return;
    }
    attempt(*job, *handler);
  }

  std::string work_dir(const Job& job) const {
    return options_.work_folder + "/" + job.id.str() + "-" + std::to_string(job.attempts);
  }

  void attempt(const Job& job, Handler& handler) {
    const std::string folder = work_dir(job);
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    std::filesystem::create_directories(folder, error);
    Result<exec::ChildSpec> spec =
        error ? Error(ErrorId::kDataFolderFull,
                      "cannot create the job's folder " + folder + ": " + error.message())
              : handler.prepare(job, folder);
    if (!spec.ok()) {
      end(job, JobStatus::kFailed, describe(spec.error()), {});
      return;
    }
    auto exit = run_child(job, handler, folder, *std::move(spec));
    conclude(job, handler, folder, exit.ok() ? *exit : not_started(folder, exit.error()));
    std::filesystem::remove_all(folder, error);  // The log beside it stays.
  }

  Result<exec::ChildExit> run_child(const Job& job, Handler& handler, const std::string& folder,
                                    exec::ChildSpec spec) {
    if (spec.work_dir.empty()) spec.work_dir = folder;
    if (spec.log_path.empty()) spec.log_path = log_path(folder);
    spec.on_line = [&](std::string_view line) { report(job, handler, line); };
    const std::unique_ptr<exec::Child> child = FALAJ_TRY(exec::Child::start(std::move(spec)));
    {
      MutexLock lock(mutex_);
      Running& running = running_[job.id];
      running.child = child.get();
      if (running.cancelled || stopping_) child->stop();
    }
    const exec::ChildExit exit = child->wait();
    MutexLock lock(mutex_);
    running_[job.id].child = nullptr;
    return exit;
  }

  // As a shell would say it; the reason stands in the log, where check_exit finds it.
  static exec::ChildExit not_started(const std::string& folder, const Error& error) {
    std::ofstream(log_path(folder), std::ios::app) << error.message << '\n';
    exec::ChildExit exit;
    exit.code = kNotStarted;
    return exit;
  }

  // A process may write anything: what is no JSON object is counted and left out.
  void report(const Job& job, Handler& handler, std::string_view line) {
    const auto value = parse_json(line);
    if (value.ok() && value->is_object()) {
      handler.on_report(job, *value);
      return;
    }
    gauges_.malformed.add();
    log::warn("job report malformed", {{"job", job.id.str()}, {"bytes", line.size()}});
  }

  void conclude(const Job& job, Handler& handler, const std::string& folder,
                const exec::ChildExit& exit) {
    bool cancelled = false;
    bool stopping = false;
    {
      MutexLock lock(mutex_);
      cancelled = running_[job.id].cancelled;
      stopping = stopping_;
    }
    if (cancelled) {
      (void)handler.finish(job, stopped_exit(), folder);
      end(job, JobStatus::kCancelled, "cancelled while it ran", {});
      return;
    }
    if (stopping && exit.reason == exec::ExitReason::kStopped) {
      // The server goes down: not the job's fault, so the attempt is given back.
      note(store_.requeue(job.id, job.attempts - 1, ""), job);
      MutexLock lock(mutex_);
      waiting_.push_front(job.id);
      return;
    }
    settle(job, handler.finish(job, exit, folder));
  }

  void settle(const Job& job, Handler::Outcome outcome) {
    if (outcome.result.ok()) {
      end(job, JobStatus::kSucceeded, "", *outcome.result);
      return;
    }
    const std::string error = describe(outcome.result.error());
    if (!outcome.retry || job.attempts >= job.spec.attempts_max) {
      end(job, JobStatus::kFailed, error, {});
      return;
    }
    log::warn("job tried again", {{"job", job.id.str()}, {"attempt", job.attempts}});
    const Status queued = store_.requeue(job.id, job.attempts, error);
    note(queued, job);
    if (!queued.ok()) return;
    MutexLock lock(mutex_);
    waiting_.push_back(job.id);
  }

  static std::string describe(const Error& error) {
    return to_string(error.id) + ": " + error.message;
  }

  void end(const Job& job, JobStatus status, const std::string& error, const Value& result) {
    note(store_.end(queue_context(job), job.id, status, error, result), job);
    count_end(job, status);
  }

  void count_end(const Job& job, JobStatus status) {
    metrics_.counter(kEnded, {job.spec.type, std::string(status_name(status))}).add();
  }

  // The store refused: the job stays as it was and is tried again at the next start.
  static void note(const Status& status, const Job& job) {
    if (status.ok()) return;
    log::error("job state not written", {{"job", job.id.str()}, {"error", status.error().message}});
  }

  QueueOptions options_;
  JobStore store_;
  telemetry::Metrics& metrics_;
  Gauges gauges_;
  std::map<std::string, Handler*, std::less<>> handlers_;  // Fixed before start().

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::deque<JobId> waiting_ FALAJ_GUARDED_BY(mutex_);
  std::map<JobId, Running> running_ FALAJ_GUARDED_BY(mutex_);
  std::vector<std::thread> workers_ FALAJ_GUARDED_BY(mutex_);
  std::size_t arriving_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t ends_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool stopping_ FALAJ_GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<Queue>> Queue::open(const QueueOptions& options, storage::SqlStore& sql,
                                           security::Audit& audit, telemetry::Metrics& metrics,
                                           const Clock& clock) {
  auto queue = std::make_unique<LocalQueue>(options, sql, audit, metrics, clock);
  FALAJ_TRY(queue->recover());
  return std::unique_ptr<Queue>(std::move(queue));
}

}  // namespace falaj::jobs
