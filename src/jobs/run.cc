// What a worker does with an engine job.
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "jobs/exit_error.h"
#include "jobs/internal/local_queue.h"

namespace falaj::jobs::internal {
namespace {

constexpr int kSigkill = 9;
constexpr std::size_t kLogShown = 64 * 1024;

// What a job asks for as long as it waits.
Verdict::Place least_of(const Candidate& candidate) {
  const auto& workers = candidate.request.workers;
  return {0, 0, workers ? workers->min : 1};
}

}  // namespace

void LocalQueue::work() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      tasked_.wait(mutex_,
                   [this]() FALAJ_REQUIRES(mutex_) { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    Next next = task.end ? finish_command({task.id, task.attempt}, *task.end) : run(task.id);
    if (next == Next::kHeld) continue;
    while (!release(task.id, next)) next = end_cancelled(task.id);
    tell_waiters(task.id);
  }
}

// A worker lets go of a job; only then may another one take it. False when it would go back into
// the queue but was cancelled at the last moment.
bool LocalQueue::release(const JobId& id, Next next) {
  end_identity(id);  // Before another worker can begin the next attempt.
  {
    MutexLock lock(mutex_);
    if (next != Next::kDone && running_[id].cancelled && !unwritten_.contains(id) && !stopping_) {
      return false;
    }
    const auto at = line_.find(id);
    if (at != line_.end()) remember(at->second, running_[id]);
    const auto resized = next == Next::kFront ? running_[id].resize : std::nullopt;
    running_.erase(id);
    if (at != line_.end() && next != Next::kDone) {
      set_waiting(at->second, Stage::kWaiting);
      seat(at->second, resized ? *resized : least_of(at->second));
      if (resized) set_waiting(at->second, Stage::kClaimed);
      if (next == Next::kBack) {
        at->second.sequence = ++sequence_;
        at->second.queued_at = clock_.now();
      }
    } else if (at != line_.end()) {
      set_waiting(at->second, Stage::kRunning);  // So that it is not counted any more.
      count_tags(at->second, -1);
      line_.erase(at);
      unmet_.erase(id);
      why_.erase(id);
    }
    dirty_ = true;
    show_counts();
  }
  asked_.notify_all();
  return true;
}

void LocalQueue::note_beginning(const JobId& id) {
  MutexLock lock(mutex_);
  running_[id].began = clock_.now();
  running_[id].decision.reset();
}

// What an attempt used is written into the ledger as it ends; job_events say the same at a start.
void LocalQueue::remember(Candidate& job, const Running& running) {
  if (running.began == Timestamp{}) return;
  const Timestamp now = clock_.now();
  ledger_.add({job.project, job.request, running.began, now, running.ended});
  Ledger::charge(job, job.request, now - running.began);
}

LocalQueue::Next LocalQueue::run(const JobId& id) {
  if (const auto next = run_at_once(id)) return *next;
  const auto before = retried([&] { return store_.get(id); });
  if (!before.ok()) {
    log::error("job not read", {{"job", id.str()}, {"error", before.error().message}});
    return before.error().code == Code::kNotFound ? Next::kDone : Next::kBack;
  }
  if (has_ended(before->status)) return Next::kDone;
  if (const auto ending = take_unwritten(id)) {
    return end(*before, ending->status, ending->error, ending->result);
  }
  if (is_cancelled(id)) return end_cancelled(id);
  Handler* handler = handler_of(*before);
  if (handler == nullptr && !runs_command(*before)) {
    return end(*before, JobStatus::kFailed, "no job has the type '" + before->spec.type + "'", {});
  }
  if (before->status == JobStatus::kRunning &&
      !take_back(*before, before->attempts, before->error)) {
    return Next::kBack;
  }
  if (handler != nullptr && before->attempts >= before->spec.attempts_max) {
    // The server died during its last attempt: the process died with it.
    exec::ChildExit exit;
    exit.reason = exec::ExitReason::kSignalled;
    exit.code = kSigkill;
    return settle(*before, handler->finish(*before, exit, work_dir(*before)));
  }
  auto job = retried([&] { return begin(id); });
  if (job.ok()) note_beginning(id);
  if (job.ok()) return handler == nullptr ? start_command(*job) : attempt(*job, *handler);
  log::error("job not started", {{"job", id.str()}, {"error", job.error().message}});
  if (job.error().code == Code::kConflict) return Next::kDone;  // Ended meanwhile.
  if (is_stopping()) return Next::kFront;
  return handler == nullptr ? Next::kBack : give_up(*before, *handler, job.error());
}

std::string LocalQueue::work_dir(const Job& job) const {
  return options_.work_folder + "/" + job.id.str() + "-" + std::to_string(job.attempts);
}

LocalQueue::Next LocalQueue::attempt(const Job& job, Handler& handler) {
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
  keep_log(job, {exit.ok() ? last_bytes(exit->output, kLogShown) : exit.error().message + "\n", 0});
  const Next next =
      exit.ok() ? conclude(job, handler, folder, *exit) : give_up(job, handler, exit.error());
  std::filesystem::remove_all(folder, error);
  return next;
}

// For people: the job's end does not depend on it.
void LocalQueue::keep_log(const Job& job, const JobStore::Log& log) {
  if (log.text.empty()) return;  // It has none yet.
  note(store_.keep_log(job.id, log), job);
}

// There is no process and there will be none.
LocalQueue::Next LocalQueue::give_up(const Job& job, Handler& handler, const Error& error) {
  if (is_cancelled(job.id)) return end_cancelled(job.id);
  handler.abandoned(job, error);
  return end(job, JobStatus::kFailed, describe(error), {});
}

LocalQueue::Next LocalQueue::end_cancelled(const JobId& id) {
  const auto job = retried([&] { return store_.get(id); });
  if (!job.ok()) return Next::kBack;
  if (has_ended(job->status)) return Next::kDone;
  if (Handler* handler = handler_of(*job); handler != nullptr) {
    (void)handler->finish(*job, stopped_exit(), work_dir(*job));
  }
  return end(*job, JobStatus::kCancelled, "cancelled while it ran", {});
}

Result<exec::ChildExit> LocalQueue::run_child(const Job& job, Handler& handler,
                                              const std::string& folder, exec::ChildSpec spec) {
  if (spec.work_dir.empty()) spec.work_dir = folder;
  spec.on_line = [&](std::string_view line) { report(job, handler, line); };
  const std::unique_ptr<exec::Child> child = FALAJ_TRY(exec::Child::start(std::move(spec)));
  {
    MutexLock lock(mutex_);
    Running& running = running_[job.id];
    running.child = child.get();
    if (running.cancelled || running.preempted || stopping_) child->stop();
  }
  const exec::ChildExit exit = child->wait();
  MutexLock lock(mutex_);
  running_[job.id].child = nullptr;
  return exit;
}

// A process may write anything: what is no JSON object is counted and left out.
void LocalQueue::report(const Job& job, Handler& handler, std::string_view line) {
  const auto value = parse_json(line);
  if (value.ok() && value->is_object()) {
    handler.on_report(job, *value);
    return;
  }
  gauges_.malformed.add();
  log::warn("job report malformed", {{"job", job.id.str()}, {"bytes", line.size()}});
}

LocalQueue::Next LocalQueue::conclude(const Job& job, Handler& handler, const std::string& folder,
                                      const exec::ChildExit& exit) {
  if (is_cancelled(job.id)) return end_cancelled(job.id);
  if (exit.reason == exec::ExitReason::kStopped) {
    // The server goes down, or another job needs the room: not the job's fault, so the attempt is
    // given back.
    const bool stopping = is_stopping();
    (void)take_back(job, job.attempts - 1, stopping ? "" : "preempted");
    return Next::kFront;
  }
  return settle(job, handler.finish(job, exit, folder));
}

LocalQueue::Next LocalQueue::settle(const Job& job, const Handler::Outcome& outcome) {
  if (outcome.result.ok()) return end(job, JobStatus::kSucceeded, "", *outcome.result);
  const std::string error = describe(outcome.result.error());
  if (!outcome.retry || job.attempts >= job.spec.attempts_max) {
    return end(job, JobStatus::kFailed, error, {});
  }
  log::warn("job tried again", {{"job", job.id.str()}, {"attempt", job.attempts}});
  (void)take_back(job, job.attempts, error);  // If refused now, run() asks again.
  return Next::kBack;
}

// running → queued. False when the store refuses.
bool LocalQueue::take_back(const Job& job, int attempts, const std::string& error) {
  const Status queued = retried([&] { return store_.requeue(newest(job), attempts, error); });
  note(queued, job);
  return queued.ok();
}

// An end that the store refuses is kept, and written when the job's turn comes again.
LocalQueue::Next LocalQueue::end(const Job& job, JobStatus status, const std::string& error,
                                 const Value& result) {
  tell_companion(job, status, error);
  const Status ended =
      retried([&] { return store_.end(queue_context(job), newest(job), status, error, result); });
  note(ended, job);
  if (!ended.ok() && ended.error().code != Code::kConflict) {
    MutexLock lock(mutex_);
    unwritten_[job.id] = Ending{status, error, result};
    return Next::kBack;
  }
  count_end(job, status, error);
  return Next::kDone;
}

std::optional<LocalQueue::Ending> LocalQueue::take_unwritten(const JobId& id) {
  MutexLock lock(mutex_);
  auto node = unwritten_.extract(id);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

Result<std::string> LocalQueue::log_tail(const JobId& id, int attempt) const {
  if (attempt != 0) {
    const Job job = FALAJ_TRY(store_.get(id));
    if (attempt != job.epoch) return FALAJ_TRY(store_.earlier_log({id, attempt})).text;
  }
  const LogPart part = FALAJ_TRY(log_from(id, 0, -1));
  return part.text;
}

}  // namespace falaj::jobs::internal
