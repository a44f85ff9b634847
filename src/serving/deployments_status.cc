// What deployments do now, and which of them cannot.
#include <algorithm>

#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

void add_phase_figures(const Series& series, DeploymentStatus& status) {
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    const telemetry::HistogramSnapshot seconds = series.phases[i]->snapshot();
    status.phases[i] = {seconds.count, seconds.sum_seconds};
  }
}

// What one version has done.
void add_figures(const LiveModel& live, DeploymentStatus& status) {
  const Series& series = *live.series;
  const telemetry::HistogramSnapshot seconds = series.seconds.snapshot();
  status.version = live.version.version;
  status.requests = series.requests.value();
  status.errors = series.errors.value();
  status.rows = series.rows.value();
  status.joined = series.joined.value();
  status.refused = series.refused.value();
  status.waiting = live.batcher == nullptr ? 0 : live.batcher->waiting();
  add_cache_figures(live, status);
  status.last_request = Timestamp{series.last_nanos.load(std::memory_order_relaxed)};
  status.seconds_total = seconds.sum_seconds;
  status.p50_ms = seconds.quantile_seconds(0.5) * 1e3;
  status.p99_ms = seconds.quantile_seconds(0.99) * 1e3;
  status.latency = seconds;
}

}  // namespace

std::vector<DeploymentStatus> Deployments::status() const {
  const std::shared_ptr<const Table> table = impl_->table.load();
  std::vector<DeploymentStatus> statuses;
  for (const auto& [key, slot] : *table) {
    DeploymentStatus status;
    status.project = key.first;
    status.name = key.second;
    status.model = slot.declared.model;
    status.alias = slot.declared.alias;
    status.state = slot.state;
    status.error = slot.error;
    status.since = slot.since;
    status.memory_bytes = slot.rest_bytes;
    status.version = slot.rest == Slot::Rest::kAsleep ? slot.slept_version : 0;
    if (slot.live != nullptr) {
      for (const auto& each : slot.live->others) {
        DeploymentStatus other = status;
        add_figures(*each, other);
        status.others.push_back(std::move(other));
      }
      status.memory_bytes = impl_->bytes_of(*slot.live);
      add_phase_figures(*slot.live->series, status);
      add_figures(*slot.live, status);
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

std::vector<DeploymentStatus> Deployments::unready() const {
  std::vector<DeploymentStatus> statuses = status();
  std::erase_if(statuses, [](const DeploymentStatus& each) {
    return each.version != 0 || each.state != "failed";
  });
  return statuses;
}

}  // namespace falaj::serving
