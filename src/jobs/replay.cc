#include "jobs/replay.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "jobs/ledger.h"

namespace falaj::jobs {
namespace {

namespace sim = scheduler::simulate;

constexpr std::int64_t kTogether = 32;  // So many who wait put cycles a second apart.
constexpr int kRoundsMost = 8;          // Victims leave and their places are given away.
constexpr int kIdleMost = 100;          // Windows of budgets that nobody is helped by.
constexpr std::int64_t kStretches = 256;
constexpr double kHourSeconds = 3600;
constexpr double kMicros = 1e6;

std::int32_t units_of(const Resources& resources) {
  const std::int64_t units =
      resources.gpus > 0 ? resources.gpus : (resources.cpu_milli + 999) / 1000;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(units, 1, 1 << 20));
}

// What an hour of it costs, and the watts that are counted.
double hourly(const Request& request, const sim::Prices& prices) {
  return (static_cast<double>(request.resources.cpu_milli) / 1000 *
              static_cast<double>(prices.micros_per_cpu_hour) +
          static_cast<double>(gpu_milli(request)) / 1000 *
              static_cast<double>(prices.micros_per_gpu_hour)) /
         kMicros;
}

// What a job that is stopped now has to do again.
Duration since_saved(const Candidate& job, Timestamp now) {
  const Duration ran = now - job.started_at;
  const Duration every = job.request.saving.every;
  return every.nanos > 0 ? Duration{ran.nanos % every.nanos} : ran;
}

// How full it was from some instant on.
struct Sample {
  Timestamp from{};
  std::int64_t busy = 0;
  std::int64_t pending_jobs = 0;
  std::int64_t pending_units = 0;
};

class Replay {
 public:
  Replay(const Machine& machine, const Rules& rules, const std::vector<PastJob>& jobs)
      : machine_(machine), rules_(rules), jobs_(jobs), tracks_(jobs.size()), live_(jobs.size()) {
    order_.resize(jobs.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return jobs[a].job.queued_at < jobs[b].job.queued_at;
    });
    for (std::size_t place = 0; place < order_.size(); ++place) {
      Candidate& job = live_[order_[place]];
      job = jobs[order_[place]].job;
      job.sequence = place + 1;
      job.stage = Stage::kWaiting;
      index_.emplace(job.id, order_[place]);
    }
    for (const QueueSpec& queue : rules.queues) {
      for (const QueueBudget& budget : queue.budgets) windows_.insert(budget.per);
    }
  }

  void run() {
    while (true) {
      const Timestamp next = next_event();
      if (next == Timestamp::max()) return;
      now_ = std::max(now_, next);
      end_and_submit();
      wake_ = Timestamp::max();
      if (now_ < next_cycle_) {
        wake_ = next_cycle_;
      } else {
        decide();
      }
      sample();
    }
  }

  sim::Summary summary() const;

 private:
  Timestamp next_event() const {
    Timestamp next = wake_;
    if (came_ < order_.size()) next = std::min(next, jobs_[order_[came_]].job.queued_at);
    if (!ends_.empty()) next = std::min(next, ends_.begin()->first);
    return next;
  }

  void end_and_submit() {
    while (!ends_.empty() && ends_.begin()->first <= now_) {
      const std::size_t job = ends_.begin()->second;
      leave(job, Spell::Ended::kByItself);
      tracks_[job].phase = sim::Phase::kDone;
      tracks_[job].end = now_;
      present_.erase(job);
    }
    while (came_ < order_.size() && jobs_[order_[came_]].job.queued_at <= now_) {
      present_.insert(order_[came_]);
      tracks_[order_[came_++]].phase = sim::Phase::kPending;
    }
  }

  void leave(std::size_t job, Spell::Ended ended) {
    Candidate& row = live_[job];
    ledger_.add({row.project, row.request, row.started_at, now_, ended});
    Ledger::charge(row, row.request, now_ - row.started_at);
    tracks_[job].held = tracks_[job].held + (now_ - row.started_at);
    ends_.erase({row.started_at + jobs_[job].run, job});
    row.stage = Stage::kWaiting;
    row.gpus = 0;
  }

  static void seat(Candidate& row, const Verdict::Place& place) {
    row.gpus = place.gpus;
    row.numa = place.numa;
    row.mig_start = place.mig_start;
    row.checkpoint = {};
  }

