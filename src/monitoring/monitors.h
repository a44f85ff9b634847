// monitoring/monitors.h — watches deployments: windows of predictions, their drift, alarms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "features/training_sets.h"
#include "monitoring/drift.h"
#include "registry/models.h"
#include "security/audit.h"
#include "serving/deployments.h"
#include "storage/objects.h"
#include "telemetry/metrics.h"

namespace falaj::monitoring {

// kind: Monitor
// spec: {deployment: fraud, window: 2000 rows | 1h, drift: {method: psi, threshold: 0.2, of: 2 in
// 3}}
struct Monitor {
  std::string name;
  std::string deployment;
  std::uint64_t window_rows = 0;  // Either this…
  Duration window_time{};         // …or this; a time window with under 200 rows is not judged.
  Method method = Method::kPsi;
  double threshold = 0.2;
  std::uint64_t windows_bad = 1;  // "of: k in n": an alarm when k of the last n windows drifted.
  std::uint64_t windows_seen = 1;
};
Result<Monitor> decode_monitor(const storage::Object& object);
std::vector<storage::KindInfo> kinds();

// One closed window; stored with its counts so that the verdict can be recomputed.
struct Window {
  std::int64_t id = 0;
  std::string project;
  std::string monitor;
  Zone zone{};               // Of the model, and so of what it answered from.
  std::int64_t version = 0;  // Model version that answered.
  Timestamp from{};
  Timestamp to{};
  Profile profile;
  DriftReport drift;
  bool alarm = false;
};
Value to_value(const Window& window);  // Without the counts; see to_histograms.

extern const storage::Migration kMonitoringMigration;

class Monitors {
 public:
  Monitors(storage::SqlStore& sql, storage::BlobStore& blobs, registry::Models& models,
           features::TrainingSets& sets, serving::PredictionSink& sink, security::Audit& audit,
           telemetry::Metrics& metrics, const Clock& clock);
  ~Monitors();

  // Drains the sink, closes windows that are full or over, judges them, raises alarms.
  Status tick();

  Result<std::vector<Window>> windows(const ProjectName& project, const std::string& monitor,
                                      std::int64_t limit = 100) const;  // Newest first.
  struct Histograms {
    std::vector<Bins> bins;
    Profile reference;
    Profile current;
    Window window;
  };
  // FJ-6001 when no reference exists yet. window_id 0: the newest.
  Result<Histograms> histograms(const ProjectName& project, const std::string& monitor,
                                std::int64_t window_id = 0) const;
  struct Alarm {
    std::int64_t id = 0;
    std::string project;
    std::string monitor;
    Zone zone{};
    std::string deployment;
    std::int64_t version = 0;
    std::int64_t window = 0;
    DriftReport drift;
    Timestamp at{};
    bool open = true;  // Closed when another version serves, or by hand.
  };
  Result<std::vector<Alarm>> alarms(const ProjectName& project) const;  // Newest first.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
Value to_value(const Monitors::Alarm& alarm);
Value to_value(const Monitors::Histograms& histograms);

}  // namespace falaj::monitoring
