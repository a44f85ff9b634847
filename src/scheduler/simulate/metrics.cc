#include "scheduler/simulate/metrics.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace falaj::scheduler::simulate {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kMicros = 1e6;

double at_share(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last + 0.5)];
}

Spread spread(std::vector<double>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), at_share(values, 0.5), at_share(values, 0.9),
          at_share(values, 0.99)};
}

// One job's part in the figures.
struct Part {
  double jct = 0;
  double wait = 0;
  double slowdown = 0;
  double gpu_hours = 0;
};

Part part_of(const TraceJob& spec, const JobTrack& track) {
  Part part;
  part.jct = (track.end - spec.submit).as_seconds();
  part.wait = part.jct - track.held.as_seconds();
  const double run = std::max(spec.duration.as_seconds(), kSlowdownFloorSeconds);
  part.slowdown = std::max(1.0, part.jct / run);
  part.gpu_hours = track.held.as_seconds() * spec.gpus / kSecondsPerHour;
  return part;
}

// The fleet's mean price of a GPU hour: which group a job ran on is not kept by job.
double price_per_gpu_hour(const FleetSpec& fleet, const Outcome& outcome) {
  double money = 0;
  double hours = 0;
  for (std::size_t group = 0; group < fleet.groups.size(); ++group) {
    const double held = outcome.busy_by_group[group].as_seconds() / kSecondsPerHour;
    money += held * static_cast<double>(fleet.groups[group].micros_per_gpu_hour) / kMicros;
    hours += held;
  }
  return hours > 0 ? money / hours : 0;
}

double energy_kwh(const FleetSpec& fleet, const Outcome& outcome) {
  const double span = (outcome.end - outcome.begin).as_seconds() / kSecondsPerHour;
  double watt_hours = 0;
  for (std::size_t group = 0; group < fleet.groups.size(); ++group) {
    const NodeGroup& shape = fleet.groups[group];
    const double all = span * static_cast<double>(shape.nodes) * shape.gpus;
    const double busy = outcome.busy_by_group[group].as_seconds() / kSecondsPerHour;
    watt_hours += busy * shape.busy_watts + std::max(0.0, all - busy) * shape.idle_watts;
  }
  return watt_hours / 1000;
}

double jain_index(const std::vector<TenantSummary>& tenants) {
  double sum = 0;
  double squares = 0;
  for (const TenantSummary& tenant : tenants) {
    const double served = 1 / tenant.slowdown_mean;
    sum += served;
    squares += served * served;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(tenants.size()) * squares) : 0;
}

// Sums first, then means.
class Tally {
 public:
  Tally(const Trace& trace, double price) : trace_(trace), price_(price) {}

  void add(const TraceJob& spec, const Part& part) {
    TenantSummary& tenant = tenants_[spec.tenant];
    ++tenant.jobs;
    tenant.gpu_hours += part.gpu_hours;
    tenant.wait_mean += part.wait;
    tenant.jct_mean += part.jct;
    tenant.slowdown_mean += part.slowdown;
    SizeSummary& size = sizes_[spec.gpus];
    ++size.jobs;
    size.jct_mean += part.jct;
    size.slowdown_mean += part.slowdown;
  }

  void finish(Summary& summary) {
    for (auto& [id, tenant] : tenants_) {
      const auto count = static_cast<double>(tenant.jobs);
      tenant.name = trace_.tenants[id];
      tenant.wait_mean /= count;
      tenant.jct_mean /= count;
      tenant.slowdown_mean /= count;
      tenant.cost = tenant.gpu_hours * price_;
      summary.tenants.push_back(tenant);
    }
    std::stable_sort(
        summary.tenants.begin(), summary.tenants.end(),
        [](const TenantSummary& a, const TenantSummary& b) { return a.gpu_hours > b.gpu_hours; });
    for (auto& [gpus, size] : sizes_) {
      const auto count = static_cast<double>(size.jobs);
      if (gpus >= kLargeGpus) {
        summary.large_slowdown += size.slowdown_mean;
        summary.large_jobs += size.jobs;
      }
      summary.sizes.push_back({gpus, size.jobs, size.jct_mean / count, size.slowdown_mean / count});
    }
    if (summary.large_jobs > 0) summary.large_slowdown /= static_cast<double>(summary.large_jobs);
    summary.jain = jain_index(summary.tenants);
  }

 private:
  const Trace& trace_;
  double price_;
  std::map<std::uint32_t, TenantSummary> tenants_;
  std::map<std::int32_t, SizeSummary> sizes_;
};

Value spread_value(const Spread& spread) {
  Value value = Value::object();
  value["mean"] = spread.mean;
  value["p50"] = spread.p50;
  value["p90"] = spread.p90;
  value["p99"] = spread.p99;
  return value;
}

