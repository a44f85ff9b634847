// The dispatcher: what ended, what may start, what must make room.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/log.h"
#include "jobs/internal/local_queue.h"
#include "jobs/post_mortem.h"

namespace falaj::jobs::internal {
namespace {

// Reservations and minimum run times pass with time alone.
constexpr auto kLook = std::chrono::seconds(1);
// A decision that takes longer than this is followed by a rest of kRestTimes its own time, at most
// kRestMost: while many wait, one decision for all that changed meanwhile is worth more than one
// for each.
constexpr std::int64_t kQuickNanos = 1'000'000;
constexpr std::int64_t kRestTimes = 4;
constexpr std::int64_t kRestMost = 50'000'000;
// So much is waited for more to end after some have: each look costs as much as many ends.
constexpr std::int64_t kGather = 4'000'000;
// Past so many jobs in the scene a decision is recorded only so often.
constexpr std::size_t kRecordedMost = 2000;
constexpr std::int64_t kRecordEvery = 1'000'000'000;
constexpr std::int64_t kLookForSaved = 1'000'000'000;
constexpr std::size_t kLookedAtMost = 100;  // At once.
constexpr Duration kYoung = Duration::seconds(1);

}  // namespace

void LocalQueue::dispatch() {
  bool ask = true;
  while (true) {
    const std::size_t ended = ask && executor_ != nullptr ? collect_ends() : 0;
    settle_dependencies();
    const std::int64_t before = monotonic_nanos();
    decide();
    const std::int64_t took = monotonic_nanos() - before;
    MutexLock lock(mutex_);
    if (took > kQuickNanos || ended > 0) {
      const std::int64_t rest = std::max(
          took > kQuickNanos ? std::min(kRestTimes * took, kRestMost) : 0, ended > 0 ? kGather : 0);
      (void)asked_.wait_for(mutex_, std::chrono::nanoseconds(rest),
                            [this]() FALAJ_REQUIRES(mutex_) { return stopping_; });
    }
    const bool news = asked_.wait_for(mutex_, kLook, [this]() FALAJ_REQUIRES(mutex_) {
      return stopping_ || dirty_ || executor_news_;
    });
    if (stopping_) return;
    dirty_ = false;
    // Without news the executor is asked too, in case it was away when something ended.
    ask = !news || std::exchange(executor_news_, false);
  }
}

// Makes tasks of the commands that ended, also of those that the executor does not know any more;
// how many.
std::size_t LocalQueue::collect_ends() {
  std::uint64_t round = 0;
  {
    MutexLock lock(mutex_);
    round = ++round_;
  }
  const auto listed = executor_->list();
  if (!listed.ok()) {
    log::warn("executor not asked", {{"error", listed.error().message}});
    return 0;
  }
  std::set<AttemptId> known;
  std::size_t ended = 0;
  std::vector<AttemptId> stale;
  std::vector<AttemptId> leaving;  // Asked before, perhaps in vain or by a server that died.
  {
    MutexLock lock(mutex_);
    for (const Attempt& attempt : *listed) {
      known.insert(attempt.id);
      const auto found = running_.find(attempt.id.job);
      if (found == running_.end() || found->second.attempt != attempt.id) {
        stale.push_back(attempt.id);
      } else if (!attempt.end) {
        if (found->second.cancelled || found->second.preempted) leaving.push_back(attempt.id);
      } else if (!std::exchange(found->second.finishing, true)) {
        tasks_.push_back({attempt.id.job, attempt.end, attempt.id.attempt});
        ++ended;
      }
    }
    for (auto& [id, running] : running_) {
      const bool told = running.told != 0 && running.told < round;
      if (!told || !running.attempt || known.contains(*running.attempt)) continue;
      if (std::exchange(running.finishing, true)) continue;
      AttemptEnd lost;
      lost.reason = EndReason::kLost;
      lost.detail = "it ended with the server, or with what ran it";
      tasks_.push_back({id, lost, running.attempt->attempt});
      ++ended;
    }
  }
  call_workers(ended);
  for (const AttemptId& id : leaving) (void)executor_->stop(id);
  for (const AttemptId& id : stale) {
    (void)executor_->stop(id);
    clear_away(id);  // A running one once it has ended.
  }
  return ended;
}

// As many as there are tasks for: to wake all of them costs more than what most would find to do.
void LocalQueue::call_workers(std::size_t tasks) {
  for (std::size_t i = 0; i < tasks; ++i) tasked_.notify_one();
}

// Looks at those that waiting jobs come after and that are here no more: their end is written.
void LocalQueue::settle_dependencies() {
  std::vector<std::tuple<JobId, std::string, std::vector<After>>> due;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, before] : unmet_) {
      std::vector<After> gone;
      for (const After& each : before) {
        if (!line_.contains(each.job)) gone.push_back(each);
      }
      if (!gone.empty()) due.emplace_back(id, line_[id].project, std::move(gone));
    }
  }
  for (const auto& [id, project, gone] : due) {
    const auto found = store_.look_at(project, gone);
    if (!found.ok()) continue;  // Asked again with the next change.
    if (!found->otherwise.empty() || !found->unknown.empty()) {
      doom(id, found->otherwise.empty() ? After(found->unknown.front()) : found->otherwise.front());
      continue;
    }
    MutexLock lock(mutex_);
    const auto unmet = unmet_.find(id);
    if (unmet == unmet_.end()) continue;
    std::erase_if(unmet->second, [&](const After& each) {
      return std::find(gone.begin(), gone.end(), each) != gone.end() &&
             std::find(found->open.begin(), found->open.end(), each.job) == found->open.end();
    });
    if (unmet->second.empty()) unmet_.erase(unmet);
  }
}

