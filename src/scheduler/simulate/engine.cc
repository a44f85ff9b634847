#include "scheduler/simulate/engine.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "scheduler/simulate/random.h"

namespace falaj::scheduler::simulate {
namespace {

// Time-weighted means of the present, over all of the window and over stretches of it.
class Recorder {
 public:
  Recorder(const World& world, Timestamp begin, Timestamp window_end)
      : world_(world), begin_(begin), last_(begin), window_end_(window_end) {}

  // The present held from the last call until `to`.
  void advance(Timestamp to) {
    if (to <= last_) return;
    const Cluster& cluster = world_.cluster();
    const auto free = static_cast<double>(cluster.free_total());
    const auto busy = static_cast<double>(cluster.total() - cluster.free_total());
    const double inside =
        std::max(0.0, (std::min(to, window_end_) - std::min(last_, window_end_)).as_seconds());
    busy_ += busy * inside;
    const std::int32_t wanted = world_.smallest_pending();
    if (wanted > 0 && wanted <= cluster.free_total()) idle_waiting_ += free * inside;
    free_ += free * inside;
    scattered_ += static_cast<double>(cluster.scattered()) * inside;
    add_to_timeline(to, busy);
    last_ = to;
  }

  void finish(Outcome& outcome) const {
    outcome.window = window_end_ - begin_;
    const double all =
        static_cast<double>(world_.cluster().total()) * std::max(1.0, outcome.window.as_seconds());
    outcome.busy_in_window = busy_ / all;
    outcome.idle_while_waiting = idle_waiting_ / all;
    outcome.scattered = free_ > 0 ? scattered_ / free_ : 0;
    outcome.timeline = timeline_;
    for (Stretch& stretch : outcome.timeline) {
      stretch.busy_gpus /= width_.as_seconds();
      stretch.pending_jobs /= width_.as_seconds();
      stretch.pending_gpus /= width_.as_seconds();
    }
  }

 private:
  void add_to_timeline(Timestamp to, double busy) {
    Timestamp from = last_;
    while (from < to) {
      const auto at = static_cast<std::size_t>((from - begin_).nanos / width_.nanos);
      if (at >= kStretchesMax) {
        halve();
        continue;
      }
      while (timeline_.size() <= at) {
        const auto place = static_cast<std::int64_t>(timeline_.size());
        timeline_.push_back({.from = begin_ + Duration{place * width_.nanos}});
      }
      const Timestamp stop = std::min(to, timeline_[at].from + width_);
      const double seconds = (stop - from).as_seconds();
      timeline_[at].busy_gpus += busy * seconds;
      timeline_[at].pending_jobs += static_cast<double>(world_.pending_count()) * seconds;
      timeline_[at].pending_gpus += static_cast<double>(world_.pending_gpus()) * seconds;
      from = stop;
    }
  }

  // Twice the width, half as many.
  void halve() {
    for (std::size_t i = 0; i < timeline_.size(); i += 2) {
      Stretch joined = timeline_[i];
      if (i + 1 < timeline_.size()) {
        joined.busy_gpus += timeline_[i + 1].busy_gpus;
        joined.pending_jobs += timeline_[i + 1].pending_jobs;
        joined.pending_gpus += timeline_[i + 1].pending_gpus;
      }
      timeline_[i / 2] = joined;
    }
    timeline_.resize((timeline_.size() + 1) / 2);
    width_ = Duration{width_.nanos * 2};
  }

  const World& world_;
  Timestamp begin_;
  Timestamp last_;
  Timestamp window_end_;
  Duration width_ = Duration::minutes(10);
  std::vector<Stretch> timeline_;
  double busy_ = 0;
  double free_ = 0;
  double idle_waiting_ = 0;
  double scattered_ = 0;
};

struct PlannedEnd {
  Timestamp at{};
  JobIndex job = 0;
  std::uint32_t run = 0;
  bool operator>(const PlannedEnd& other) const {
    return std::tie(at, job) > std::tie(other.at, other.job);
  }
};

struct NodeEvent {
  Timestamp at{};
  std::int32_t node = 0;
  enum class What : std::uint8_t { kFails, kIsRepaired } what = What::kFails;
  bool operator>(const NodeEvent& other) const {
    return std::tie(at, node) > std::tie(other.at, other.node);
  }
};

template <class T>
using Soonest = std::priority_queue<T, std::vector<T>, std::greater<>>;

class Engine {
 public:
  Engine(const Trace& trace, const Scenario& scenario, Strategy& strategy)
      : scenario_(scenario),
        strategy_(strategy),
        world_(trace, scenario.fleet, scenario.interruption),
        random_(scenario.faults.seed),
        recorder_(world_, trace.jobs.front().submit, trace.jobs.back().submit) {
    world_.set_now(trace.jobs.front().submit);
    plan_failures();
  }

  Outcome run() {
    const std::size_t all = world_.trace().jobs.size();
    while (ended_ < all) {
      const Timestamp next = next_instant();
      FALAJ_CHECK(next < Timestamp::max());  // Nothing will ever happen, and jobs wait.
      recorder_.advance(next);
      world_.set_now(next);
      end_jobs();
      change_nodes();
      submit_jobs();
      strategy_.schedule(world_);
      ++outcome_.passes;
      plan_ends();
      report_progress(all);
    }
    return collect();
  }