  Scene scene() {
    Scene out;
    out.machine = machine_;
    out.queues = rules_.queues;
    out.policy = rules_.policy;
    shown_.clear();
    for (const std::size_t job : present_) {
      shown_.push_back(job);
      out.jobs.push_back(live_[job]);
      out.jobs.back().unmet = 0;
      for (const After& after : live_[job].request.after) {
        const auto before = index_.find(after.job);
        const bool open =
            before != index_.end() && tracks_[before->second].phase != sim::Phase::kDone;
        if (open) ++out.jobs.back().unmet;
      }
    }
    ledger_.inform(out, now_);
    return out;
  }

  // True when places were cleared: there is more to decide at once.
  bool act(const Verdict& verdict) {
    for (const Verdict::Place& place : verdict.admit) {
      const std::size_t job = shown_[place.job];
      Candidate& row = live_[job];
      row.stage = Stage::kRunning;
      seat(row, place);
      row.started_at = now_;
      ends_.insert({now_ + jobs_[job].run, job});
      tracks_[job].phase = sim::Phase::kRunning;
      ++tracks_[job].run;
    }
    for (const Verdict::Place& place : verdict.claim) {
      live_[shown_[place.job]].stage = Stage::kClaimed;
      seat(live_[shown_[place.job]], place);
    }
    for (const std::size_t each : verdict.release) live_[shown_[each]].stage = Stage::kWaiting;
    for (const std::size_t each : verdict.preempt) {
      const std::size_t job = shown_[each];
      tracks_[job].lost = tracks_[job].lost + since_saved(live_[job], now_);
      ++tracks_[job].preemptions;
      leave(job, Spell::Ended::kInterrupted);
      tracks_[job].phase = sim::Phase::kPending;
    }
    return !verdict.preempt.empty();
  }

  void decide() {
    if (waiting() == 0) return;
    bool admitted = false;
    for (int round = 0; round < kRoundsMost; ++round) {
      const Scene now = scene();
      ++passes_;
      const Verdict verdict = judge(now, now_, Telling::kNothing);
      admitted = admitted || !verdict.admit.empty();
      if (!act(verdict)) break;
    }
    next_cycle_ = now_ + Duration::seconds(waiting() / kTogether);
    const bool stuck = ends_.empty() && came_ == order_.size() && !admitted;
    idle_ = stuck ? idle_ + 1 : 0;
    if (waiting() == 0 || idle_ > kIdleMost) return;
    for (const Per per : windows_) wake_ = std::min(wake_, window_of(per, now_).end);
    for (const auto& [end, job] : ends_) {
      const Timestamp may_leave = live_[job].started_at + rules_.policy.policy.preemption.min_run;
      if (may_leave > now_) wake_ = std::min(wake_, may_leave);
    }
  }

  std::int64_t waiting() const {
    return static_cast<std::int64_t>(present_.size()) - static_cast<std::int64_t>(ends_.size());
  }

  void sample() {
    Sample out;
    out.from = now_;
    for (const std::size_t job : present_) {
      const std::int64_t units = units_of(live_[job].request.resources);
      const bool runs = live_[job].stage == Stage::kRunning;
      (runs ? out.busy : out.pending_units) += units;
      out.pending_jobs += runs ? 0 : 1;
    }
    samples_.push_back(out);
  }

  std::vector<sim::Stretch> timeline() const;
  void count_money(sim::Summary& summary) const;

  const Machine& machine_;
  const Rules& rules_;
  const std::vector<PastJob>& jobs_;
  std::vector<sim::JobTrack> tracks_;
  std::vector<Candidate> live_;     // As they are now.
  std::vector<std::size_t> order_;  // By submission.
  std::map<JobId, std::size_t> index_;
  std::size_t came_ = 0;           // Of order_.
  std::set<std::size_t> present_;  // Came and not ended.
  std::set<std::pair<Timestamp, std::size_t>> ends_;
  std::set<Per> windows_;
  std::vector<std::size_t> shown_;  // What stands where in the scene.
  std::vector<Sample> samples_;
  Ledger ledger_;
  Timestamp now_ = Timestamp::min();
  Timestamp wake_ = Timestamp::max();
  Timestamp next_cycle_ = Timestamp::min();
  int idle_ = 0;
  std::int64_t passes_ = 0;
};

