// scheduler/testing/cluster.h — small clusters for tests, and a world that does what decisions say.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/conform.h"
#include "scheduler/decide.h"
#include "scheduler/encode.h"

namespace falaj::scheduler::testing {

inline constexpr Index kA100 = 2;
inline constexpr Index kH100 = 3;
inline constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

// `nodes` nodes with eight A100 each, 64 cores, 512 GiB, four to a rack, in zone 0.
inline Snapshot cluster(Index nodes, std::uint32_t gpus = 8) {
  Snapshot s;
  s.flavors = {{"cpu", 1}, {"memory", 0}, {"gpu.a100", 64}, {"gpu.h100", 96}};
  s.zones = {"ae", "eu"};
  NodeClass c;
  c.name = "a100x" + std::to_string(gpus);
  c.cpu = 64'000;
  c.memory = 512 * 1024;
  c.gpus = gpus;
  c.gpu_flavor = gpus > 0 ? kA100 : kAbsent;
  c.gpu_memory = 80 * 1024;
  c.mig = MigGeometry::kA100;
  c.numa_nodes = 2;
  c.numa_gpus = {0x0f, 0xf0, 0, 0};
  c.gpu_islands = {0x0f, 0xf0};
  c.price_per_gpu_hour = 2'000'000;
  c.watts_per_gpu = 400;
  s.classes = {c};
  for (Index i = 0; i < nodes; ++i) {
    Node node;
    node.domain = {i / 2, i / 4, i / 8};
    s.nodes.push_back(node);
  }
  return s;
}

inline Index add_queue(Snapshot& s, std::string name, Index parent = kAbsent,
                       std::int64_t nominal_gpus = 0, Index flavor = kA100) {
  Queue queue;
  queue.name = std::move(name);
  queue.parent = parent;
  queue.quotas = {{flavor, nominal_gpus * 1000, kUnlimited, kUnlimited}};
  s.queues.push_back(std::move(queue));
  return static_cast<Index>(s.queues.size() - 1);
}

// `pods` pods with `gpus` GPUs and a core each.
inline Index add_shape(Snapshot& s, std::uint32_t pods, std::uint32_t gpus) {
  Shape shape;
  TaskGroup group;
  group.min = group.max = pods;
  group.cpu = 1000;
  group.memory = 1024;
  group.gpu.count = gpus;
  if (gpus > 0) group.gpu.models = {kA100};
  shape.groups = {group};
  s.shapes.push_back(shape);
  return static_cast<Index>(s.shapes.size() - 1);
}

inline Index add_job(Snapshot& s, Index queue, Index shape, std::int32_t priority = 0,
                     Duration run = Duration::hours(1)) {
  Job job;
  job.id = s.jobs.size() + 1;
  job.queue = queue;
  job.shape = shape;
  job.priority = priority;
  job.submitted = kNow - Duration::hours(1) + Duration::seconds(static_cast<std::int64_t>(job.id));
  job.remaining_p50 = Duration{run.nanos / 2};
  job.remaining_p90 = run;
  s.jobs.push_back(job);
  return static_cast<Index>(s.jobs.size() - 1);
}

// What an executor does. Those who were told to leave have not left yet: see leave().
inline void apply(Snapshot& s, const Decisions& d, Timestamp now) {
  for (const Index job : d.released) s.jobs[job].state = JobState::kPending;
  for (const Admit& admit : d.admit) {
    Job& job = s.jobs[admit.job];
    job.state = JobState::kRunning;
    job.placement = admit.placement;
    job.started = job.checkpoint = now;
  }
  for (const Preempt& preempt : d.preempt) s.jobs[preempt.job].state = JobState::kStopping;
  for (const Resize& resize : d.resize) s.jobs[resize.job].placement = resize.placement;
  for (const Reserve& reserve : d.reserve) {
    if (reserve.kind != ReserveKind::kClaim) continue;
    s.jobs[reserve.job].state = JobState::kClaimed;
    s.jobs[reserve.job].placement = reserve.placement;
  }
  ++s.epoch;
}

// Those who were told to leave have left, and wait again.
inline void leave(Snapshot& s) {
  for (Job& job : s.jobs) {
    if (job.state != JobState::kStopping) continue;
    job.state = JobState::kPending;
    job.placement = {};
  }
}

inline void finish(Snapshot& s, Index job) {
  s.jobs[job].state = JobState::kPending;
  s.jobs[job].unmet_dependencies = 1;  // Never again.
  s.jobs[job].placement = {};
}

inline std::vector<std::string> faults(const Snapshot& s, const Policy& p, Timestamp now,
                                       const Decisions& d) {
  std::vector<std::string> out;
  auto found = verify(s, p, now, d);
  if (found.empty()) found = conform(s, p, now, d);
  for (const Violation& v : found) {
    out.push_back(std::string(v.rule) + " of " + std::to_string(v.job));
  }
  return out;
}

inline ReasonCode reason_of(const Decisions& d, Index job) {
  for (const Hold& hold : d.hold) {
    if (hold.job == job) return hold.reason.code;
  }
  return ReasonCode::kNone;
}

inline bool starts(const Decisions& d, Index job) {
  return std::any_of(d.admit.begin(), d.admit.end(), [&](const Admit& a) { return a.job == job; });
}

// Who runs or is about to.
inline std::set<std::uint64_t> set_of(const Snapshot& s) {
  std::set<std::uint64_t> ids;
  for (const Job& job : s.jobs) {
    if (job.state == JobState::kRunning || job.state == JobState::kClaimed) ids.insert(job.id);
  }
  return ids;
}

struct Settled {
  bool fixed_point = false;
  bool repeated = false;  // A set of running jobs was left and come back to.
  std::size_t rounds = 0;
  std::size_t preemptions = 0;
  std::vector<std::string> faults;
};

// Decides, applies, lets leave, until nothing changes. Time stands still: nothing happens from
// outside.
inline Settled settle(Snapshot& s, const Policy& p, Timestamp now, std::size_t most = 200) {
  Settled result;
  Budget budget;
  budget.digest = 0;
  std::set<std::set<std::uint64_t>> seen;
  std::set<std::uint64_t> last = set_of(s);
  for (; result.rounds < most; ++result.rounds) {
    const Decisions d = decide(s, p, now, budget);
    for (std::string& fault : faults(s, p, now, d)) result.faults.push_back(std::move(fault));
    const bool quiet = d.admit.empty() && d.preempt.empty() && d.resize.empty() &&
                       d.released.empty() && d.certificate.steps.empty() &&
                       std::none_of(s.jobs.begin(), s.jobs.end(), [](const Job& job) {
                         return job.state == JobState::kStopping;
                       });
    if (quiet) {
      result.fixed_point = true;
      break;
    }
    result.preemptions += d.preempt.size();
    apply(s, d, now);
    // What has run before this moment may be preempted at once: the worst case for loops.
    for (const Admit& admit : d.admit) s.jobs[admit.job].started = Timestamp::from_seconds(0);
    leave(s);
    if (set_of(s) != last) {
      seen.insert(last);
      last = set_of(s);
      result.repeated = result.repeated || seen.contains(last);
    }
  }
  return result;
}

}  // namespace falaj::scheduler::testing
