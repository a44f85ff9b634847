#include "jobs/queue.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "base/log.h"
#include "jobs/capture.h"
#include "jobs/exit_error.h"
#include "jobs/internal/local_queue.h"

namespace falaj::jobs {
namespace internal {
namespace {

constexpr int kAttemptsMost = 100;
// Beginnings and ends of commands: mostly waiting for the store, which joins their commits.
constexpr unsigned kCommandWorkers = 12;
// Jobs whose past is looked at when the server starts.
constexpr std::int64_t kRemembered = 200'000;
constexpr auto kFirstLook = std::chrono::seconds(2);

const telemetry::MetricInfo kEnded{"falaj_jobs_ended_total",
                                   "Jobs that ended, by how.",
                                   telemetry::MetricKind::kCounter,
                                   {"type", "status"}};

// What attempts that are over took, out of the job's events.
void charge_earlier(Candidate& job, const std::vector<Event>& events) {
  const Event* began = nullptr;
  for (const Event& event : events) {
    if (event.kind == EventKind::kAdmitted) began = &event;
    if (event.kind != EventKind::kRequeued || began == nullptr) continue;
    Request given = job.request;
    give_workers(given, began->detail.integer("workers", 1));
    Ledger::charge(job, given, event.at - began->at);
    began = nullptr;
  }
}

}  // namespace

Gauges::Gauges(telemetry::Metrics& metrics)
    : waiting(metrics.gauge({"falaj_jobs_waiting",
                             "Jobs that wait to be admitted.",
                             telemetry::MetricKind::kGauge,
                             {}})),
      running(metrics.gauge({"falaj_jobs_running",
                             "Jobs that were admitted and have not ended.",
                             telemetry::MetricKind::kGauge,
                             {}})),
      malformed(metrics.counter({"falaj_jobs_reports_malformed_total",
                                 "Lines from job processes that were no JSON object.",
                                 telemetry::MetricKind::kCounter,
                                 {}})) {}

security::RequestContext queue_context(const Job& job) {
  return security::system_context("service:jobs", ProjectName(job.spec.project), Zone());
}

exec::ChildExit stopped_exit() {
  exec::ChildExit exit;
  exit.reason = exec::ExitReason::kStopped;
  return exit;
}

LocalQueue::LocalQueue(const QueueOptions& options, storage::SqlStore& sql, security::Audit& audit,
                       telemetry::Metrics& metrics, const Clock& clock)
    : options_(options),
      store_(sql, audit, clock, options.decisions_bytes_max),
      metrics_(metrics),
      clock_(clock),
      gauges_(metrics),
      waits_([this](const JobId& id) { return store_.get(id); }, options.waits) {
  // Children have another working folder: their paths may not be relative.
  options_.work_folder = std::filesystem::absolute(options_.work_folder).string();
  spares_ =
      std::make_unique<SpareFolders>(options_.work_folder + "-spare", std::string(kOutputFolder));
  options_.machine.engines_max = std::max(1u, options_.concurrency);
  metrics.declare(kEnded);
}

Status LocalQueue::recover() {
  std::error_code error;
  std::filesystem::create_directories(options_.work_folder, error);
  if (error) {
    return Error(ErrorId::kDataFolderReadOnly,
                 "cannot create the jobs' folder " + options_.work_folder + ": " + error.message());
  }
  const auto unfinished = FALAJ_TRY(store_.recover());
  const auto past = FALAJ_TRY(store_.attempts(clock_.now() - kLookBack, kRemembered));
  std::map<JobId, std::vector<Event>> before;  // Of those that may only cost so much.
  for (const JobStore::Unfinished& each : unfinished) {
    const bool capped = each.job.spec.request.cost_cap != scheduler::kUnlimited;
    if (capped && each.job.epoch > 0) before[each.job.id] = FALAJ_TRY(store_.events(each.job.id));
  }
  MutexLock lock(mutex_);
  for (const JobStore::Past& each : past) ledger_.add(each.spell);
  for (const JobStore::Unfinished& each : unfinished) enter(each);
  for (const auto& [id, events] : before) charge_earlier(line_[id], events);
  return {};
}

void LocalQueue::run_commands(Executor& executor, const CommandOptions& options) {
  executor_ = &executor;
  commands_ = options;
  {
    // Those that were there before did not know the limit of jobs that name none.
    MutexLock lock(mutex_);
    for (auto& [id, job] : line_) {
      const bool named = job.request.time_max.nanos > 0;
      if (job.runs == Runs::kCommand && !named) job.run_max = commands_.time_max;
    }
  }
  know_again();
}

void LocalQueue::start() {
  {
    MutexLock lock(mutex_);
    if (!threads_.empty()) return;
    stopping_ = false;
    dirty_ = true;
    executor_news_ = true;
    const unsigned workers =
        options_.machine.engines_max + (executor_ == nullptr ? 0 : kCommandWorkers);
    for (unsigned i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    threads_.emplace_back([this] { dispatch(); });
    threads_.emplace_back([this] { sweep(); });
  }
  if (executor_ == nullptr) return;
  executor_->when_changed([this] {
    MutexLock lock(mutex_);
    executor_news_ = true;
    asked_.notify_all();
  });
}

void LocalQueue::stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& [id, running] : running_) {
      if (running.child != nullptr) running.child->stop();
    }
    threads.swap(threads_);
  }
  // Once only: the executor may be gone when this is called again.
  if (executor_ != nullptr && !threads.empty()) executor_->when_changed({});
  changed_.notify_all();
  asked_.notify_all();
  decided_.notify_all();
  tasked_.notify_all();
  for (std::thread& thread : threads) thread.join();
  waits_.stop();
}

