// What a worker does with a command: tells the executor to start it, and writes down how it ended.
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "jobs/capture.h"
#include "jobs/internal/local_queue.h"
#include "jobs/internal/log_file.h"
#include "jobs/oci/bundle.h"
#include "jobs/post_mortem.h"
#include "jobs/reach.h"
#include "jobs/runtime.h"

namespace falaj::jobs::internal {
namespace {

// A job that is lost again and again is not tried for ever.
constexpr int kLossesMost = 100;

Value result_of(const AttemptEnd& end) {
  Value value;
  value["reason"] = end_reason_name(end.reason);
  value["exit_code"] = end.reason == EndReason::kExited ? Value(end.code) : Value();
  value["signal"] = end.reason == EndReason::kSignalled ? Value(end.code) : Value();
  value["cpu_seconds"] = end.cpu_time.as_seconds();
  value["memory_peak_bytes"] = end.memory_peak_bytes;
  value["log_bytes_cut"] = end.log_bytes_cut;
  return value;
}

// Another attempt may not meet it: the program itself failed, or somebody killed it. What ran out
// of memory or time would do so again.
bool may_pass(EndReason reason) {
  return reason == EndReason::kExited || reason == EndReason::kSignalled;
}

}  // namespace

Grant LocalQueue::grant_of(const JobId& id) const {
  MutexLock lock(mutex_);
  const auto at = line_.find(id);
  if (at == line_.end()) return {};
  const Candidate& own = at->second;
  return {own.gpus, own.workers, own.numa, own.mig_start, own.sequence};
}

// Writes down that an attempt begins, with the decision that admitted it.
Result<Job> LocalQueue::begin(const JobId& id) {
  DecisionRecordPtr decision;
  {
    MutexLock lock(mutex_);
    const auto found = running_.find(id);
    if (found != running_.end()) decision = found->second.decision;
  }
  return store_.begin_attempt(id, grant_of(id), decision);
}

LocalQueue::Next LocalQueue::start_command(const Job& job) {
  const AttemptId id = newest(job);
  const AttemptFiles files = attempt_files(options_.work_folder, id);
  std::error_code error;
  if (!spares_->take(files.work_dir)) {
    const std::string output = files.work_dir + "/" + std::string(kOutputFolder);
    std::filesystem::create_directories(output, error);
    for (const std::string& folder : {files.work_dir, output}) {
      if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    }
  }
  if (error) {
    return end(
        job, JobStatus::kFailed,
        describe(Error(ErrorId::kDataFolderFull, "cannot create the job's folder " +
                                                     files.work_dir + ": " + error.message())),
        {});
  }
  const Grant grant = grant_of(job.id);
  Work work = command_work(commands_, job, files, grant.gpus);
  give_part(job.spec.request, grant, work);
  if (Companion* companion = companion_of(job)) {
    const Status ready = companion->prepare(job, grant, work);
    if (!ready.ok()) return end(job, JobStatus::kFailed, describe(ready.error()), {});
  }
  // Again for every attempt: a transfer that it stood on may have ended while it waited.
  const Status may_leave = check_departure(
      commands_,
      security::system_context("job:" + job.id.str(), ProjectName(job.spec.project), job.spec.zone),
      job.spec, Departure::kBegins);
  if (!may_leave.ok()) return end(job, JobStatus::kFailed, describe(may_leave.error()), {});
  const Status known = give_identity(commands_, job, work);
  if (!known.ok()) return end(job, JobStatus::kFailed, describe(known.error()), {});
  if (const RuntimeUse runtime = runtime_of(job.spec.payload);
      runtime.form == RuntimeForm::kImage) {
    const Status ready = oci::prepare_bundle(
        commands_.program, {runtime.folder, commands_.oci_runtime, runtime.env}, work);
    if (!ready.ok()) return end(job, JobStatus::kFailed, describe(ready.error()), {});
  }
  {
    MutexLock lock(mutex_);
    running_[job.id].attempt = id;
    running_[job.id].job = std::make_shared<const Job>(job);
  }
  if (is_cancelled(job.id)) return end_cancelled(job.id);
  const Status started = retried([&] { return executor_->start(id, work); });
  if (!started.ok()) {
    log::error("job not started", {{"job", job.id.str()}, {"error", started.error().message}});
    (void)take_back(job, job.attempts - 1, describe(started.error()));
    return Next::kBack;
  }
  bool stop = false;
  {
    MutexLock lock(mutex_);
    const auto found = running_.find(job.id);
    if (found != running_.end() && found->second.attempt == id) {
      found->second.told = round_;
      stop = found->second.cancelled || found->second.preempted;
    }
  }
  if (stop) (void)executor_->stop(id);
  return Next::kHeld;
}

void LocalQueue::end_identity(const JobId& id) const {
  if (commands_.identity.end) commands_.identity.end(id);
}

// Attempts that an earlier server began, and that may still be running, are who they were.
void LocalQueue::know_again() {
  if (!commands_.identity.begin) return;
  std::vector<AttemptId> attempts;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, running] : running_) {
      if (running.attempt) attempts.push_back(*running.attempt);
    }
  }
  for (const AttemptId& id : attempts) {
    const auto job = store_.get(id.job);
    if (job.ok() && !may_be_known(*job)) continue;
    const auto token =
        job.ok() ? commands_.identity.begin(id, scopes_of(job->spec), submitter_of(job->spec),
                                            place_of(commands_, job->spec))
                 : Result<std::string>(job.error());
    if (!token.ok()) {
      log::warn("job's identity not taken up",
                {{"attempt", to_string(id)}, {"error", token.error().message}});
    }
  }
}