// A job that would never start ends.
void LocalQueue::doom(const JobId& id, const After& after) {
  if (take_for_cancel(id) != Place::kWaiting) return;
  const auto job = store_.get(id);
  if (!job.ok()) return put_back(id);
  const std::string why = "job " + after.job.str() + ", which it comes after, " +
                          std::string(ended_otherwise(after.end));
  const Status ended = store_.end(queue_context(*job), newest(*job), JobStatus::kCancelled,
                                  why + ": it was never started", {});
  note(ended, *job);
  if (!ended.ok()) return put_back(id);
  (void)release(id, Next::kDone);
  tell_companion(*job, JobStatus::kCancelled, why);
  count_end(*job, JobStatus::kCancelled, "");
  tell_waiters(id);
}

// When each running command last saved what it did: its companion knows, or it says so in its
// report. Who has just begun has nothing to lose; each is looked at once a second, and of very many
// those first at whom nobody looked for longest.
void LocalQueue::look_for_checkpoints() {
  std::vector<std::pair<JobId, std::shared_ptr<const Job>>> running;
  {
    MutexLock lock(mutex_);
    if (waiting_ == 0) return;
    std::vector<std::pair<std::int64_t, const JobId*>> due;
    const Timestamp old = clock_.now() - kYoung;
    const std::int64_t now = monotonic_nanos();
    for (const auto& [id, each] : running_) {
      const auto at = line_.find(id);
      if (!each.attempt || at == line_.end() || at->second.started_at > old) continue;
      if (each.looked != 0 && now - each.looked < kLookForSaved) continue;
      due.emplace_back(each.looked, &id);
    }
    const auto most = static_cast<std::ptrdiff_t>(std::min(due.size(), kLookedAtMost));
    std::partial_sort(due.begin(), due.begin() + most, due.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    });
    due.resize(static_cast<std::size_t>(most));
    for (const auto& [looked, id] : due) {
      Running& each = running_[*id];
      each.looked = now;
      running.emplace_back(*id, each.job ? each.job : each.read);
    }
  }
  for (auto& [id, job] : running) {
    if (!job) {  // It was begun by a server before this one.
      auto read = store_.get(id);
      if (!read.ok()) continue;
      job = std::make_shared<const Job>(std::move(read).value());
    }
    const Companion* companion = companion_of(*job);
    const Timestamp saved =
        companion != nullptr
            ? companion->newest_checkpoint(*job)
            : reported_checkpoint(attempt_files(options_.work_folder, newest(*job)).work_dir);
    MutexLock lock(mutex_);
    const auto at = line_.find(id);
    if (at != line_.end() && saved > at->second.checkpoint) at->second.checkpoint = saved;
    const auto known = running_.find(id);
    if (known != running_.end() && known->second.attempt == newest(*job)) known->second.read = job;
  }
}

void LocalQueue::decide() {
  if (auto read = store_.sharing(); read.ok()) sharing_ = std::move(read).value();
  look_for_checkpoints();
  Scene scene;
  {
    MutexLock lock(mutex_);
    if (stopping_ || !anybody_may_change()) return;
    scene = picture();
  }
  // What is decided upon is kept; of very many jobs once a second, so that keeping it does not
  // cost more than deciding.
  const std::int64_t now = monotonic_nanos();
  const bool keep = scene.jobs.size() <= kRecordedMost || now - recorded_ >= kRecordEvery;
  const Verdict verdict = judge(scene, clock_.now(), keep ? Telling::kRecorded : Telling::kFull);
  if (verdict.record) recorded_ = now;
  if (written_down(scene, verdict)) act_on(scene, verdict);
}

// A decision that makes somebody leave is written before they are told; one that only starts jobs
// is written with the first of them. False: the store refuses, and it is decided again later.
bool LocalQueue::written_down(const Scene& scene, const Verdict& verdict) {
  if (!verdict.record || (verdict.preempt.empty() && verdict.resize.empty())) return true;
  std::vector<JobId> leaving;
  for (const std::size_t job : verdict.preempt) leaving.push_back(scene.jobs[job].id);
  for (const Verdict::Place& place : verdict.resize) leaving.push_back(scene.jobs[place.job].id);
  const Status kept = store_.keep_decision(*verdict.record, leaving);
  if (!kept.ok()) log::warn("decision not recorded", {{"error", kept.error().message}});
  return kept.ok();
}

