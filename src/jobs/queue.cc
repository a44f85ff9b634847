#include "jobs/queue.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "jobs/exit_error.h"
#include "jobs/internal/job_store.h"
#include "jobs/internal/waits.h"

namespace falaj::jobs {
namespace {

using internal::has_ended;
using internal::JobStore;

constexpr int kAttemptsMost = 100;
constexpr int kSigkill = 9;
constexpr std::size_t kLogShown = 64 * 1024;

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
      : options_(options),
        store_(sql, audit, clock),
        metrics_(metrics),
        gauges_(metrics),
        waits_([this](const JobId& id) { return store_.get(id); }, options.waits) {
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
    waits_.stop();
  }

  Status room(const ProjectName& project) const override {
    {
      MutexLock lock(mutex_);
      if (is_full()) return full();
    }
    return store_.room(project);
  }
  Result<std::int64_t> in_flight(const ProjectName& project) const override {
    return store_.in_flight(project);
  }

  Result<JobId> submit(const security::RequestContext& context, JobSpec spec) override {
    if (!handlers_.contains(spec.type)) {
      return Error(Code::kInvalidArgument, "no job has the type '" + spec.type + "'");
    }
    spec.project = context.project.str();
    spec.attempts_max = std::clamp(spec.attempts_max, 1, kAttemptsMost);
    {
      MutexLock lock(mutex_);
      if (is_full()) return full();
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
    const Place place = has_ended(job.status) ? Place::kOver : take_for_cancel(id);
    if (place == Place::kOver) {
      return Error(Code::kConflict, "job " + id.str() + " has ended: there is nothing to cancel");
    }
    if (place == Place::kRunning) return store_.record_cancel(context, job);
    // No worker has it: nobody else will tell its handler.
    const Status ended =
        store_.end(context, id, JobStatus::kCancelled, "cancelled before it ran", {});
    if (!ended.ok()) {
      if (place == Place::kWaiting) (void)release(id, Next::kBack);
      return ended;
    }
    if (Handler* handler = handler_of(job); handler != nullptr) {
      (void)handler->finish(job, stopped_exit(), "");
    }
    count_end(job, JobStatus::kCancelled);
    tell_waiters(id);
    return {};
  }

  Result<Job> get(const JobId& id) const override { return store_.get(id); }
  Result<std::vector<Job>> list(const ProjectName& project) const override {
    return store_.list(project);
  }
  Result<std::string> log_tail(const JobId& id) const override {
    {
      MutexLock lock(mutex_);
      const auto running = running_.find(id);
      if (running != running_.end() && running->second.child != nullptr) {
        return last_bytes(running->second.child->output(), kLogShown);
      }
    }
    return store_.log(id);
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

  Status when_ended(std::string_view who, const JobId& id, Duration limit, Then then) override {
    return waits_.add(who, id, limit, std::move(then));
  }

 private:
  struct Running {
    exec::Child* child = nullptr;
    bool cancelled = false;
  };
  // How a job's time with a worker ended: for good, or back into the queue at one of its ends.
  enum class Next : std::uint8_t { kDone, kFront, kBack };
  enum class Place : std::uint8_t { kRunning, kWaiting, kNowhere, kOver };
  struct Ending {
    JobStatus status;
    std::string error;
    Value result;
  };

  static exec::ChildExit stopped_exit() {
    exec::ChildExit exit;
    exit.reason = exec::ExitReason::kStopped;
    return exit;
  }

  bool is_full() const FALAJ_REQUIRES(mutex_) {
    return waiting_.size() + arriving_ >= options_.waiting_max;
  }
  Error full() const {
    return {ErrorId::kQueueFull, std::to_string(options_.waiting_max) +
                                     " jobs wait already; try again when some have ended, or "
                                     "cancel some"};
  }

  void tell_waiters(const JobId& id) {
    {
      MutexLock lock(mutex_);
      ++ends_;
    }
    changed_.notify_all();
    waits_.changed(id);
  }

  std::uint64_t ends() const {
    MutexLock lock(mutex_);
    return ends_;
  }

  Handler* handler_of(const Job& job) const {
    const auto found = handlers_.find(job.spec.type);
    return found == handlers_.end() ? nullptr : found->second;
  }

  // Marks a running job as cancelled, takes a waiting one out.
  Place take_for_cancel(const JobId& id) {
    MutexLock lock(mutex_);
    if (unwritten_.contains(id)) return Place::kOver;
    if (const auto found = running_.find(id); found != running_.end()) {
      found->second.cancelled = true;
      if (found->second.child != nullptr) found->second.child->stop();
      return Place::kRunning;
    }
    const auto at = std::find(waiting_.begin(), waiting_.end(), id);
    if (at == waiting_.end()) return Place::kNowhere;
    waiting_.erase(at);
    gauges_.waiting.set(static_cast<double>(waiting_.size()));
    return Place::kWaiting;
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
      Next next = run(id);
      while (!release(id, next)) next = end_cancelled(id);
      tell_waiters(id);
    }
  }

  // A worker lets go of a job; only then may another one take it. False when it would go back into
  // the queue but was cancelled at the last moment.
  bool release(const JobId& id, Next next) {
    {
      MutexLock lock(mutex_);
      if (next != Next::kDone && running_[id].cancelled && !unwritten_.contains(id) && !stopping_) {
        return false;
      }
      running_.erase(id);
      if (next == Next::kFront) waiting_.push_front(id);
      if (next == Next::kBack) waiting_.push_back(id);
      gauges_.running.set(static_cast<double>(running_.size()));
      gauges_.waiting.set(static_cast<double>(waiting_.size()));
    }
    changed_.notify_all();
    return true;
  }

  // Calls until it is ok, or the error is one that time does not mend, or patience or the server's
  // time is over. For the store: a full disk or a lock may pass.
  template <class Call>
  auto retried(Call call) -> decltype(call()) {
    std::int64_t wait = options_.write_wait.nanos;
    for (int tried = 1;; ++tried, wait *= 2) {
      auto result = call();
      if (result.ok() || tried >= options_.writes_max) return result;
      const Code code = result.error().code;
      if (code == Code::kNotFound || code == Code::kConflict) return result;
      MutexLock lock(mutex_);
      if (changed_.wait_for(mutex_, std::chrono::nanoseconds(wait),
                            [this]() FALAJ_REQUIRES(mutex_) { return stopping_; })) {
        return result;
      }
    }
  }

  Next run(const JobId& id) {
    const auto before = retried([&] { return store_.get(id); });
    if (!before.ok()) {
      log::error("job not read", {{"job", id.str()}, {"error", before.error().message}});
      return before.error().code == Code::kNotFound ? Next::kDone : Next::kBack;
    }
    if (has_ended(before->status)) return Next::kDone;
    if (const auto ending = take_unwritten(id)) {
      return end(*before, ending->status, ending->error, ending->result);
    }
    Handler* handler = handler_of(*before);
    if (handler == nullptr) {
      return end(*before, JobStatus::kFailed, "no job has the type '" + before->spec.type + "'",
                 {});
    }
    if (before->status == JobStatus::kRunning && !take_back(*before, before->error)) {
      return Next::kBack;
    }
    if (before->attempts >= before->spec.attempts_max) {
      // The server died during its last attempt: the process died with it.
      exec::ChildExit exit;
      exit.reason = exec::ExitReason::kSignalled;
      exit.code = kSigkill;
      return settle(*before, handler->finish(*before, exit, work_dir(*before)));
    }
    auto job = retried([&] { return store_.begin_attempt(id); });
    if (job.ok()) return attempt(*job, *handler);
    log::error("job not started", {{"job", id.str()}, {"error", job.error().message}});
    if (job.error().code == Code::kConflict) return Next::kDone;  // Ended meanwhile.
    return is_stopping() ? Next::kFront : give_up(*before, *handler, job.error());
  }

  std::string work_dir(const Job& job) const {
    return options_.work_folder + "/" + job.id.str() + "-" + std::to_string(job.attempts);
  }

  Next attempt(const Job& job, Handler& handler) {
    const std::string folder = work_dir(job);
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    std::filesystem::create_directories(folder, error);
    if (error) {
      return give_up(job, handler,
                     Error(ErrorId::kDataFolderFull,
                           "cannot create the job's folder " + folder + ": " + error.message()));
    }
    Result<exec::ChildSpec> spec = handler.prepare(job, folder);
    if (!spec.ok()) return give_up(job, handler, spec.error());
    const auto exit = run_child(job, handler, folder, *std::move(spec));
    keep_log(job, exit.ok() ? last_bytes(exit->output, kLogShown) : exit.error().message + "\n");
    const Next next =
        exit.ok() ? conclude(job, handler, folder, *exit) : give_up(job, handler, exit.error());
    std::filesystem::remove_all(folder, error);
    return next;
  }

  // For people: the job's end does not depend on it.
  void keep_log(const Job& job, const std::string& text) {
    if (text.empty() && job.attempts == 1) return;  // It has none yet.
    note(store_.keep_log(job.id, text), job);
  }

  // There is no process and there will be none.
  Next give_up(const Job& job, Handler& handler, const Error& error) {
    if (is_cancelled(job.id)) return end_cancelled(job.id);
    handler.abandoned(job, error);
    return end(job, JobStatus::kFailed, describe(error), {});
  }

  Next end_cancelled(const JobId& id) {
    const auto job = retried([&] { return store_.get(id); });
    if (!job.ok()) return Next::kBack;
    if (has_ended(job->status)) return Next::kDone;
    if (Handler* handler = handler_of(*job); handler != nullptr) {
      (void)handler->finish(*job, stopped_exit(), work_dir(*job));
    }
    return end(*job, JobStatus::kCancelled, "cancelled while it ran", {});
  }

  Result<exec::ChildExit> run_child(const Job& job, Handler& handler, const std::string& folder,
                                    exec::ChildSpec spec) {
    if (spec.work_dir.empty()) spec.work_dir = folder;
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

  Next conclude(const Job& job, Handler& handler, const std::string& folder,
                const exec::ChildExit& exit) {
    if (is_cancelled(job.id)) return end_cancelled(job.id);
    if (is_stopping() && exit.reason == exec::ExitReason::kStopped) {
      // The server goes down: not the job's fault, so the attempt is given back.
      Job as_before = job;
      --as_before.attempts;
      (void)take_back(as_before, "");
      return Next::kFront;
    }
    return settle(job, handler.finish(job, exit, folder));
  }

  Next settle(const Job& job, const Handler::Outcome& outcome) {
    if (outcome.result.ok()) return end(job, JobStatus::kSucceeded, "", *outcome.result);
    const std::string error = describe(outcome.result.error());
    if (!outcome.retry || job.attempts >= job.spec.attempts_max) {
      return end(job, JobStatus::kFailed, error, {});
    }
    log::warn("job tried again", {{"job", job.id.str()}, {"attempt", job.attempts}});
    (void)take_back(job, error);  // If refused now, run() asks again.
    return Next::kBack;
  }

  // running → queued. False when the store refuses.
  bool take_back(const Job& job, const std::string& error) {
    const Status queued = retried([&] { return store_.requeue(job.id, job.attempts, error); });
    note(queued, job);
    return queued.ok();
  }

  static std::string describe(const Error& error) {
    return to_string(error.id) + ": " + error.message;
  }

  // An end that the store refuses is kept, and written when the job's turn comes again.
  Next end(const Job& job, JobStatus status, const std::string& error, const Value& result) {
    const Status ended =
        retried([&] { return store_.end(queue_context(job), job.id, status, error, result); });
    note(ended, job);
    if (!ended.ok() && ended.error().code != Code::kConflict) {
      MutexLock lock(mutex_);
      unwritten_[job.id] = Ending{status, error, result};
      return Next::kBack;
    }
    count_end(job, status);
    return Next::kDone;
  }

  std::optional<Ending> take_unwritten(const JobId& id) {
    MutexLock lock(mutex_);
    auto node = unwritten_.extract(id);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  }

  bool is_cancelled(const JobId& id) const {
    MutexLock lock(mutex_);
    const auto found = running_.find(id);
    return found != running_.end() && found->second.cancelled;
  }

  bool is_stopping() const {
    MutexLock lock(mutex_);
    return stopping_;
  }

  void count_end(const Job& job, JobStatus status) {
    metrics_.counter(kEnded, {job.spec.type, std::string(status_name(status))}).add();
  }

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
  std::map<JobId, Ending> unwritten_ FALAJ_GUARDED_BY(mutex_);
  std::vector<std::thread> workers_ FALAJ_GUARDED_BY(mutex_);
  std::size_t arriving_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t ends_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool stopping_ FALAJ_GUARDED_BY(mutex_) = false;
  internal::Waits waits_;  // Last: its thread reads the store.
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