 private:
  Timestamp next_instant() {
    drop_void_ends();
    Timestamp next = ends_.empty() ? Timestamp::max() : ends_.top().at;
    if (arrived_ < world_.trace().jobs.size()) {
      next = std::min(next, world_.trace().jobs[arrived_].submit);
    }
    if (!node_events_.empty()) next = std::min(next, node_events_.top().at);
    const Timestamp wake = strategy_.wake(world_);
    FALAJ_CHECK(wake > world_.now() || outcome_.passes == 0);
    return std::min(next, wake);
  }

  void drop_void_ends() {
    while (!ends_.empty()) {
      const JobTrack& state = world_.job(ends_.top().job);
      if (state.phase == Phase::kRunning && state.run == ends_.top().run) return;
      ends_.pop();
    }
  }

  void end_jobs() {
    for (drop_void_ends(); !ends_.empty() && ends_.top().at <= world_.now(); drop_void_ends()) {
      const JobIndex job = ends_.top().job;
      ends_.pop();
      world_.finish(job);
      ++ended_;
      strategy_.on_end(world_, job);
    }
  }

  void submit_jobs() {
    const std::vector<TraceJob>& jobs = world_.trace().jobs;
    for (; arrived_ < jobs.size() && jobs[arrived_].submit <= world_.now(); ++arrived_) {
      const auto job = static_cast<JobIndex>(arrived_);
      world_.submit(job);
      if (world_.job(job).phase == Phase::kRefused) {
        ++ended_;
      } else {
        strategy_.on_pending(world_, job);
      }
    }
  }

  void plan_failures() {
    if (scenario_.faults.node_mtbf.nanos <= 0) return;
    for (std::int32_t node = 0; node < world_.cluster().node_count(); ++node) plan_failure(node);
  }

  void plan_failure(std::int32_t node) {
    const double seconds = random_.exponential(scenario_.faults.node_mtbf.as_seconds());
    const Duration in = Duration::microseconds(std::max(1LL, std::llround(seconds * 1e6)));
    node_events_.push({world_.now() + in, node, NodeEvent::What::kFails});
  }

  void change_nodes() {
    while (!node_events_.empty() && node_events_.top().at <= world_.now()) {
      const NodeEvent event = node_events_.top();
      node_events_.pop();
      if (event.what == NodeEvent::What::kIsRepaired) {
        world_.mutable_cluster().set_up(event.node);
        plan_failure(event.node);
        continue;
      }
      ++outcome_.node_failures;
      fail_jobs_on(event.node);
      world_.mutable_cluster().set_down(event.node);
      node_events_.push(
          {world_.now() + scenario_.faults.repair, event.node, NodeEvent::What::kIsRepaired});
    }
  }

  void fail_jobs_on(std::int32_t node) {
    std::vector<JobIndex> hit;
    for (const JobIndex job : world_.running()) {
      for (const Slot& slot : world_.job(job).placement) {
        if (slot.node == node) hit.push_back(job);
      }
    }
    for (const JobIndex job : hit) {
      world_.fail(job);
      strategy_.on_pending(world_, job);
    }
  }

  void plan_ends() {
    for (const JobIndex job : world_.take_started()) {
      if (world_.job(job).phase != Phase::kRunning) continue;
      if (scenario_.faults.straggler_permille > 0 &&
          random_.below(1000) < static_cast<std::uint64_t>(scenario_.faults.straggler_permille)) {
        world_.slow_down(job, scenario_.faults.straggler_speed_permille);
      }
      ends_.push({world_.planned_end(job), job, world_.job(job).run});
    }
  }

  void report_progress(std::size_t all) {
    const std::size_t step = ended_ * 100 / all;
    if (step == reported_ || !scenario_.on_progress) return;
    reported_ = step;
    scenario_.on_progress(static_cast<double>(ended_) / static_cast<double>(all));
  }

  Outcome collect() {
    outcome_.begin = world_.trace().jobs.front().submit;
    outcome_.end = world_.now();
    outcome_.busy_by_group = world_.busy_by_group();
    recorder_.finish(outcome_);
    outcome_.jobs.reserve(world_.trace().jobs.size());
    for (JobIndex job = 0; job < world_.trace().jobs.size(); ++job) {
      outcome_.jobs.push_back(world_.job(job));
    }
    return std::move(outcome_);
  }

  const Scenario& scenario_;
  Strategy& strategy_;
  World world_;
  Random random_;
  Recorder recorder_;
  Soonest<PlannedEnd> ends_;
  Soonest<NodeEvent> node_events_;
  std::size_t arrived_ = 0;
  std::size_t ended_ = 0;
  std::size_t reported_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome replay(const Trace& trace, const Scenario& scenario, Strategy& strategy) {
  if (trace.jobs.empty()) return {};
  return Engine(trace, scenario, strategy).run();
}

}  // namespace falaj::scheduler::simulate
