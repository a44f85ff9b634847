#include "scheduler/simulate/world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int64_t kFullSpeed = 1000;

// Rounded down to whole intervals; nothing without checkpoints.
Duration at_checkpoint(Duration done, Duration interval) {
  return interval.nanos > 0 ? Duration{done.nanos / interval.nanos * interval.nanos} : Duration{};
}

}  // namespace

World::World(const Trace& trace, const FleetSpec& fleet, const Interruption& interruption)
    : trace_(trace),
      interruption_(interruption),
      cluster_(fleet),
      jobs_(trace.jobs.size()),
      running_at_(trace.jobs.size()),
      busy_by_group_(fleet.groups.size()) {
  for (std::size_t group = 0; group < fleet.groups.size(); ++group) {
    const auto nodes = static_cast<std::size_t>(fleet.groups[group].nodes);
    group_of_.insert(group_of_.end(), nodes, static_cast<std::int32_t>(group));
  }
}

void World::count_pending(JobIndex job, std::int64_t change) {
  const std::int32_t gpus = spec(job).gpus;
  pending_count_ += change;
  pending_gpus_ += change * gpus;
  const auto at = pending_by_gpus_.try_emplace(gpus, 0).first;
  at->second += change;
  if (at->second == 0) pending_by_gpus_.erase(at);
}

std::int32_t World::smallest_pending() const {
  return pending_by_gpus_.empty() ? 0 : pending_by_gpus_.begin()->first;
}

Duration World::work_done(JobIndex job) const {
  const JobTrack& state = jobs_[job];
  const std::int64_t worked = std::max<std::int64_t>(0, (now_ - state.since - state.restart).nanos);
  // Divided first: a long run times a thousand stays far from overflow anyway, and exact at full
  // speed.
  const std::int64_t done = worked / kFullSpeed * state.speed_permille +
                            worked % kFullSpeed * state.speed_permille / kFullSpeed;
  return {std::min(done, state.left.nanos)};
}

Duration World::held(JobIndex job) const {
  const JobTrack& state = jobs_[job];
  return state.phase == Phase::kRunning ? state.held + (now_ - state.since) : state.held;
}

Duration World::left(JobIndex job) const {
  const JobTrack& state = jobs_[job];
  return state.phase == Phase::kRunning ? state.left - work_done(job) : state.left;
}

Timestamp World::planned_end(JobIndex job) const {
  const JobTrack& state = jobs_[job];
  const std::int64_t whole = state.left.nanos / state.speed_permille * kFullSpeed;
  const std::int64_t rest = state.left.nanos % state.speed_permille * kFullSpeed;
  const std::int64_t needed = whole + (rest + state.speed_permille - 1) / state.speed_permille;
  return state.since + state.restart + Duration{needed};
}

void World::submit(JobIndex job) {
  JobTrack& state = jobs_[job];
  FALAJ_CHECK(state.phase == Phase::kFuture);
  state.since = now_;
  state.left = spec(job).duration;
  if (!cluster_.could_ever_fit(spec(job).gpus)) {
    state.phase = Phase::kRefused;
    return;
  }
  state.phase = Phase::kPending;
  count_pending(job, 1);
}

bool World::start(JobIndex job) {
  const Slots placement = cluster_.find(spec(job).gpus);
  if (placement.empty()) return false;
  start(job, placement);
  return true;
}

void World::start(JobIndex job, const Slots& placement) {
  JobTrack& state = jobs_[job];
  FALAJ_CHECK(state.phase == Phase::kPending);
  cluster_.take(placement);
  state.placement = placement;
  if (state.run == 0) state.first_start = now_;
  state.restart = state.run == 0 ? Duration{} : interruption_.restart_cost;
  ++state.run;
  state.phase = Phase::kRunning;
  state.since = now_;
  state.speed_permille = static_cast<std::int32_t>(kFullSpeed);
  running_at_[job] = static_cast<std::uint32_t>(running_.size());
  running_.push_back(job);
  started_.push_back(job);
  count_pending(job, -1);
}

void World::slow_down(JobIndex job, std::int32_t speed_permille) {
  FALAJ_CHECK(jobs_[job].phase == Phase::kRunning && jobs_[job].since == now_);
  jobs_[job].speed_permille = speed_permille;
}

void World::leave_running(JobIndex job) {
  JobTrack& state = jobs_[job];
  FALAJ_CHECK(state.phase == Phase::kRunning);
  state.held = state.held + (now_ - state.since);
  for (const Slot& slot : state.placement) {
    const std::int32_t group = group_of_[static_cast<std::size_t>(slot.node)];
    Duration& busy = busy_by_group_[static_cast<std::size_t>(group)];
    busy = busy + Duration{(now_ - state.since).nanos * slot.gpus};
  }
  cluster_.give_back(state.placement);
  state.placement.clear();
  const std::uint32_t place = running_at_[job];
  running_[place] = running_.back();
  running_at_[running_[place]] = place;
  running_.pop_back();
  state.since = now_;
}

void World::interrupt(JobIndex job, Cause cause) {
  JobTrack& state = jobs_[job];
  const Duration done = work_done(job);
  const bool keeps_all = cause == Cause::kPreempted &&
                         interruption_.preempt_loss == Interruption::PreemptLoss::kNothing;
  const Duration kept = keeps_all ? done : at_checkpoint(done, interruption_.checkpoint_interval);
  state.lost = state.lost + (done - kept) + std::min(state.restart, now_ - state.since);
  state.left = state.left - kept;
  ++(cause == Cause::kPreempted ? state.preemptions : state.failures);
  leave_running(job);
  state.phase = Phase::kPending;
  count_pending(job, 1);
}

void World::preempt(JobIndex job) { interrupt(job, Cause::kPreempted); }
void World::fail(JobIndex job) { interrupt(job, Cause::kFailed); }

void World::finish(JobIndex job) {
  JobTrack& state = jobs_[job];
  state.lost = state.lost + state.restart;
  state.left = Duration{};
  leave_running(job);
  state.phase = Phase::kDone;
  state.end = now_;
}

std::vector<JobIndex> World::take_started() { return std::exchange(started_, {}); }

}  // namespace falaj::scheduler::simulate