Status LocalQueue::room(const ProjectName& project) const {
  {
    MutexLock lock(mutex_);
    if (is_full()) return full();
  }
  return store_.room(project, 1);
}

Status LocalQueue::check_submission(const security::RequestContext& context, JobSpec& spec) const {
  const bool command = spec.type == kCommandType;
  if (command && executor_ == nullptr) {
    return Error(Code::kUnavailable, "nothing here runs commands");
  }
  if (options_.admits) FALAJ_TRY(options_.admits(context));
  FALAJ_TRY(check_data(context, spec.request));
  FALAJ_TRY(check_tags(spec.project, spec.request));
  if (command) FALAJ_TRY(check_limits(commands_, spec));
  if (command) FALAJ_TRY(check_departure(commands_, context, spec, Departure::kAsked));
  if (spec.request.deadline <= clock_.now()) {
    return Error(ErrorId::kOutOfRange, "the job's deadline " + to_rfc3339(spec.request.deadline) +
                                           " has passed; name a later one, or none");
  }
  Scene scene;
  auto sharing = FALAJ_TRY(store_.sharing());
  const std::string& named = spec.request.priority_class;
  if (!named.empty()) spec.request.priority = FALAJ_TRY(priority_of(sharing.policy, named));
  scene.machine = machine_as(sharing);
  scene.queues = std::move(sharing.queues);
  scene.policy = std::move(sharing.policy);
  Job job;
  job.spec = spec;
  FALAJ_TRY(check_cost(scene, candidate_of(job)));
  if (spec.request.after.empty()) return {};
  const auto found = FALAJ_TRY(store_.look_at(spec.project, spec.request.after));
  if (!found.unknown.empty()) {
    return Error(Code::kNotFound, "there is no job '" + found.unknown.front().str() +
                                      "' in project '" + spec.project +
                                      "' to come after; list the project's jobs");
  }
  if (!found.otherwise.empty()) {
    const After& after = found.otherwise.front();
    return Error(Code::kConflict, "job " + after.job.str() + ", which this one comes after, " +
                                      std::string(ended_otherwise(after.end)) +
                                      ": it would never start");
  }
  return {};
}