// Means over equal stretches.
std::vector<sim::Stretch> Replay::timeline() const {
  std::vector<sim::Stretch> out;
  if (samples_.size() < 2) return out;
  const Timestamp begin = samples_.front().from;
  const Duration width{std::max<std::int64_t>(
      1'000'000'000, ((samples_.back().from - begin).nanos + kStretches - 1) / kStretches)};
  for (std::size_t i = 0; i + 1 < samples_.size(); ++i) {
    for (Timestamp from = samples_[i].from; from < samples_[i + 1].from;) {
      const std::int64_t place = (from - begin).nanos / width.nanos;
      while (out.size() <= static_cast<std::size_t>(place)) {
        const auto next = static_cast<std::int64_t>(out.size());
        out.push_back({.from = begin + Duration{next * width.nanos}});
      }
      sim::Stretch& stretch = out.back();
      const Timestamp to = std::min(samples_[i + 1].from, stretch.from + width);
      const double share = (to - from).as_seconds() / width.as_seconds();
      stretch.busy_gpus += static_cast<double>(samples_[i].busy) * share;
      stretch.pending_jobs += static_cast<double>(samples_[i].pending_jobs) * share;
      stretch.pending_gpus += static_cast<double>(samples_[i].pending_units) * share;
      from = to;
    }
  }
  return out;
}

// By each job's own resources: the simulator knows one price only.
void Replay::count_money(sim::Summary& summary) const {
  std::map<std::string, double> by_queue;
  summary.cost = summary.lost_cost = summary.energy_kwh = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Request& request = jobs_[i].job.request;
    const double price = hourly(request, rules_.policy.prices);
    const double hours = tracks_[i].held.as_seconds() / kHourSeconds;
    by_queue[queue_name(jobs_[i].job.project, jobs_[i].job.request.queue)] += hours * price;
    summary.cost += hours * price;
    summary.lost_cost += tracks_[i].lost.as_seconds() / kHourSeconds * price;
    summary.energy_kwh += hours * static_cast<double>(gpu_milli(request)) / 1000 *
                          static_cast<double>(rules_.policy.prices.watts_per_gpu) / 1000;
  }
  for (sim::TenantSummary& tenant : summary.tenants) tenant.cost = by_queue[tenant.name];
}

sim::Summary Replay::summary() const {
  sim::Trace trace;
  std::map<std::string, std::uint32_t> tenants;
  for (const PastJob& past : jobs_) {
    const std::string queue = queue_name(past.job.project, past.job.request.queue);
    const auto [at, fresh] =
        tenants.try_emplace(queue, static_cast<std::uint32_t>(trace.tenants.size()));
    if (fresh) trace.tenants.push_back(queue);
    trace.jobs.push_back(
        {past.job.queued_at, past.run, units_of(past.job.request.resources), at->second, 0});
  }
  sim::NodeGroup group;
  group.gpus = units_of({machine_.cpu_milli, 0, machine_.gpus});
  const sim::FleetSpec fleet{{group}};
  sim::Outcome outcome;
  outcome.jobs = tracks_;
  outcome.passes = passes_;
  outcome.busy_by_group = {Duration{}};
  outcome.timeline = timeline();
  if (!samples_.empty()) {
    outcome.begin = samples_.front().from;
    outcome.end = samples_.back().from;
    outcome.window = outcome.end - outcome.begin;
  }
  double busy = 0;
  for (std::size_t i = 0; i + 1 < samples_.size(); ++i) {
    busy += static_cast<double>(samples_[i].busy) *
            (samples_[i + 1].from - samples_[i].from).as_seconds();
  }
  const double all = outcome.window.as_seconds() * group.gpus;
  outcome.busy_in_window = all > 0 ? busy / all : 0;
  sim::Summary out = sim::summarise(rules_.name, trace, fleet, outcome);
  count_money(out);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Timestamp deadline = jobs_[i].job.request.deadline;
    const bool ended = tracks_[i].phase == sim::Phase::kDone;
    const bool met = deadline == Timestamp::max() || (ended && tracks_[i].end <= deadline);
    if (!met) out.deadlines_missed.push_back(jobs_[i].job.id.str());
  }
  return out;
}

}  // namespace

scheduler::simulate::Summary replay(const Machine& machine, const Rules& rules,
                                    const std::vector<PastJob>& jobs) {
  Replay replay(machine, rules, jobs);
  replay.run();
  return replay.summary();
}

}  // namespace falaj::jobs
