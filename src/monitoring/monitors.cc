#include "monitoring/monitors.h"

#include <map>
#include <set>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "monitoring/internal/store.h"

namespace falaj::monitoring {
namespace {

// Fewer rows say too little about 20 bins.
constexpr std::uint64_t kJudgedRowsMin = 200;

using telemetry::MetricKind;

// What a monitor looks at, resolved anew at each tick.
struct Target {
  std::string project;
  Monitor monitor;
  std::string model;
  std::int64_t wanted_version = 0;  // 0: the alias is not set yet.
  std::string key() const { return project + "/" + monitor.deployment; }
};

// A window that still fills. Not durable: a crash loses at most one window of counts per monitor.
struct OpenWindow {
  std::shared_ptr<const Reference> reference;
  Window window;
};

// One monitor during one tick.
struct Feeding {
  std::set<std::int64_t> versions;
  Status status;  // Once it has failed it is fed no more: the others are.
};

struct MonitorState {
  std::int64_t generation = 0;
  std::map<std::int64_t, OpenWindow> open;  // By version: requests of two may interleave.
};

using MonitorKey = std::pair<std::string, std::string>;  // Project, name.

std::string object_name(const std::string& project, const std::string& monitor) {
  return "Monitor/" + project + "/" + monitor;
}

}  // namespace

struct Monitors::Impl {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  registry::Models& models;
  features::TrainingSets& sets;
  serving::PredictionSink& sink;
  security::Audit& audit;
  const Clock& clock;
  telemetry::Counter& seen;
  telemetry::Counter& dropped;
  telemetry::Counter& unusable;
  telemetry::Counter& windows_closed;
  telemetry::Gauge& alarms_open;

  Mutex ticking;
  std::uint64_t dropped_before FALAJ_GUARDED_BY(ticking) = 0;
  std::map<MonitorKey, MonitorState> states FALAJ_GUARDED_BY(ticking);
  std::map<std::string, std::shared_ptr<const Reference>> references FALAJ_GUARDED_BY(ticking);
  std::set<std::string> reported FALAJ_GUARDED_BY(ticking);  // Missing references, said once.

  Result<std::vector<Target>> resolve() FALAJ_REQUIRES(ticking);
  Status feed(const Target& target, Feeding& feeding, const serving::Prediction& prediction)
      FALAJ_REQUIRES(ticking);
  Status finish(const Target& target, const Feeding& feeding) FALAJ_REQUIRES(ticking);
  Status close_due(const Target& target, MonitorState& state) FALAJ_REQUIRES(ticking);
  Result<std::shared_ptr<const Reference>> reference_of(const Target& target, std::int64_t version)
      FALAJ_REQUIRES(ticking);
  Result<Reference> make_reference(const ModelKey& key);
  Status close(const Target& target, OpenWindow open) FALAJ_REQUIRES(ticking);
  Status raise(storage::SqlTransaction& tx, const Target& target, const Reference& reference,
               Window& window);
  Status close_alarms(const std::vector<Target>& targets) FALAJ_REQUIRES(ticking);
  void count(std::size_t predictions) FALAJ_REQUIRES(ticking);
};

namespace {

telemetry::Counter& counter(telemetry::Metrics& metrics, const char* name, const char* help) {
  return metrics.counter({name, help, MetricKind::kCounter, {}});
}

}  // namespace

Monitors::Monitors(storage::SqlStore& sql, storage::BlobStore& blobs, registry::Models& models,
                   features::TrainingSets& sets, serving::PredictionSink& sink,
                   security::Audit& audit, telemetry::Metrics& metrics, const Clock& clock)
    : impl_(new Impl{
          sql,
          blobs,
          models,
          sets,
          sink,
          audit,
          clock,
          counter(metrics, "falaj_monitoring_predictions_total", "Predictions taken for profiles."),
          counter(metrics, "falaj_monitoring_dropped_total",
                  "Predictions lost because the ring was full."),
          counter(metrics, "falaj_monitoring_unusable_total",
                  "Predictions whose columns do not fit their model's reference."),
          counter(metrics, "falaj_monitoring_windows_total", "Windows closed."),
          metrics.gauge(
              {"falaj_monitoring_alarms_open", "Alarms that are open.", MetricKind::kGauge, {}}),
          {},
          0,
          {},
          {},
          {}}) {}
Monitors::~Monitors() = default;

Status Monitors::tick() {
  MutexLock lock(impl_->ticking);
  const std::vector<Target> targets = FALAJ_TRY(impl_->resolve());
  std::vector<Feeding> feedings(targets.size());
  std::map<std::string, std::vector<std::size_t>> watchers;  // Of a deployment.
  for (std::size_t i = 0; i < targets.size(); ++i) watchers[targets[i].key()].push_back(i);
  Impl* const impl = impl_.get();
  const auto feed = [&](const serving::Prediction& prediction) FALAJ_REQUIRES(impl->ticking) {
    const auto watching = watchers.find(prediction.deployment);
    if (watching == watchers.end()) return;
    for (const std::size_t i : watching->second) {
      if (!feedings[i].status.ok()) continue;
      feedings[i].status = impl->feed(targets[i], feedings[i], prediction);
    }
  };
  impl_->count(impl_->sink.drain(feed));
  FALAJ_TRY(impl_->close_alarms(targets));
  Status first_failure;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    // A monitor that cannot work must not blind the others.
    const Status fed =
        feedings[i].status.ok() ? impl_->finish(targets[i], feedings[i]) : feedings[i].status;
    if (!fed.ok() && first_failure.ok()) first_failure = fed;
  }
  return first_failure;
}