// The store refuses just now: the executor keeps the end until it was written down.
LocalQueue::Next LocalQueue::hold_for_later(const JobId& id) {
  MutexLock lock(mutex_);
  running_[id].finishing = false;
  running_[id].job.reset();  // The row may say something else by now.
  return Next::kHeld;
}

// The job of an attempt that ended: as it began, if this server began it and nothing is known to
// have changed it since (what is written is fenced by the attempt's number), else from the store.
Result<Job> LocalQueue::job_of(const AttemptId& id) {
  {
    MutexLock lock(mutex_);
    const auto found = running_.find(id.job);
    if (found != running_.end() && found->second.job && found->second.job->epoch == id.attempt) {
      return *found->second.job;
    }
  }
  auto job = retried([&] { return store_.get(id.job); });
  if (job.ok()) give_workers(job->spec.request, grant_of(id.job).workers);
  return job;
}

// The usual way of a command that was just admitted: it is queued, and that needs not be read
// first. Nothing when it is something else, or its row says so.
std::optional<LocalQueue::Next> LocalQueue::run_at_once(const JobId& id) {
  {
    MutexLock lock(mutex_);
    const auto at = line_.find(id);
    if (executor_ == nullptr || at == line_.end() || at->second.runs != Runs::kCommand ||
        unwritten_.contains(id) || running_[id].cancelled) {
      return std::nullopt;
    }
  }
  const auto job = begin(id);
  if (!job.ok()) return std::nullopt;
  note_beginning(id);
  return start_command(*job);
}

void LocalQueue::clear_away(const AttemptId& id) {
  // Not known to have ended: its folder is still its own. What is left is swept at the next start.
  if (!executor_->forget(id).ok()) return;
  const AttemptFiles files = attempt_files(options_.work_folder, id);
  std::error_code ignored;
  const std::string bundle = oci::bundle_folder(files.work_dir);
  if (::access(bundle.c_str(), F_OK) == 0) oci::remove_bundle(bundle);
  if (!spares_->keep(files.work_dir)) std::filesystem::remove_all(files.work_dir, ignored);
  // Most have printed nothing; to look is cheaper than to ask for the folder's lock.
  if (::access(files.log.c_str(), F_OK) == 0) std::filesystem::remove(files.log, ignored);
}