// Whether it could ever start; what it would cost is judged as the dispatcher does, by jobs like
// it.
Status LocalQueue::check_cost(Scene& scene, const Candidate& job) const {
  Candidate uncapped = job;
  uncapped.request.cost_cap = scheduler::kUnlimited;
  FALAJ_TRY(check_possible(scene, uncapped));
  if (job.request.cost_cap == scheduler::kUnlimited) return {};
  scene.jobs = {job};
  {
    MutexLock lock(mutex_);
    ledger_.inform(scene, clock_.now());
  }
  return check_possible(scene, scene.jobs.front());
}

Machine LocalQueue::machine_as(const JobStore::Sharing& sharing) const {
  Machine out = options_.machine;
  out.node = sharing.node;
  return out;
}

// Which of its data may not be computed on here now. What the gate said is kept in `said`.
std::vector<std::size_t> LocalQueue::barred(const std::string& project, const Request& request,
                                            GateSays& said) const {
  std::vector<std::size_t> out;
  if (!request.placement || !options_.may_hold) return out;
  const auto may = [&](const std::string& zone) {
    const auto [at, first] = said.try_emplace({project, zone}, false);
    if (first) at->second = options_.may_hold(project, Zone(zone));
    return at->second;
  };
  const auto& data = request.placement->data;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (std::none_of(data[i].zones.begin(), data[i].zones.end(), may)) out.push_back(i);
  }
  return out;
}

// The refusal is the gate's own, which enters it in the audit log.
Status LocalQueue::check_data(const security::RequestContext& context,
                              const Request& request) const {
  GateSays said_now;
  const auto refused = barred(context.project.str(), request, said_now);
  if (refused.empty()) return {};
  const DataReference& data = request.placement->data[refused.front()];
  security::RequestContext as = context;
  as.zone = Zone(data.zones.front());
  const Status said = options_.admits ? options_.admits(as) : Status();
  const std::string what = "the job's data '" + data.name + "'";
  if (!said.ok()) return said.error().within(what);
  return Error(ErrorId::kZoneRefused,
               what + " may be in " + data.zones.front() + ", and this machine is not");
}

Status LocalQueue::check_tags(const std::string& project, const Request& request) const {
  if (!request.placement) return {};
  std::set<std::string> fresh;
  MutexLock lock(mutex_);
  const auto known = sought_.find(project);
  const std::size_t before = known == sought_.end() ? 0 : known->second.size();
  for (const auto* list : {&request.placement->avoid, &request.placement->near}) {
    for (const std::string& tag : *list) {
      if (before == 0 || !known->second.contains(tag)) fresh.insert(tag);
    }
  }
  if (fresh.empty() || before + fresh.size() <= kProjectTagsMax) return {};
  return Error(ErrorId::kQueueFull,
               "jobs of project '" + project + "' that wait or run avoid, or are near to, " +
                   std::to_string(before) + " tags already, and " +
                   std::to_string(kProjectTagsMax) +
                   " are the most; use one of theirs, or try again when some have ended");
}

// Counts the tags that a job of the line seeks, or counts them no more.
void LocalQueue::count_tags(const Candidate& job, int by) {
  if (!job.request.placement) return;
  auto& tags = sought_[job.project];
  for (const auto* list : {&job.request.placement->avoid, &job.request.placement->near}) {
    for (const std::string& tag : *list) {
      if ((tags[tag] += by) <= 0) tags.erase(tag);
    }
  }
  if (tags.empty()) sought_.erase(job.project);
}

// Whatever may refuse it comes before its runtime is looked up: that may begin a build.
Status LocalQueue::settle_submission(const security::RequestContext& context, JobSpec& spec,
                                     std::size_t count) const {
  if (spec.type == kCommandType) fit_workers(commands_, spec.request);
  FALAJ_TRY(check_submission(context, spec));
  FALAJ_TRY(store_.room(context.project, count));
  if (spec.type != kCommandType) return {};
  if (commands_.resolve) FALAJ_TRY(commands_.resolve(context, spec));
  return check_program(spec);
}