// Somebody waits, or could have more workers than it has.
bool LocalQueue::anybody_may_change() const {
  if (waiting_ > 0) return true;
  return std::any_of(line_.begin(), line_.end(), [](const auto& each) {
    const Candidate& job = each.second;
    const auto& workers = job.request.workers;
    return workers && job.stage == Stage::kRunning && job.workers < workers->max;
  });
}

Scene LocalQueue::picture() {
  Scene scene;
  scene.machine = machine_as(sharing_);
  scene.queues = sharing_.queues;
  scene.policy = sharing_.policy;
  scene.jobs.reserve(line_.size());
  const Timestamp now = clock_.now();
  GateSays said;
  for (const auto& [id, candidate] : line_) {
    scene.jobs.push_back(candidate);
    Candidate& job = scene.jobs.back();
    if (const auto unmet = unmet_.find(id); unmet != unmet_.end()) {
      job.unmet = static_cast<std::uint32_t>(unmet->second.size());
      job.waits_for = unmet->second.front().job;
      job.waits_for_end = unmet->second.front().end;
    }
    const bool waits = job.stage == Stage::kWaiting || job.stage == Stage::kClaimed;
    if (waits) job.barred = barred(job.project, job.request, said);
  }
  ledger_.inform(scene, now);
  return scene;
}

// The one place that counts who waits.
void LocalQueue::set_waiting(Candidate& candidate, Stage stage) {
  const auto waits = [](Stage s) { return s == Stage::kWaiting || s == Stage::kClaimed; };
  if (waits(candidate.stage) && !waits(stage)) --waiting_;
  if (!waits(candidate.stage) && waits(stage)) ++waiting_;
  candidate.stage = stage;
}

// The place that a job has, or that is kept for it.
void LocalQueue::seat(Candidate& candidate, const Verdict::Place& place) {
  candidate.gpus = place.gpus;
  candidate.workers = place.workers;
  candidate.numa = place.numa;
  candidate.mig_start = place.mig_start;
  candidate.checkpoint = {};
  give_workers(candidate.request, place.workers);
}

// Who must make room, and who is to go on with fewer or more workers: both end first.
std::vector<JobId> LocalQueue::tell_leavers(const Scene& scene, const Verdict& verdict) {
  std::vector<JobId> leaving;
  const auto leave = [&](std::size_t job) FALAJ_REQUIRES(mutex_) -> Running* {
    const auto at = line_.find(scene.jobs[job].id);
    const auto running = running_.find(scene.jobs[job].id);
    if (at == line_.end() || running == running_.end()) return nullptr;
    at->second.stage = Stage::kStopping;
    running->second.preempted = true;
    leaving.push_back(at->first);
    return &running->second;
  };
  for (const std::size_t job : verdict.preempt) leave(job);
  for (const Verdict::Place& place : verdict.resize) {
    if (Running* running = leave(place.job)) running->resize = place;
  }
  return leaving;
}

// Only this thread admits, so what was free in the scene is free still; but a job may have been
// cancelled since.
void LocalQueue::act_on(const Scene& scene, const Verdict& verdict) {
  std::vector<JobId> leaving;
  std::size_t tasks = 0;
  {
    MutexLock lock(mutex_);
    const auto waiting = [&](std::size_t job) FALAJ_REQUIRES(mutex_) -> Candidate* {
      const auto at = line_.find(scene.jobs[job].id);
      if (at == line_.end()) return nullptr;
      const Stage stage = at->second.stage;
      return stage == Stage::kWaiting || stage == Stage::kClaimed ? &at->second : nullptr;
    };
    for (const Verdict::Place& place : verdict.admit) {
      Candidate* candidate = waiting(place.job);
      if (candidate == nullptr) continue;
      set_waiting(*candidate, Stage::kRunning);
      seat(*candidate, place);
      candidate->started_at = clock_.now();
      running_[candidate->id] = Running{};
      running_[candidate->id].decision = verdict.record;
      why_.erase(candidate->id);
      tasks_.push_back({candidate->id, {}, 0});
      ++tasks;
    }
    for (const Verdict::Place& place : verdict.claim) {
      Candidate* candidate = waiting(place.job);
      if (candidate == nullptr) continue;
      set_waiting(*candidate, Stage::kClaimed);
      seat(*candidate, place);
    }
    for (const std::size_t job : verdict.release) {
      if (Candidate* candidate = waiting(job)) set_waiting(*candidate, Stage::kWaiting);
    }
    leaving = tell_leavers(scene, verdict);
    for (const auto& [job, why] : verdict.hold) {
      if (waiting(job) != nullptr) why_[scene.jobs[job].id] = why;
    }
    show_counts();
  }
  call_workers(tasks);
  decided_.notify_all();
  for (const JobId& id : leaving) stop_process(id);
}

// Asks the process of a running job to end, if it has one yet: who starts it looks again after.
void LocalQueue::stop_process(const JobId& id) {
  std::optional<AttemptId> attempt;
  {
    MutexLock lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    if (found->second.child != nullptr) found->second.child->stop();
    attempt = found->second.attempt;
  }
  if (attempt && executor_ != nullptr) (void)executor_->stop(*attempt);
}

}  // namespace falaj::jobs::internal