// The row has gone on without us (another server wrote it): what it says is what runs.
LocalQueue::Next LocalQueue::follow(const Job& job) {
  if (has_ended(job.status)) return Next::kDone;
  if (job.status == JobStatus::kQueued) return Next::kBack;
  MutexLock lock(mutex_);
  Running& running = running_[job.id];
  running.attempt = newest(job);
  running.told = round_;
  running.finishing = false;
  return Next::kHeld;
}

LocalQueue::Next LocalQueue::finish_command(const AttemptId& id, const AttemptEnd& end) {
  const auto job = job_of(id);
  if (!job.ok()) {
    return job.error().code == Code::kNotFound ? Next::kDone : hold_for_later(id.job);
  }
  if (job->epoch != id.attempt) {
    log::warn("end of an old attempt not listened to", {{"attempt", to_string(id)}});
    clear_away(id);
    return follow(*job);
  }
  end_identity(id.job);  // Every process that had it is gone, and nobody knows yet that it ended.
  const JobStore::Log log = log_end(attempt_files(options_.work_folder, id).log);
  if (end.reason != EndReason::kLost) keep_log(*job, log);
  keep_curve(*job, end);
  const Next next = has_ended(job->status) ? Next::kDone : conclude_command(*job, end, log.text);
  if (next == Next::kHeld) return hold_for_later(id.job);
  clear_away(id);
  return next;
}

LocalQueue::Next LocalQueue::conclude_command(const Job& job, const AttemptEnd& ended,
                                              std::string_view log) {
  const AttemptFiles files = attempt_files(options_.work_folder, newest(job));
  const Work work = command_work(commands_, job, files, 0);
  const auto over = [&](JobStatus status, const std::string& error) {
    Value reported = tell_companion(job, status, error);
    Value result = result_of(ended);
    if (status == JobStatus::kSucceeded) {
      result["output"] = output_of(files.work_dir + "/" + std::string(kOutputFolder), log,
                                   work.limits.disk_bytes_max);
    } else {
      if (reported.is_null()) reported = read_report(files.work_dir);
      result["post_mortem"] = post_mortem(job, ended, log, reported);
    }
    const Status written =
        retried([&] { return store_.end(queue_context(job), newest(job), status, error, result); });
    note(written, job);
    // A conflict too: it is looked at again, and then the row has ended or is another attempt's.
    if (!written.ok()) return Next::kHeld;
    count_end(job, status, error);
    return Next::kDone;
  };
  const auto again = [&](int attempts, const std::string& error, Next next) {
    return take_back(job, attempts, error) ? next : Next::kHeld;
  };
  std::string why;  // It was stopped, if that is known.
  {
    MutexLock lock(mutex_);
    const Running& running = running_[job.id];
    if (running.preempted) why = "preempted";
    if (running.resize) {
      why = "stopped to go on with " + workers_text(job.spec.request, running.resize->workers);
    }
  }
  if (is_cancelled(job.id)) return over(JobStatus::kCancelled, "cancelled while it ran");
  const Status outcome = check_end(ended, work, log);
  if (outcome.ok()) return over(JobStatus::kSucceeded, "");
  // Stopped though nobody cancelled it: it makes room (also if the server died since and does not
  // remember), or what ran it was told to end. Not the job's fault.
  const bool stopped = ended.reason == EndReason::kStopped;
  const std::string error = describe(
      stopped ? Error(ErrorId::kJobKilled, "its process was stopped from outside, not by a cancel")
              : outcome.error());
  const bool lost = ended.reason == EndReason::kLost || stopped;
  if (lost && (!why.empty() || job.epoch < job.spec.attempts_max + kLossesMost)) {
    return again(job.attempts - 1, why.empty() ? error : why, Next::kFront);
  }
  if (may_pass(ended.reason) && job.attempts < job.spec.attempts_max) {
    log::warn("job tried again", {{"job", job.id.str()}, {"attempt", job.epoch}});
    return again(job.attempts, error, Next::kBack);
  }
  return over(JobStatus::kFailed, error);
}

}  // namespace falaj::jobs::internal