Candidate LocalQueue::candidate_of(const Job& job) const {
  Candidate out;
  out.id = job.id;
  out.project = job.spec.project;
  out.request = job.spec.request;
  out.runs = job.spec.type == kCommandType ? Runs::kCommand : Runs::kEngine;
  out.queued_at = job.created_at;
  if (out.runs == Runs::kCommand) {
    out.run_max = out.request.time_max.nanos > 0 ? out.request.time_max : commands_.time_max;
  }
  return out;
}

void LocalQueue::show_counts() {
  gauges_.waiting.set(static_cast<double>(waiting_));
  gauges_.running.set(static_cast<double>(running_.size()));
}

// A job joins those that wait; a command that runs already is the executor's, which is asked to
// stop it when it was cancelled (collect_ends). Of any other cancelled one a worker writes the end.
void LocalQueue::enter(const JobStore::Unfinished& entering) {
  const auto& [job, cancelled, began, grant] = entering;
  Candidate candidate = candidate_of(job);
  candidate.sequence = ++sequence_;
  if (job.status == JobStatus::kRunning || cancelled) {
    candidate.stage = Stage::kRunning;
    candidate.started_at = began == Timestamp{} ? clock_.now() : began;
    candidate.gpus = grant.gpus;
    candidate.workers = grant.workers;
    candidate.numa = grant.numa;
    candidate.mig_start = grant.mig_start;
    Running& running = running_[job.id];
    if (job.status == JobStatus::kRunning) running.began = began;
    running.cancelled = cancelled;
    if (job.status == JobStatus::kRunning && job.spec.type == kCommandType) {
      running.attempt = AttemptId{job.id, job.epoch};
      running.told = round_;
    } else {
      tasks_.push_back({job.id, {}, 0});
    }
  } else {
    ++waiting_;
    if (!job.spec.request.after.empty()) unmet_[job.id] = job.spec.request.after;
  }
  count_tags(candidate, 1);
  line_[job.id] = std::move(candidate);
  dirty_ = true;
  show_counts();
}

Result<JobId> LocalQueue::submit(const security::RequestContext& context, JobSpec spec) {
  std::vector<JobId> ids = FALAJ_TRY(submit_array(context, std::move(spec), 1));
  return std::move(ids.front());
}

Result<std::vector<JobId>> LocalQueue::submit_array(const security::RequestContext& context,
                                                    JobSpec spec, std::size_t count) {
  if (spec.type != kCommandType && !handlers_.contains(spec.type)) {
    return Error(Code::kInvalidArgument, "no job has the type '" + spec.type + "'");
  }
  if (count < 1 || count > kArrayMax) {
    return Error(ErrorId::kOutOfRange, "an array has 1 to " + std::to_string(kArrayMax) +
                                           " members, not " + std::to_string(count) +
                                           ": submit several");
  }
  spec.project = context.project.str();
  spec.attempts_max = std::clamp(spec.attempts_max, 1, kAttemptsMost);
  spec.request.array =
      count > 1 && spec.request.running_max > 0 ? new_ulid(clock_.now()) : std::string();
  {
    MutexLock lock(mutex_);
    if (waiting_ + arriving_ + count > options_.waiting_max) return full();
    arriving_ += count;
  }
  const Status possible = settle_submission(context, spec, count);
  auto jobs = possible.ok() ? store_.insert(context, std::move(spec), count)
                            : Result<std::vector<Job>>(possible.error());
  std::vector<JobId> ids;
  {
    MutexLock lock(mutex_);
    arriving_ -= count;
    if (!jobs.ok()) return std::move(jobs).error();
    for (Job& job : *jobs) {
      ids.push_back(job.id);
      enter({.job = std::move(job)});
    }
  }
  asked_.notify_all();
  return ids;
}