void Monitors::Impl::count(std::size_t predictions) {
  seen.add(predictions);
  const std::uint64_t lost = sink.dropped();
  dropped.add(lost - dropped_before);
  dropped_before = lost;
}

Result<std::vector<Target>> Monitors::Impl::resolve() {
  std::vector<Target> targets;
  auto* const known = &states;  // The lambda below runs under the lock that this call holds.
  std::vector<serving::Deployment> deployments;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "Monitor"))) {
      Target target;
      target.project = object.project;
      target.monitor = FALAJ_TRY(decode_monitor(object));
      const auto deployment = FALAJ_TRY(
          storage::find_object(tx, "Deployment", object.project, target.monitor.deployment));
      if (!deployment.has_value()) continue;
      deployments.push_back(FALAJ_TRY(serving::decode_deployment(*deployment)));
      target.model = deployments.back().model;
      MonitorState& state = (*known)[{target.project, target.monitor.name}];
      // Another declaration, another question: what was counted under the old one is left out.
      if (state.generation != object.generation) state.open.clear();
      state.generation = object.generation;
      targets.push_back(std::move(target));
    }
    return {};
  }));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const serving::Deployment& deployment = deployments[i];
    if (deployment.version.has_value()) {
      targets[i].wanted_version = *deployment.version;
      continue;
    }
    targets[i].wanted_version =
        FALAJ_TRY(models.alias(ProjectName(targets[i].project), deployment.model, deployment.alias))
            .value_or(0);
  }
  return targets;
}

Status Monitors::Impl::feed(const Target& target, Feeding& feeding,
                            const serving::Prediction& prediction) {
  MonitorState& state = states[{target.project, target.monitor.name}];
  feeding.versions.insert(prediction.version);
  auto at = state.open.find(prediction.version);
  if (at == state.open.end()) {
    const auto reference = reference_of(target, prediction.version);
    if (!reference.ok()) {
      if (reference.error().id != ErrorId::kMonitorNoReference) return reference.error();
      return {};
    }
    OpenWindow fresh;
    fresh.reference = *reference;
    fresh.window.project = target.project;
    fresh.window.monitor = target.monitor.name;
    fresh.window.zone = fresh.reference->zone;
    fresh.window.version = prediction.version;
    fresh.window.from = prediction.at;
    fresh.window.profile = empty_profile(fresh.reference->bins);
    at = state.open.emplace(prediction.version, std::move(fresh)).first;
  }
  OpenWindow& open = at->second;
  if (prediction.features.size() != open.reference->bins.size()) {
    unusable.add();
    return {};
  }
  add_row(open.reference->bins, prediction.features, open.window.profile);
  open.window.to = std::max(open.window.to, prediction.at);
  const bool full =
      target.monitor.window_rows > 0 && open.window.profile.rows >= target.monitor.window_rows;
  if (!full) return {};
  OpenWindow closed = std::move(open);
  state.open.erase(at);
  return close(target, std::move(closed));
}

Status Monitors::Impl::finish(const Target& target, const Feeding& feeding) {
  MonitorState& state = states[{target.project, target.monitor.name}];
  // A version that others have replaced leaves a part of a window: too little to judge.
  if (!feeding.versions.empty()) {
    std::erase_if(state.open,
                  [&](const auto& entry) { return !feeding.versions.contains(entry.first); });
  }
  return close_due(target, state);
}

