// serving/deployment_status.h — what a deployment does, as people and metrics see it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "serving/phases.h"
#include "telemetry/metrics.h"

namespace falaj::serving {

struct DeploymentStatus {
  std::string project;
  std::string name;
  std::string model;
  std::string alias;         // The alias it follows; "" when its version is pinned.
  std::int64_t version = 0;  // 0: nothing serves yet.
  std::string state;         // "ready", "loading", "failed", "unloaded", "idle"
  std::string error;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  std::uint64_t rows = 0;    // That the model predicted; a request may bring many.
  double seconds_total = 0;  // Time spent on all requests.
  std::uint64_t joined = 0;  // Requests that ran along with another.
  // Answers that were kept, and questions that were run for because there was none; with the time
  // that looking, reading and keeping took. Requests that waited for an equal one are `joined`.
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  double cache_hit_seconds = 0;
  double cache_miss_seconds = 0;
  // Requests that were answered over the network, by phase (phases.h), of all versions.
  struct PhaseFigure {
    std::uint64_t count = 0;
    double seconds = 0;
  };
  std::array<PhaseFigure, kPhases.size()> phases{};
  const PhaseFigure& of(Phase phase) const { return phases[static_cast<std::size_t>(phase)]; }
  std::uint64_t refused = 0;  // For being too late, or too many.
  std::size_t waiting = 0;    // Requests that wait for a run now.
  Timestamp last_request{};   // 1970: none yet.
  Timestamp since{};
  // What its models were counted with when they were loaded (budget/memory_budget.h); of one that
  // is idle, what they will need.
  std::int64_t memory_bytes = 0;
  // The further versions that answer who names them: version and counts. Not part of to_value().
  std::vector<DeploymentStatus> others{};
  telemetry::HistogramSnapshot latency;  // Of `version` alone; not part of to_value().

  std::uint64_t succeeded() const { return requests - std::min(errors, requests); }
  // Requests that the model ran for, and its runs: those that ran along with another had none of
  // their own, nor had those of the cache.
  std::uint64_t computed() const { return succeeded() - std::min(cache_hits, succeeded()); }
  std::uint64_t runs() const { return computed() - std::min(joined, computed()); }
};
Value to_value(const DeploymentStatus& status);

}  // namespace falaj::serving
