// scheduler/simulate/world.h — the simulated present: jobs, GPUs and the clock, as a policy sees
// it.
//
// The engine (engine.h) moves the clock; a policy starts and preempts. Everything is integer
// nanoseconds, so a replay gives the same bytes anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "scheduler/simulate/cluster.h"
#include "scheduler/simulate/trace.h"

namespace falaj::scheduler::simulate {

using JobIndex = std::uint32_t;  // Into Trace::jobs.

enum class Phase : std::uint8_t { kFuture, kPending, kRunning, kDone, kRefused };

// What interrupting costs. A preempted job is asked to checkpoint and keeps all but what
// `preempt_loss` says; a job whose node dies goes back to its last checkpoint.
struct Interruption {
  Duration restart_cost = Duration::seconds(60);
  Duration checkpoint_interval = Duration::minutes(30);  // Zero: it never checkpoints by itself.
  enum class PreemptLoss : std::uint8_t { kNothing, kSinceCheckpoint };
  PreemptLoss preempt_loss = PreemptLoss::kNothing;
};

struct JobTrack {
  Phase phase = Phase::kFuture;
  Duration left{};    // Work still to do when it entered this phase.
  Duration held{};    // Time it held its GPUs before this phase.
  Timestamp since{};  // When it entered this phase.
  Timestamp first_start{};
  Timestamp end{};
  Duration restart{};                  // Paid at the beginning of this run, before work goes on.
  std::int32_t speed_permille = 1000;  // Of this run; under 1000 it straggles.
  std::int32_t preemptions = 0;
  std::int32_t failures = 0;
  Duration lost{};        // Work done twice and restarts, so far.
  std::uint32_t run = 0;  // Counts starts; an end that was planned for an earlier run is void.
  Slots placement;
};

class World {
 public:
  World(const Trace& trace, const FleetSpec& fleet, const Interruption& interruption);

  Timestamp now() const { return now_; }
  const Trace& trace() const { return trace_; }
  const TraceJob& spec(JobIndex job) const { return trace_.jobs[job]; }
  const JobTrack& job(JobIndex job) const { return jobs_[job]; }
  const Cluster& cluster() const { return cluster_; }
  const Interruption& interruption() const { return interruption_; }
  // In no order that means anything, but in the same one each time.
  const std::vector<JobIndex>& running() const { return running_; }
  std::int64_t pending_count() const { return pending_count_; }
  std::int64_t pending_gpus() const { return pending_gpus_; }

  // Time for which it held its GPUs until now, restarts included.
  Duration held(JobIndex job) const;
  // What is left of its work; only oracles may ask.
  Duration left(JobIndex job) const;
  // When this run began.
  Duration run_age(JobIndex job) const { return now_ - jobs_[job].since; }

  // A pending job begins. False when no placement is free.
  [[nodiscard]] bool start(JobIndex job);
  void start(JobIndex job, const Slots& placement);  // Free, or the process stops.
  void preempt(JobIndex job);                        // A running one goes back to pending.

  // The engine's side.
  void set_now(Timestamp now) { now_ = now; }
  void submit(JobIndex job);
  void finish(JobIndex job);
  void fail(JobIndex job);  // Its node died.
  void slow_down(JobIndex job, std::int32_t speed_permille);
  Timestamp planned_end(JobIndex job) const;
  Cluster& mutable_cluster() { return cluster_; }
  // GPU time that jobs held, by node group, without the runs that go on.
  const std::vector<Duration>& busy_by_group() const { return busy_by_group_; }
  // GPUs that the smallest waiting job asks for; 0 when none waits.
  std::int32_t smallest_pending() const;
  // Jobs started since the last call; the engine plans their ends.
  std::vector<JobIndex> take_started();

 private:
  enum class Cause : std::uint8_t { kPreempted, kFailed };
  void interrupt(JobIndex job, Cause cause);
  Duration work_done(JobIndex job) const;
  void leave_running(JobIndex job);
  void count_pending(JobIndex job, std::int64_t change);

  const Trace& trace_;
  Interruption interruption_;
  Cluster cluster_;
  Timestamp now_{};
  std::vector<JobTrack> jobs_;
  std::vector<JobIndex> running_;
  std::vector<std::uint32_t> running_at_;  // A running job's place in running_.
  std::vector<JobIndex> started_;
  std::vector<std::int32_t> group_of_;  // By node.
  std::vector<Duration> busy_by_group_;
  std::map<std::int32_t, std::int64_t> pending_by_gpus_;
  std::int64_t pending_count_ = 0;
  std::int64_t pending_gpus_ = 0;
};

// How good the start times were that waiting jobs were told. Each job counts once: by the first
// interval it was given, against its first start.
struct Promises {
  std::int64_t made = 0;    // Jobs that had to wait and were given an interval with an end.
  std::int64_t within = 0;  // Of them, started in it,
  std::int64_t early = 0;   // before it,
  std::int64_t late = 0;    // after it.
  std::int64_t open = 0;    // Jobs that waited and were told no end at all before they started.
};

// A way to share the fleet. It sees the world, never the future: only those that call themselves
// oracles may ask World::left.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  virtual void on_pending(const World&, JobIndex) {}  // Submitted, preempted or failed.
  virtual void on_end(const World&, JobIndex) {}      // Its work is done; the GPUs are free again.
  // Called once after everything that happens at one instant.
  virtual void schedule(World& world) = 0;
  // When to be called again even if nothing happens; Timestamp::max() for never.
  virtual Timestamp wake(const World&) const { return Timestamp::max(); }
  // What it promised and kept; all zero for those that promise nothing.
  virtual Promises promises() const { return {}; }
};

}  // namespace falaj::scheduler::simulate