Status Monitors::Impl::close_due(const Target& target, MonitorState& state) {
  if (target.monitor.window_time == Duration{}) return {};
  for (auto at = state.open.begin(); at != state.open.end();) {
    const Timestamp end = at->second.window.from + target.monitor.window_time;
    if (clock.now() < end) {
      ++at;
      continue;
    }
    OpenWindow closed = std::move(at->second);
    closed.window.to = end;
    at = state.open.erase(at);
    FALAJ_TRY(close(target, std::move(closed)));
  }
  return {};
}

Result<std::shared_ptr<const Reference>> Monitors::Impl::reference_of(const Target& target,
                                                                      std::int64_t version) {
  const ModelKey key{target.project, target.model, version};
  const std::string name = key.project + "/" + key.model + "/" + std::to_string(version);
  if (const auto cached = references.find(name); cached != references.end()) {
    return cached->second;
  }
  if (reported.contains(name)) {
    return Error(ErrorId::kMonitorNoReference, "version " + name + " has no reference");
  }
  std::optional<Reference> stored;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    stored = FALAJ_TRY(find_reference(tx, key));
    return {};
  }));
  if (!stored.has_value()) {
    Result<Reference> made = make_reference(key);
    if (!made.ok()) {
      if (made.error().id == ErrorId::kMonitorNoReference) {
        reported.insert(name);
        log::warn("monitor has no reference",
                  {{"version", name}, {"reason", made.error().message}});
      }
      return made.error();
    }
    stored = std::move(made).value();
  }
  auto shared = std::make_shared<const Reference>(std::move(*stored));
  references.emplace(name, shared);
  return std::shared_ptr<const Reference>(std::move(shared));
}

Result<Reference> Monitors::Impl::make_reference(const ModelKey& key) {
  const ProjectName project(key.project);
  const registry::ModelVersion version = FALAJ_TRY(models.get(project, key.model, key.version));
  if (version.training_set.empty() || version.signature.features.empty()) {
    return Error(ErrorId::kMonitorNoReference, "version " + std::to_string(key.version) + " of '" +
                                                   key.model +
                                                   "' was not trained on a frozen training set");
  }
  const features::Manifest manifest = FALAJ_TRY(sets.by_id(project, version.training_set));
  const auto data = FALAJ_TRY(blobs.open(features::owner_of(manifest), manifest.data));
  Reference reference = FALAJ_TRY(build_reference(manifest, *data, version.signature.features));
  reference.zone = Zone(version.zone);
  Value detail;
  detail["training_set"] = reference.training_set;
  detail["rows"] = reference.profile.rows;
  detail["counts"] = sha256_hex(to_json(to_value(reference.profile)));
  const security::RequestContext context =
      security::system_context("service:monitoring", project, Zone(version.zone));
  FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(insert_reference(tx, key, reference));
    FALAJ_TRY(audit.append(
        tx, context,
        {"monitor.reference",
         "ModelVersion/" + key.project + "/" + key.model + "/" + std::to_string(key.version),
         detail}));
    return {};
  }));
  return reference;
}

Status Monitors::Impl::close(const Target& target, OpenWindow open) {
  Window& window = open.window;
  const bool judged = target.monitor.window_rows > 0 || window.profile.rows >= kJudgedRowsMin;
  Verdict verdict = Verdict::kUnjudged;
  if (judged) {
    window.drift = measure_drift(open.reference->bins, open.reference->profile, window.profile,
                                 target.monitor.method, target.monitor.threshold);
    verdict = window.drift.drifted > 0 ? Verdict::kDrifted : Verdict::kSteady;
  }
  windows_closed.add();
  return sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(insert_window(tx, target.model, verdict, window));
    FALAJ_TRY(forget_windows(tx, window));
    if (verdict != Verdict::kDrifted) return {};
    const std::uint64_t bad = FALAJ_TRY(count_drifted(tx, window, target.monitor.windows_seen));
    if (bad < target.monitor.windows_bad) return {};
    return raise(tx, target, *open.reference, window);
  });
}