Value tenant_value(const TenantSummary& tenant) {
  Value value = Value::object();
  value["name"] = tenant.name;
  value["jobs"] = tenant.jobs;
  value["gpu_hours"] = tenant.gpu_hours;
  value["wait_mean_s"] = tenant.wait_mean;
  value["jct_mean_s"] = tenant.jct_mean;
  value["slowdown_mean"] = tenant.slowdown_mean;
  value["cost"] = tenant.cost;
  return value;
}

Value size_value(const SizeSummary& size) {
  Value value = Value::object();
  value["gpus"] = size.gpus;
  value["jobs"] = size.jobs;
  value["jct_mean_s"] = size.jct_mean;
  value["slowdown_mean"] = size.slowdown_mean;
  return value;
}

}  // namespace

Summary summarise(std::string policy, const Trace& trace, const FleetSpec& fleet,
                  const Outcome& outcome) {
  Summary out;
  out.policy = std::move(policy);
  const double price = price_per_gpu_hour(fleet, outcome);
  Tally tally(trace, price);
  std::vector<double> jct;
  std::vector<double> wait;
  std::vector<double> slowdown;
  double gpu_hours = 0;
  for (std::size_t i = 0; i < outcome.jobs.size(); ++i) {
    const JobTrack& track = outcome.jobs[i];
    if (track.phase != Phase::kDone) {
      ++out.refused;
      continue;
    }
    const Part part = part_of(trace.jobs[i], track);
    jct.push_back(part.jct);
    wait.push_back(part.wait);
    slowdown.push_back(part.slowdown);
    gpu_hours += part.gpu_hours;
    out.preemptions += track.preemptions;
    out.lost_gpu_hours += track.lost.as_seconds() * trace.jobs[i].gpus / kSecondsPerHour;
    tally.add(trace.jobs[i], part);
  }
  out.jobs = static_cast<std::int64_t>(jct.size());
  out.jct = spread(jct);
  out.wait = spread(wait);
  out.slowdown = spread(slowdown);
  for (int percent = 0; percent <= 100; ++percent) {
    out.jct_quantiles.push_back(at_share(jct, percent / 100.0));
  }
  tally.finish(out);
  out.utilisation = outcome.busy_in_window;
  out.fragmentation = outcome.idle_while_waiting;
  out.scattered = outcome.scattered;
  out.preemptions_per_job =
      out.jobs > 0 ? static_cast<double>(out.preemptions) / static_cast<double>(out.jobs) : 0;
  out.node_failures = outcome.node_failures;
  out.energy_kwh = energy_kwh(fleet, outcome);
  out.cost = gpu_hours * price;
  out.lost_cost = out.lost_gpu_hours * price;
  out.makespan_hours = (outcome.end - outcome.begin).as_seconds() / kSecondsPerHour;
  out.passes = outcome.passes;
  out.timeline = outcome.timeline;
  return out;
}

namespace {

Value promises_value(const Promises& promises) {
  const auto made = static_cast<double>(promises.made);
  Value value = Value::object();
  value["made"] = promises.made;
  value["within"] = promises.within;
  value["early"] = promises.early;
  value["late"] = promises.late;
  value["open"] = promises.open;
  value["share_within"] = made > 0 ? static_cast<double>(promises.within) / made : 0;
  value["share_by_latest"] =
      made > 0 ? static_cast<double>(promises.within + promises.early) / made : 0;
  return value;
}

}  // namespace

Value to_value(const Summary& summary) {
  Value value = Value::object();
  value["policy"] = summary.policy;
  value["jobs"] = summary.jobs;
  value["refused"] = summary.refused;
  value["jct_s"] = spread_value(summary.jct);
  value["wait_s"] = spread_value(summary.wait);
  value["slowdown"] = spread_value(summary.slowdown);
  value["large_slowdown"] = summary.large_slowdown;
  value["large_jobs"] = summary.large_jobs;
  value["jain"] = summary.jain;
  value["utilisation"] = summary.utilisation;
  value["fragmentation"] = summary.fragmentation;
  value["scattered"] = summary.scattered;
  value["preemptions"] = summary.preemptions;
  value["preemptions_per_job"] = summary.preemptions_per_job;
  value["node_failures"] = summary.node_failures;
  value["lost_gpu_hours"] = summary.lost_gpu_hours;
  value["energy_kwh"] = summary.energy_kwh;
  value["cost"] = summary.cost;
  value["lost_cost"] = summary.lost_cost;
  value["makespan_hours"] = summary.makespan_hours;
  if (summary.promises.made + summary.promises.open > 0) {
    value["start_intervals"] = promises_value(summary.promises);
  }
  value["deadlines_missed"] = static_cast<std::int64_t>(summary.deadlines_missed.size());
  value["passes"] = summary.passes;
  value["replay_seconds"] = summary.replay_seconds;
  value["tenants"] = Value::array();
  for (const TenantSummary& tenant : summary.tenants) value["tenants"].push(tenant_value(tenant));
  value["sizes"] = Value::array();
  for (const SizeSummary& size : summary.sizes) value["sizes"].push(size_value(size));
  return value;
}

}  // namespace falaj::scheduler::simulate
