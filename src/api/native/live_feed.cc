#include "api/native/live_feed.h"

#include <algorithm>

#include "api/caller.h"
#include "base/json.h"

namespace falaj::api {
namespace {

constexpr std::int64_t kRunsMax = 1000;

// The observations made between two snapshots of one histogram.
telemetry::HistogramSnapshot between(const telemetry::HistogramSnapshot& before,
                                     const telemetry::HistogramSnapshot& after) {
  telemetry::HistogramSnapshot change = after;
  change.count -= before.count;
  change.sum_seconds -= before.sum_seconds;
  const std::size_t shared = std::min(change.buckets.size(), before.buckets.size());
  for (std::size_t i = 0; i < shared; ++i) change.buckets[i] -= before.buckets[i];
  return change;
}

Result<Value> counts_of(Services& services, const ProjectName& project) {
  Value counts;
  const auto count_kind = [&](std::string_view kind) -> Result<Value> {
    return Value(FALAJ_TRY(services.catalog.list(std::string(kind), project.str())).size());
  };
  counts["sources"] = FALAJ_TRY(count_kind("Source"));
  counts["feature_views"] = FALAJ_TRY(count_kind("FeatureView"));
  counts["deployments"] = FALAJ_TRY(count_kind("Deployment"));
  counts["monitors"] = FALAJ_TRY(count_kind("Monitor"));
  counts["policies"] = FALAJ_TRY(count_kind("Policy"));
  std::uint64_t rows = 0;
  for (const auto& view : FALAJ_TRY(services.view_stats(project))) rows += view.rows;
  counts["rows"] = rows;
  counts["training_sets"] = FALAJ_TRY(services.training_sets.list(project)).size();
  std::size_t versions = 0;
  const auto models = FALAJ_TRY(services.models.models(project));
  for (const auto& model : models) {
    versions += FALAJ_TRY(services.models.versions(project, model)).size();
  }
  counts["models"] = models.size();
  counts["model_versions"] = versions;
  std::vector<security::access::Emergency> emergencies;
  if (services.emergencies != nullptr) {
    emergencies = FALAJ_TRY(services.emergencies->list(project.str()));
  }
  const auto broken = std::count_if(emergencies.begin(), emergencies.end(),
                                    [](const auto& emergency) { return emergency.open(); });
  const auto alarms = FALAJ_TRY(services.monitors.alarms(project));
  const auto drifted =
      std::count_if(alarms.begin(), alarms.end(), [](const auto& alarm) { return alarm.open; });
  counts["alarms"] = alarms.size() + emergencies.size();
  counts["alarms_open"] = drifted + broken;
  counts["emergencies_open"] = broken;
  return counts;
}

}  // namespace

LiveFeed::Log LiveFeed::log_for(const net::Request& request) {
  return may(request, "audit.read", {}) ? Log::kShown : Log::kHidden;
}

Result<Value> LiveFeed::overview(const net::Request& request) const {
  return overview_of(project_of(request), log_for(request));
}

Result<Value> LiveFeed::overview_of(const ProjectName& project, Log log) const {
  Value value;
  Value counts = FALAJ_TRY(counts_of(services_, project));
  const auto runs = FALAJ_TRY(services_.runs.list(project, kRunsMax));
  counts["runs"] = runs.size();
  value["running"] = Value::array();
  for (const auto& run : runs) {
    if (run.status != tracking::RunStatus::kRunning) continue;
    Value row;
    row["run"] = run.id.str();
    row["experiment"] = run.experiment;
    row["progress"] = run.progress;
    value["running"].push(std::move(row));
  }
  if (log == Log::kShown) {
    const security::AuditHead head = FALAJ_TRY(services_.audit.head());
    counts["audit_entries"] = head.sequence;
    value["head"]["sequence"] = head.sequence;
    value["head"]["hash"] = head.hash;
  }
  value["counts"] = std::move(counts);
  value["deployments"] = Value::array();
  for (const auto& status : services_.deployments.status()) {
    if (status.project == project.str()) value["deployments"].push(to_value(status));
  }
  value["latency"] = latency_of(project.str());
  return value;
}

Value LiveFeed::latency_of(const std::string& project) const {
  MutexLock lock(mutex_);
  Value list = Value::array();
  for (const auto& [path, samples] : samples_) {
    if (!path.starts_with(project + "/")) continue;
    Value row;
    row["deployment"] = path.substr(project.size() + 1);
    row["points"] = Value::array();
    for (const Sample& sample : samples) {
      Value point;
      point["t"] = sample.unix_ms;
      point["p50_ms"] = sample.p50_ms;
      point["p99_ms"] = sample.p99_ms;
      point["rps"] = sample.requests_per_second;
      row["points"].push(std::move(point));
    }
    list.push(std::move(row));
  }
  return list;
}

void LiveFeed::subscribe(const net::Request& request, std::shared_ptr<net::Stream> stream) {
  const Result<Value> now = overview(request);
  std::string text = now.ok() ? to_json(now.value()) : "{}";
  if (!stream->send("retry: 2000\ndata: " + text + "\n\n")) return;
  MutexLock lock(mutex_);
  subscribers_.push_back({request, std::move(stream), std::move(text)});
}

void LiveFeed::sample_latencies() {
  const Timestamp now = services_.clock.now();
  MutexLock lock(mutex_);
  if (now - sampled_at_ < Duration::milliseconds(900)) return;
  const double seconds = sampled_at_.nanos == 0 ? 1.0 : (now - sampled_at_).as_seconds();
  sampled_at_ = now;
  for (const auto& status : services_.deployments.status()) {
    const std::string path = status.project + "/" + status.name;
    // Each version counts for itself, so the one before must be of the same version.
    auto& before = before_[path + "/" + std::to_string(status.version)];
    const auto change = between(before, status.latency);
    before = status.latency;
    std::deque<Sample>& samples = samples_[path];
    // A quiet deployment adds one zero after traffic, not an endless row of them.
    if (change.count == 0 && (samples.empty() || samples.back().requests_per_second == 0)) continue;
    samples.push_back({now.nanos / 1'000'000, change.quantile_seconds(0.5) * 1e3,
                       change.quantile_seconds(0.99) * 1e3,
                       static_cast<double>(change.count) / seconds});
    if (samples.size() > kSamplesMax) samples.pop_front();
  }
}

void LiveFeed::tell_runs(Subscriber& subscriber, const std::vector<tracking::Run>& newest) const {
  const net::Request& request = subscriber.request;
  for (const tracking::Run& run : newest) {
    const bool runs = run.status == tracking::RunStatus::kRunning;
    if (!runs && !subscriber.runs.contains(run.id)) continue;
    if (!may(request, "models.read", {run.project, "Run", run.id.str(), nullptr})) continue;
    Value value;
    value["run"] = run.id.str();
    value["experiment"] = run.experiment;
    value["status"] = tracking::status_name(run.status);
    value["progress"] = run.progress;
    value["metrics"] = run.metrics;
    std::string text = to_json(value);
    std::string& last = subscriber.runs[run.id];
    if (text != last && !subscriber.stream->send("event: metrics\ndata: " + text + "\n\n")) {
      return subscriber.stream->close();
    }
    last = std::move(text);
    if (!runs) subscriber.runs.erase(run.id);
  }
}

void LiveFeed::tick() {
  logs_.tick();
  sample_latencies();
  std::vector<Subscriber> subscribers;
  {
    MutexLock lock(mutex_);
    subscribers.swap(subscribers_);
  }
  // One overview per project and right, however many listen.
  std::map<std::pair<std::string, Log>, std::string> rendered;
  std::map<std::string, std::vector<tracking::Run>> runs;
  for (Subscriber& subscriber : subscribers) {
    if (!ask_again(subscriber.request).ok()) {
      subscriber.stream->close();
      continue;
    }
    const net::Request& request = subscriber.request;
    std::string& text = rendered[{project_of(request).str(), log_for(request)}];
    if (text.empty()) {
      const Result<Value> now = overview(request);
      text = now.ok() ? to_json(now.value()) : subscriber.last;
    }
    const auto [newest, fresh] = runs.try_emplace(project_of(request).str());
    if (fresh) {
      auto listed = services_.runs.list(project_of(request), kRunsMax);
      if (listed.ok()) newest->second = std::move(*listed);
    }
    tell_runs(subscriber, newest->second);
    if (text == subscriber.last) continue;
    if (!subscriber.stream->send("data: " + text + "\n\n")) subscriber.stream->close();
    subscriber.last = text;
  }
  std::erase_if(subscribers, [](const Subscriber& s) { return !s.stream->open(); });
  MutexLock lock(mutex_);
  for (Subscriber& added : subscribers_) subscribers.push_back(std::move(added));
  subscribers_ = std::move(subscribers);
}

}  // namespace falaj::api
