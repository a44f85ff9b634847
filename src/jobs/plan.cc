// What a change of queues or policy would have done, and will do to those who wait.
#include "scheduler/simulate/plan.h"

#include <algorithm>
#include <utility>

#include "jobs/internal/local_queue.h"
#include "jobs/replay.h"

namespace falaj::jobs::internal {
namespace {

namespace sim = scheduler::simulate;

constexpr std::int64_t kReplayed = 2'000;
constexpr Duration kUnknownRun = Duration::hours(1);

// The rules as they would be with these objects applied.
Result<Rules> with_changes(const JobStore::Sharing& now,
                           const std::vector<storage::Object>& changes) {
  Rules rules{"next", now.queues, now.policy};
  bool policy = false;
  for (const storage::Object& object : changes) {
    if (object.kind == "SchedulingPolicy") {
      if (std::exchange(policy, true)) {
        return Error(ErrorId::kInvalidArgument,
                     "one SchedulingPolicy is in force at a time; plan with one");
      }
      rules.policy = FALAJ_TRY(decode_scheduling_policy(object));
      rules.policy.prices = now.node.prices.over(rules.policy.prices);
    } else if (object.kind == "Queue") {
      QueueSpec queue = FALAJ_TRY(decode_queue(object));
      std::erase_if(rules.queues, [&](const QueueSpec& each) {
        return each.project == queue.project && each.name == queue.name;
      });
      rules.queues.push_back(std::move(queue));
    } else {
      return Error(ErrorId::kUnknownKind,
                   "a plan is made of a SchedulingPolicy and Queues, not of " + object.kind + "/" +
                       object.name);
    }
  }
  return rules;
}

// With as many workers as it had: a replay does not know how much quicker more of them would be.
Candidate fixed(Candidate job) {
  job.request.workers.reset();
  job.request.groups.clear();
  job.workers = 1;
  return job;
}

}  // namespace

// The newest jobs that ended by themselves, with what they ran.
Result<std::vector<PastJob>> LocalQueue::past_jobs() const {
  std::vector<PastJob> out;
  for (const JobStore::Past& past :
       FALAJ_TRY(store_.attempts(clock_.now() - kLookBack, kReplayed))) {
    if (past.spell.ended == Spell::Ended::kInterrupted) continue;
    out.push_back({fixed(candidate_of(past.job)), past.spell.to - past.spell.from});
  }
  return out;
}

// Those who wait and run, with what is expected of them.
void LocalQueue::add_present(const JobStore::Sharing& sharing, std::vector<PastJob>& jobs) {
  Scene scene;
  scene.machine = machine_as(sharing);
  scene.queues = sharing.queues;
  scene.policy = sharing.policy;
  const Timestamp now = clock_.now();
  {
    MutexLock lock(mutex_);
    for (const auto& [id, candidate] : line_) scene.jobs.push_back(candidate);
    ledger_.inform(scene, now);
  }
  for (const Candidate& job : scene.jobs) {
    const bool runs = job.stage == Stage::kRunning || job.stage == Stage::kStopping;
    Duration run = job.p50.nanos > 0       ? job.p50
                   : job.run_max.nanos > 0 ? Duration{job.run_max.nanos / 2}
                                           : kUnknownRun;
    if (runs) run = run + (now - job.started_at);
    jobs.push_back({fixed(job), run});
    // As it was asked for: what is left of it, the replay finds by itself.
    if (runs && job.run_max.nanos > 0) {
      jobs.back().job.run_max = job.run_max + (now - job.started_at);
    }
  }
}

Result<sim::Plan> LocalQueue::plan(const std::vector<storage::Object>& changes) {
  const JobStore::Sharing sharing = FALAJ_TRY(store_.sharing());
  const Rules next = FALAJ_TRY(with_changes(sharing, changes));
  std::vector<PastJob> jobs = FALAJ_TRY(past_jobs());
  add_present(sharing, jobs);
  const Rules current{"current", sharing.queues, sharing.policy};
  // As it is but always open: windows of maintenance are of their own time.
  Machine machine = machine_as(sharing);
  machine.node.maintenance.clear();
  machine.node.closed = machine.node.hot = false;
  const auto measured = [&](const Rules& rules) {
    const std::int64_t began = monotonic_nanos();
    sim::Summary summary = replay(machine, rules, jobs);
    summary.replay_seconds = Duration{monotonic_nanos() - began}.as_seconds();
    return summary;
  };
  // What holds now says how far it may be changed: a policy does not loosen its own rails.
  const sim::GuardRails& rails =
      sharing.declared ? sharing.policy.guard_rails : next.policy.guard_rails;
  return sim::compare(measured(current), measured(next), rails);
}

Result<bool> LocalQueue::guarded(const std::vector<storage::Object>& changes) const {
  if (std::any_of(changes.begin(), changes.end(), is_in_force)) return true;
  const bool queues = std::any_of(changes.begin(), changes.end(),
                                  [](const storage::Object& each) { return each.kind == "Queue"; });
  if (!queues) return false;
  const JobStore::Sharing sharing = FALAJ_TRY(store_.sharing());
  return sharing.declared;
}

}  // namespace falaj::jobs::internal