// Once per monitor and version: the unique index of open alarms holds against any race.
Status Monitors::Impl::raise(storage::SqlTransaction& tx, const Target& target,
                             const Reference& reference, Window& window) {
  window.alarm = true;
  FALAJ_TRY(mark_alarm(tx, window.id));
  if (window.version != target.wanted_version) return {};  // It is being replaced already.
  for (const Alarm& open : FALAJ_TRY(select_alarms(tx, target.project, AlarmFilter::kOpen))) {
    if (open.monitor == target.monitor.name && open.version == window.version) return {};
  }
  Alarm alarm;
  alarm.project = target.project;
  alarm.monitor = target.monitor.name;
  alarm.zone = window.zone;
  alarm.deployment = target.monitor.deployment;
  alarm.version = window.version;
  alarm.window = window.id;
  alarm.drift = window.drift;
  alarm.at = clock.now();
  alarm.id = FALAJ_TRY(insert_alarm(tx, alarm));
  Value detail;
  detail["alarm"] = alarm.id;
  detail["deployment"] = alarm.deployment;
  detail["version"] = alarm.version;
  detail["window"] = alarm.window;
  detail["rows"] = window.profile.rows;
  detail["counts"] = sha256_hex(to_json(to_value(window.profile)));
  detail["reference"] = reference.training_set;
  detail["method"] = method_name(target.monitor.method);
  detail["threshold"] = target.monitor.threshold;
  detail["drift"] = to_value(alarm.drift);
  const security::RequestContext context =
      security::system_context("service:monitoring", ProjectName(target.project), Zone());
  FALAJ_TRY(audit.append(
      tx, context,
      {"monitor.alarm", object_name(alarm.project, alarm.monitor), std::move(detail)}));
  return {};
}

Status Monitors::Impl::close_alarms(const std::vector<Target>& targets) {
  std::map<MonitorKey, std::int64_t> wanted;
  for (const Target& target : targets) {
    wanted[{target.project, target.monitor.name}] = target.wanted_version;
  }
  std::vector<Alarm> open;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    open = FALAJ_TRY(select_alarms(tx, "", AlarmFilter::kOpen));
    return {};
  }));
  std::size_t still_open = 0;
  for (const Alarm& alarm : open) {
    const auto monitor = wanted.find({alarm.project, alarm.monitor});
    const bool watched = monitor != wanted.end();
    if (watched && monitor->second == alarm.version) {
      ++still_open;
      continue;
    }
    Value detail;
    detail["alarm"] = alarm.id;
    detail["version"] = alarm.version;
    detail["reason"] = watched ? "version " + std::to_string(monitor->second) + " serves now"
                               : std::string("the monitor or its deployment was deleted");
    const security::RequestContext context =
        security::system_context("service:monitoring", ProjectName(alarm.project), Zone());
    FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(close_alarm(tx, alarm.id, clock.now()));
      FALAJ_TRY(audit.append(tx, context,
                             {"monitor.close", object_name(alarm.project, alarm.monitor), detail}));
      return {};
    }));
  }
  alarms_open.set(static_cast<double>(still_open));
  return {};
}

Result<std::vector<Window>> Monitors::windows(const ProjectName& project,
                                              const std::string& monitor,
                                              std::int64_t limit) const {
  std::vector<Window> windows;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (StoredWindow& stored : FALAJ_TRY(select_windows(tx, {project.str(), monitor, 0, limit}))) {
      windows.push_back(std::move(stored.window));
    }
    return {};
  }));
  return windows;
}

Result<Monitors::Histograms> Monitors::histograms(const ProjectName& project,
                                                  const std::string& monitor,
                                                  std::int64_t window_id) const {
  Histograms histograms;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(storage::get_object(tx, "Monitor", project.str(), monitor));
    std::vector<StoredWindow> found =
        FALAJ_TRY(select_windows(tx, {project.str(), monitor, window_id, 1}));
    if (found.empty() && window_id != 0) {
      return Error(ErrorId::kNotFound,
                   "monitor '" + monitor + "' has no window " + std::to_string(window_id));
    }
    const Error nothing(ErrorId::kMonitorNoReference,
                        "monitor '" + monitor + "' has not closed a window yet");
    if (found.empty()) return nothing;
    StoredWindow& stored = found.front();
    const auto reference =
        FALAJ_TRY(find_reference(tx, {project.str(), stored.model, stored.window.version}));
    if (!reference.has_value()) return nothing;
    histograms.bins = reference->bins;
    histograms.reference = reference->profile;
    histograms.current = stored.window.profile;
    histograms.window = std::move(stored.window);
    return {};
  }));
  return histograms;
}

Result<std::vector<Monitors::Alarm>> Monitors::alarms(const ProjectName& project) const {
  std::vector<Alarm> alarms;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    alarms = FALAJ_TRY(select_alarms(tx, project.str(), AlarmFilter::kAll));
    return {};
  }));
  return alarms;
}

}  // namespace falaj::monitoring