Status LocalQueue::cancel(const security::RequestContext& context, const JobId& id) {
  Job job = FALAJ_TRY(store_.get(id));
  const Place place = has_ended(job.status) ? Place::kOver : take_for_cancel(id);
  if (place == Place::kOver) {
    return Error(Code::kConflict, "job " + id.str() + " has ended: there is nothing to cancel");
  }
  if (place == Place::kRunning) {
    stop_process(id);
    return store_.record_cancel(context, job);
  }
  // No worker has it: nobody else will tell its handler. It may have run since it was read.
  auto now = store_.get(id);
  if (now.ok()) job = std::move(*now);
  const Status ended =
      store_.end(context, newest(job), JobStatus::kCancelled, "cancelled before it ran", {});
  if (!ended.ok()) {
    if (place == Place::kWaiting) put_back(id);
    return ended;
  }
  if (place == Place::kWaiting) (void)release(id, Next::kDone);
  if (Handler* handler = handler_of(job); handler != nullptr) {
    (void)handler->finish(job, stopped_exit(), "");
  }
  tell_companion(job, JobStatus::kCancelled, "cancelled before it ran");
  count_end(job, JobStatus::kCancelled, "");
  tell_waiters(id);
  return {};
}

Result<std::vector<Event>> LocalQueue::events(const JobId& id) const {
  FALAJ_TRY(store_.get(id));
  return store_.events(id);
}

Result<Why> LocalQueue::why(const JobId& id) const {
  Job job = FALAJ_TRY(store_.get(id));
  if (job.status == JobStatus::kQueued) {
    MutexLock lock(mutex_);
    // One that has just come will be looked at in a moment.
    (void)decided_.wait_for(mutex_, kFirstLook, [&]() FALAJ_REQUIRES(mutex_) {
      return stopping_ || why_.contains(id) || !line_.contains(id) || running_.contains(id);
    });
    const auto found = why_.find(id);
    if (found != why_.end()) return found->second;
  }
  job = FALAJ_TRY(store_.get(id));
  Why out;
  if (job.status == JobStatus::kQueued) {
    out.code = "new";
    out.text = "is about to start, or has not been looked at yet";
    return out;
  }
  out.code = status_name(job.status);
  out.text = job.status == JobStatus::kRunning ? "runs as attempt " + std::to_string(job.epoch)
             : job.error.empty()               ? "has ended: " + out.code
                                               : "has ended: " + out.code + ", " + job.error;
  if (job.status == JobStatus::kRunning && job.spec.request.workers) {
    out.text += " with " + workers_text(job.spec.request, grant_of(id).workers);
  }
  return out;
}

Result<std::vector<Usage>> LocalQueue::usage(const ProjectName& project) const {
  std::map<AttemptId, Attempt> attempts;
  if (executor_ != nullptr) {
    for (Attempt& attempt : FALAJ_TRY(executor_->list())) {
      attempts.emplace(attempt.id, std::move(attempt));
    }
  }
  std::vector<Usage> out;
  MutexLock lock(mutex_);
  for (const auto& [id, running] : running_) {
    const auto candidate = line_.find(id);
    if (candidate == line_.end() || candidate->second.project != project.str()) continue;
    Usage usage;
    usage.id = id;
    usage.project = candidate->second.project;
    usage.request = candidate->second.request;
    usage.started_at = candidate->second.started_at;
    if (running.attempt) {
      usage.attempt = running.attempt->attempt;
      if (const auto at = attempts.find(*running.attempt); at != attempts.end()) {
        usage.started_at = at->second.started_at;
        usage.memory_bytes = at->second.memory_bytes;
        usage.cpu_time = at->second.cpu_time;
      }
    }
    out.push_back(std::move(usage));
  }
  return out;
}

