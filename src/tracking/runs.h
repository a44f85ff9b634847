// tracking/runs.h — runs: what was tried, with which parameters, and how it went.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/value.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"

namespace falaj::tracking {

enum class RunStatus : std::uint8_t { kQueued, kRunning, kFinished, kFailed, kStopped };
std::string_view status_name(RunStatus status);  // "queued", "running", …

struct Run {
  RunId id;
  std::string project;
  Zone zone;               // Of what it reads; "" is refused.
  std::string experiment;  // The TrainJob's name.
  RunStatus status = RunStatus::kQueued;
  Value params;
  Value metrics;        // Newest value per metric: {"auc": 0.93}
  Value inputs;         // {"training_set": {name, id}}
  Value outputs;        // {"model": {name, version}}
  std::string error;    // Why it failed, for a person.
  double progress = 0;  // 0–1
  Timestamp created_at{};
  Timestamp started_at{};
  Timestamp ended_at{};
};
Value to_value(const Run& run);

struct MetricPoint {
  std::string metric;
  std::int64_t step = 0;
  double value = 0;
  Timestamp at{};
};

extern const storage::Migration kTrackingMigration;

// Thread-safe.
class Runs {
 public:
  Runs(storage::SqlStore& sql, security::Audit& audit, const Clock& clock);

  Result<Run> create(const security::RequestContext& context, Run run);
  Status start(const RunId& id);
  // A step's newer value takes the place of the older, with its time; the same value said again
  // keeps the time at which it was said first.
  Status log_metrics(const RunId& id, const std::vector<MetricPoint>& points);
  Status set_progress(const RunId& id, double progress);
  // The run's closing figures (e.g. of the best round): replaces newest values, adds no history.
  Status set_metrics(const RunId& id, const Value& metrics);
  // `outputs` is merged. Ending twice is kConflict.
  Status end(const security::RequestContext& context, const RunId& id, RunStatus status,
             const std::string& error, const Value& outputs);
  Result<Run> get(const RunId& id) const;
  // Newest first.
  Result<std::vector<Run>> list(const ProjectName& project, std::int64_t limit = 100) const;
  Result<std::vector<MetricPoint>> history(const RunId& id, const std::string& metric) const;
  // Runs a dead process left "running" or "queued": for recovery at start.
  Result<std::vector<Run>> unfinished() const;

 private:
  storage::SqlStore& sql_;
  security::Audit& audit_;
  const Clock& clock_;
};

}  // namespace falaj::tracking