Result<Job> LocalQueue::wait(const JobId& id, Duration limit) const {
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

Error LocalQueue::full() const {
  return {ErrorId::kQueueFull, std::to_string(options_.waiting_max) +
                                   " jobs wait already; try again when some have ended, or "
                                   "cancel some"};
}

void LocalQueue::tell_waiters(const JobId& id) {
  {
    MutexLock lock(mutex_);
    ++ends_;
  }
  changed_.notify_all();
  waits_.changed(id);
}

std::uint64_t LocalQueue::ends() const {
  MutexLock lock(mutex_);
  return ends_;
}

Handler* LocalQueue::handler_of(const Job& job) const {
  const auto found = handlers_.find(job.spec.type);
  return found == handlers_.end() ? nullptr : found->second;
}

Companion* LocalQueue::companion_of(const Job& job) const {
  if (job.spec.type != kCommandType || !job.spec.payload.is_object()) return nullptr;
  const auto found = companions_.find(job.spec.payload.text("companion"));
  return found == companions_.end() ? nullptr : found->second;
}

Value LocalQueue::tell_companion(const Job& job, JobStatus status, const std::string& error) const {
  Companion* companion = companion_of(job);
  return companion == nullptr ? Value() : companion->ended(job, status, error);
}

// Marks a running job as cancelled, takes a waiting one out: it counts as running meanwhile.
LocalQueue::Place LocalQueue::take_for_cancel(const JobId& id) {
  MutexLock lock(mutex_);
  if (unwritten_.contains(id)) return Place::kOver;
  if (const auto found = running_.find(id); found != running_.end()) {
    found->second.cancelled = true;
    return Place::kRunning;
  }
  const auto at = line_.find(id);
  if (at == line_.end()) return Place::kNowhere;
  set_waiting(at->second, Stage::kRunning);
  running_[id] = Running{};
  show_counts();
  return Place::kWaiting;
}

// Its cancel could not be written: it waits as before.
void LocalQueue::put_back(const JobId& id) {
  {
    MutexLock lock(mutex_);
    running_[id].cancelled = false;
  }
  (void)release(id, Next::kFront);
}

bool LocalQueue::is_cancelled(const JobId& id) const {
  MutexLock lock(mutex_);
  const auto found = running_.find(id);
  return found != running_.end() && found->second.cancelled;
}

bool LocalQueue::is_stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void LocalQueue::count_end(const Job& job, JobStatus status, std::string_view error) {
  {
    MutexLock lock(mutex_);
    const auto at = running_.find(job.id);
    if (at != running_.end()) at->second.ended = how_ended(status_name(status), error);
  }
  metrics_.counter(kEnded, {job.spec.type, std::string(status_name(status))}).add();
}

void LocalQueue::note(const Status& status, const Job& job) {
  if (status.ok()) return;
  log::error("job state not written", {{"job", job.id.str()}, {"error", status.error().message}});
}

}  // namespace internal

Timestamp Companion::newest_checkpoint(const Job& /*job*/) const { return {}; }

Value to_value(const Usage& usage) {
  Value value;
  value["id"] = usage.id.str();
  value["project"] = usage.project;
  value["attempt"] = usage.attempt;
  value["request"] = to_value(usage.request);
  value["started_at"] = to_rfc3339(usage.started_at);
  value["memory_bytes"] = usage.memory_bytes == 0 ? Value() : Value(usage.memory_bytes);
  value["cpu_seconds"] = usage.cpu_time.nanos == 0 ? Value() : Value(usage.cpu_time.as_seconds());
  return value;
}

Result<std::unique_ptr<Queue>> Queue::open(const QueueOptions& options, storage::SqlStore& sql,
                                           security::Audit& audit, telemetry::Metrics& metrics,
                                           const Clock& clock) {
  auto queue = std::make_unique<internal::LocalQueue>(options, sql, audit, metrics, clock);
  FALAJ_TRY(queue->recover());
  return std::unique_ptr<Queue>(std::move(queue));
}

}  // namespace falaj::jobs
