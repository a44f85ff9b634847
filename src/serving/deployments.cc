#include "serving/deployments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/published.h"

namespace falaj::serving {

// Shared by the live model, so that touching a counter on the hot path looks nothing up.
struct Series {
  std::string full_name;  // "payments/fraud"
  telemetry::Counter& requests;
  telemetry::Counter& errors;
  telemetry::Counter& rows;
  telemetry::Histogram& seconds;
};

namespace {

// A load that failed is tried again after this, or at once when something it depends on changed.
constexpr Duration kRetryAfter = Duration::seconds(30);
constexpr std::size_t kLoggedRowsMax = 1000;

struct Slot {
  Deployment declared;
  std::int64_t generation = 0;
  std::shared_ptr<const LiveModel> live;  // null: nothing serves yet.
  std::string state = "loading";
  std::string error;
  std::int64_t failed_version = 0;  // With failed_at: what not to try again yet.
  Timestamp failed_at{};
  Timestamp since{};
};

using Key = std::pair<std::string, std::string>;  // Project, name.
struct KeyLess {
  using is_transparent = void;
  using View = std::pair<std::string_view, std::string_view>;
  static View view(const Key& key) { return {key.first, key.second}; }
  static View view(const View& key) { return key; }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return view(a) < view(b);
  }
};
using Table = std::map<Key, Slot, KeyLess>;

using telemetry::MetricInfo;
using telemetry::MetricKind;
const std::vector<std::string> kLabels{"project", "deployment", "version"};
const MetricInfo kRequests{"falaj_serving_requests_total",
                           "Prediction requests answered or refused.", MetricKind::kCounter,
                           kLabels};
const MetricInfo kErrors{"falaj_serving_errors_total", "Prediction requests that failed.",
                         MetricKind::kCounter, kLabels};
const MetricInfo kRows{"falaj_serving_rows_total", "Rows predicted.", MetricKind::kCounter,
                       kLabels};
const MetricInfo kSeconds{"falaj_serving_predict_seconds",
                          "Time to read features, score and log one request.",
                          MetricKind::kHistogram, kLabels};

Error not_found(std::string_view name) {
  // The text that tooling of the inference dialect looks for.
  return Error(ErrorId::kModelNotFound,
               "Request for unknown model: '" + std::string(name) + "' is not found");
}

// Held by its table, whose count is the thread's own (base/published.h).
Result<std::shared_ptr<const LiveModel>> live_of(const std::shared_ptr<const Table>& table,
                                                 const Slot& slot) {
  if (slot.live != nullptr) return std::shared_ptr<const LiveModel>(table, slot.live.get());
  return Error(ErrorId::kModelNotReady, "deployment '" + slot.declared.name + "' is not ready: " +
                                            (slot.error.empty() ? "loading" : slot.error));
}

// The plan's position of each model column, by its short or its full name.
Result<std::vector<std::uint32_t>> map_columns(const std::vector<std::string>& features,
                                               const features::OnlinePlan& plan) {
  std::vector<std::uint32_t> columns;
  if (features.empty()) {
    for (std::uint32_t i = 0; i < plan.columns.size(); ++i) columns.push_back(i);
    return columns;
  }
  for (const std::string& feature : features) {
    std::uint32_t at = 0;
    while (at < plan.columns.size() && plan.columns[at].name != feature &&
           plan.full_names[at] != feature) {
      ++at;
    }
    if (at == plan.columns.size()) {
      return Error(ErrorId::kSchemaMismatch,
                   "the model was trained on '" + feature +
                       "', which its feature service does not have; serve it with the service it "
                       "was trained on");
    }
    columns.push_back(at);
  }
  return columns;
}

Status order_keys(const features::OnlinePlan& plan,
                  const std::vector<std::pair<std::string, features::KeyPart>>& keys,
                  std::vector<features::KeyPart>& ordered) {
  ordered.clear();
  for (const table::Field& wanted : plan.keys) {
    const auto found = std::find_if(keys.begin(), keys.end(),
                                    [&](const auto& key) { return key.first == wanted.name; });
    if (found == keys.end()) {
      return Error(ErrorId::kEntityKeyMissing, "key '" + wanted.name + "' is missing");
    }
    const bool text = std::holds_alternative<std::string>(found->second);
    if (text != (wanted.type == table::Type::kString)) {
      return Error(ErrorId::kWrongType, "key '" + wanted.name + "' must be " +
                                            (text ? "an integer, not a text" : "a text"));
    }
    ordered.push_back(found->second);
  }
  return {};
}

// Row-major float rows of the one input, and the score of each, when the model has that form.
struct LoggedRows {
  const Tensor* input = nullptr;
  const Tensor* output = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t width = 0;
};

std::size_t rows_of(const Tensor& tensor) {
  return tensor.shape.empty()
             ? 1
             : static_cast<std::size_t>(std::max<std::int64_t>(tensor.shape.front(), 0));
}

LoggedRows logged_rows(std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
  LoggedRows logged;
  if (inputs.size() != 1 || inputs[0].datatype != "FP32" || inputs[0].shape.size() != 2) return {};
  const auto scored = std::find_if(outputs.begin(), outputs.end(),
                                   [](const Tensor& t) { return t.datatype == "FP32"; });
  logged.rows = rows_of(inputs[0]);
  if (scored == outputs.end() || logged.rows == 0 || rows_of(*scored) != logged.rows) return {};
  logged.input = &inputs[0];
  logged.output = &*scored;
  logged.columns = inputs[0].bytes.size() / sizeof(float) / logged.rows;
  logged.width = scored->bytes.size() / sizeof(float) / logged.rows;
  return logged.width == 0 ? LoggedRows{} : logged;
}

}  // namespace

struct Deployments::Impl {
  storage::SqlStore& sql;
  registry::Models& models;
  features::Online& online;
  Runtime& runtime;
  PredictionSink& sink;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;

  Mutex ticking;  // One reconciler at a time; readers never take it.
  Published<Table> table;

  Status reconcile(const storage::Object& object, Table& next) FALAJ_REQUIRES(ticking);
  Status bring_up(const storage::Object& object, Slot& slot, std::int64_t version)
      FALAJ_REQUIRES(ticking);
  Result<std::int64_t> desired_version(const ProjectName& project, const Deployment& declared);
  Result<std::shared_ptr<const LiveModel>> load(const storage::Object& object, const Slot& slot,
                                                std::int64_t version);
  Result<std::shared_ptr<Session>> open_session(const registry::ModelVersion& version);
  Status add_features(const Deployment& declared, LiveModel& live);
  std::shared_ptr<Series> series(const LiveModel& live);
  Status remember(const LiveModel* live, const storage::Object& object, std::string_view action,
                  Value detail);
  void drop_removed(const std::vector<storage::Object>& objects, Table& next);
  void publish(const Table& next) { table.replace(std::make_shared<const Table>(next)); }
  void log_rows(const LiveModel& live, std::span<const Tensor> inputs,
                const std::vector<Tensor>& outputs, const std::string& request_id) const;
  Status answer(const LiveModel& live,
                const std::vector<std::pair<std::string, features::KeyPart>>& keys,
                const std::string& request_id, EntityPrediction& prediction) const;
};

Deployments::Deployments(storage::SqlStore& sql, registry::Models& models, features::Online& online,
                         Runtime& runtime, PredictionSink& sink, security::Audit& audit,
                         telemetry::Metrics& metrics, const Clock& clock)
    : impl_(new Impl{sql, models, online, runtime, sink, audit, metrics, clock, {}, {}}) {
  for (const MetricInfo& info : {kRequests, kErrors, kRows, kSeconds}) metrics.declare(info);
  impl_->publish({});
}
Deployments::~Deployments() = default;

Status Deployments::tick() {
  MutexLock lock(impl_->ticking);
  std::vector<storage::Object> objects;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    objects = FALAJ_TRY(storage::list_objects(tx, "Deployment"));
    return {};
  }));
  Table next = *impl_->table.load();
  impl_->drop_removed(objects, next);
  Status first_failure;
  for (const storage::Object& object : objects) {
    // One deployment that cannot be brought up must not hold back the others.
    const Status done = impl_->reconcile(object, next);
    if (!done.ok() && first_failure.ok()) first_failure = done;
  }
  return first_failure;
}

void Deployments::forget(const ProjectName& project, const std::string& model) {
  MutexLock lock(impl_->ticking);
  Table next = *impl_->table.load();
  for (auto& [key, slot] : next) {
    if (key.first != project.str() || slot.live == nullptr) continue;
    if (!model.empty() && slot.live->version.model != model) continue;
    slot.live = nullptr;
    slot.state = "failed";
    slot.error = "the keys of the model were destroyed";
  }
  impl_->publish(next);
}

void Deployments::Impl::drop_removed(const std::vector<storage::Object>& objects, Table& next) {
  std::set<Key> declared;
  for (const storage::Object& object : objects) declared.insert({object.project, object.name});
  const std::size_t before = next.size();
  std::erase_if(next, [&](const auto& entry) { return !declared.contains(entry.first); });
  if (next.size() != before) publish(next);
}

Result<std::int64_t> Deployments::Impl::desired_version(const ProjectName& project,
                                                        const Deployment& declared) {
  if (declared.version.has_value()) {
    const auto pinned = models.get(project, declared.model, *declared.version);
    if (pinned.ok()) return *declared.version;
    if (pinned.error().code != Code::kNotFound) return pinned.error();
    return Error(ErrorId::kModelNotReady, pinned.error().message);
  }
  const std::optional<std::int64_t> version =
      FALAJ_TRY(models.alias(project, declared.model, declared.alias));
  if (version.has_value()) return *version;
  return Error(ErrorId::kModelNotReady, "model '" + declared.model + "' has no alias '" +
                                            declared.alias + "' yet; train it, or set the alias");
}

Status Deployments::Impl::reconcile(const storage::Object& object, Table& next) {
  Deployment declared = FALAJ_TRY(decode_deployment(object));
  Slot& slot = next[{object.project, object.name}];
  slot.declared = std::move(declared);
  const bool redeclared = slot.generation != object.generation;
  slot.generation = object.generation;

  const Result<std::int64_t> version = desired_version(ProjectName(object.project), slot.declared);
  if (!version.ok()) {
    const bool news = slot.error != version.error().message;
    slot.error = version.error().message;
    if (news) publish(next);
    return version.error().id == ErrorId::kModelNotReady ? Status() : Status(version.error());
  }
  const bool tried =
      slot.failed_version == *version && !redeclared && clock.now() - slot.failed_at < kRetryAfter;
  if (tried) return {};
  if (slot.live == nullptr) publish(next);  // Shown as loading meanwhile.

  const Status done = bring_up(object, slot, *version);
  publish(next);
  return done;
}

// Loads what is wanted and flips to it. On failure the slot keeps what it had.
Status Deployments::Impl::bring_up(const storage::Object& object, Slot& slot,
                                   std::int64_t version) {
  Result<std::shared_ptr<const LiveModel>> loaded = load(object, slot, version);
  if (loaded.ok() && *loaded == slot.live) {
    slot.state = "ready";
    slot.error.clear();
    slot.failed_version = 0;
    return {};
  }
  const std::int64_t before = slot.live == nullptr ? 0 : slot.live->version.version;
  if (!loaded.ok()) {
    const bool news = slot.error != loaded.error().message;
    slot.state = "failed";
    slot.error = loaded.error().message;
    slot.failed_version = version;
    slot.failed_at = clock.now();
    if (!news) return {};
    log::error("deployment not loaded", {{"deployment", object.project + "/" + object.name},
                                         {"version", version},
                                         {"reason", slot.error}});
    Value detail;
    detail["version"] = version;
    detail["still_serving"] = before;
    detail["error"] = slot.error;
    return remember(slot.live.get(), object, "deployment.fail", std::move(detail));
  }
  const LiveModel& fresh = **loaded;
  if (before != version || slot.live->version.model != fresh.version.model) {
    Value detail;
    detail["model"] = fresh.version.model;
    detail["version"] = version;
    detail["previous"] = before;
    detail["onnx"] = fresh.version.onnx.str();
    FALAJ_TRY(remember(&fresh, object, "deployment.serve", std::move(detail)));
    slot.since = clock.now();
  }
  slot.live = std::move(*loaded);
  slot.state = "ready";
  slot.error.clear();
  slot.failed_version = 0;
  return {};
}

// The model wanted now: the live one itself when nothing changed, a copy with another plan when a
// feature definition changed, or a fresh session.
Result<std::shared_ptr<const LiveModel>> Deployments::Impl::load(const storage::Object& object,
                                                                 const Slot& slot,
                                                                 std::int64_t version) {
  auto fresh = std::make_shared<LiveModel>();
  const bool same_model = slot.live != nullptr && slot.live->version.version == version &&
                          slot.live->version.model == slot.declared.model;
  if (same_model) {
    *fresh = *slot.live;
  } else {
    fresh->project = object.project;
    fresh->deployment = object.name;
    fresh->version =
        FALAJ_TRY(models.get(ProjectName(object.project), slot.declared.model, version));
    fresh->session = FALAJ_TRY(open_session(fresh->version));
    fresh->series = series(*fresh);
  }
  fresh->alias = slot.declared.alias;
  FALAJ_TRY(add_features(slot.declared, *fresh));
  if (same_model && fresh->plan == slot.live->plan && fresh->alias == slot.live->alias) {
    return slot.live;
  }
  return std::shared_ptr<const LiveModel>(std::move(fresh));
}

Result<std::shared_ptr<Session>> Deployments::Impl::open_session(
    const registry::ModelVersion& version) {
  const std::string what =
      "model '" + version.model + "' version " + std::to_string(version.version);
  const Result<std::string> bytes = models.load_onnx(version);
  if (!bytes.ok()) return bytes.error();
  Result<std::unique_ptr<Session>> session = runtime.load_bytes(*bytes);
  if (!session.ok()) return session.error().within(what);
  return std::shared_ptr<Session>(std::move(session).value());
}

Status Deployments::Impl::add_features(const Deployment& declared, LiveModel& live) {
  const std::string& service =
      declared.feature_service.empty() ? live.version.feature_service : declared.feature_service;
  if (service.empty()) {
    live.plan = nullptr;
    live.columns.clear();
    return {};
  }
  std::shared_ptr<const features::OnlinePlan> plan =
      FALAJ_TRY(online.plan(ProjectName(live.project), service));
  if (plan == live.plan) return {};
  const std::vector<std::string>& names = live.version.signature.features.empty()
                                              ? live.session->signature().features
                                              : live.version.signature.features;
  live.columns = FALAJ_TRY(map_columns(names, *plan));
  live.plan = std::move(plan);
  // The first row is paid for here: it proves that the columns fit, and warms the path.
  const std::vector<float> missing(live.columns.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> scores;
  return live.session->score(missing, missing.size(), scores);
}

std::shared_ptr<Series> Deployments::Impl::series(const LiveModel& live) {
  const std::vector<std::string> values{live.project, live.deployment,
                                        std::to_string(live.version.version)};
  return std::make_shared<Series>(
      Series{live.project + "/" + live.deployment, metrics.counter(kRequests, values),
             metrics.counter(kErrors, values), metrics.counter(kRows, values),
             metrics.histogram(kSeconds, values)});
}

Status Deployments::Impl::remember(const LiveModel* live, const storage::Object& object,
                                   std::string_view action, Value detail) {
  const Zone zone(live == nullptr ? std::string() : live->version.zone);
  const security::RequestContext context =
      security::system_context("service:serving", ProjectName(object.project), zone);
  FALAJ_TRY(audit.record(context,
                         {std::string(action), "Deployment/" + object.project + "/" + object.name,
                          std::move(detail)}));
  return {};
}

Result<std::shared_ptr<const LiveModel>> Deployments::find(const ProjectName& project,
                                                           const std::string& deployment) const {
  const std::shared_ptr<const Table> table = impl_->table.load();
  const auto found = table->find(KeyLess::View{project.str(), deployment});
  if (found == table->end()) return not_found(deployment);
  return live_of(table, found->second);
}

std::vector<std::string> Deployments::projects_with(std::string_view deployment) const {
  std::vector<std::string> projects;
  for (const auto& [key, slot] : *impl_->table.load()) {
    if (key.second == deployment) projects.push_back(key.first);
  }
  return projects;
}

Status Deployments::Impl::answer(const LiveModel& live,
                                 const std::vector<std::pair<std::string, features::KeyPart>>& keys,
                                 const std::string& request_id,
                                 EntityPrediction& prediction) const {
  if (live.plan == nullptr) {
    return Error(ErrorId::kFailedPrecondition,
                 "deployment '" + live.deployment +
                     "' has no feature service; name one in its spec, or send tensors");
  }
  thread_local std::vector<features::KeyPart> ordered;
  thread_local std::vector<float> scores;
  thread_local Prediction logged;
  FALAJ_TRY(order_keys(*live.plan, keys, ordered));
  const Timestamp now = clock.now();
  online.read(*live.plan, ordered, now, prediction.row);
  std::vector<float>& row = logged.features;
  row.resize(live.columns.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(prediction.row.numbers[live.columns[i]]);
  }
  FALAJ_TRY(live.session->score(row, row.size(), scores));
  prediction.score = scores.back();
  prediction.version = live.version.version;
  prediction.live = &live;
  logged.deployment = live.series->full_name;
  logged.version = prediction.version;
  logged.at = now;
  logged.score = prediction.score;
  logged.request_id = request_id;
  sink.offer(logged);
  return {};
}

Result<EntityPrediction> Deployments::predict(
    const ProjectName& project, const std::string& deployment,
    const std::vector<std::pair<std::string, features::KeyPart>>& keys,
    const std::string& request_id) const {
  return predict(FALAJ_TRY(find(project, deployment)), keys, request_id);
}

Result<EntityPrediction> Deployments::predict(
    const std::shared_ptr<const LiveModel>& live,
    const std::vector<std::pair<std::string, features::KeyPart>>& keys,
    const std::string& request_id) const {
  std::vector<EntityPrediction> predictions;
  FALAJ_TRY(predict_all(live, std::span(&keys, 1), request_id, predictions));
  predictions.front().hold = live;
  return std::move(predictions.front());
}

Status Deployments::predict_all(
    const std::shared_ptr<const LiveModel>& live,
    std::span<const std::vector<std::pair<std::string, features::KeyPart>>> entities,
    const std::string& request_id, std::vector<EntityPrediction>& predictions) const {
  const std::int64_t begun = monotonic_nanos();
  Series& series = *live->series;
  predictions.resize(entities.size());
  Status status;
  std::size_t answered = 0;
  for (const auto& keys : entities) {
    status = impl_->answer(*live, keys, request_id, predictions[answered]);
    if (!status.ok()) break;
    ++answered;
  }
  series.requests.add();
  series.rows.add(answered);
  if (!status.ok()) series.errors.add();
  series.seconds.observe_nanos(monotonic_nanos() - begun);
  return status;
}

void Deployments::Impl::log_rows(const LiveModel& live, std::span<const Tensor> inputs,
                                 const std::vector<Tensor>& outputs,
                                 const std::string& request_id) const {
  const LoggedRows logged = logged_rows(inputs, outputs);
  const Timestamp now = clock.now();
  Prediction prediction{live.series->full_name, live.version.version, now, {}, 0, request_id};
  prediction.features.resize(logged.columns);
  for (std::size_t row = 0; row < std::min(logged.rows, kLoggedRowsMax); ++row) {
    std::memcpy(prediction.features.data(),
                logged.input->bytes.data() + row * logged.columns * sizeof(float),
                logged.columns * sizeof(float));
    std::memcpy(&prediction.score,
                logged.output->bytes.data() + ((row + 1) * logged.width - 1) * sizeof(float),
                sizeof(float));
    sink.offer(prediction);
  }
}

Result<std::vector<Tensor>> Deployments::infer(const LiveModel& live,
                                               std::span<const Tensor> inputs,
                                               const std::string& request_id) const {
  const std::int64_t begun = monotonic_nanos();
  Result<std::vector<Tensor>> outputs = live.session->run(inputs);
  if (live.series == nullptr) return outputs;
  if (outputs.ok()) {
    impl_->log_rows(live, inputs, *outputs, request_id);
    live.series->rows.add(inputs.empty() ? 1 : rows_of(inputs[0]));
  } else {
    live.series->errors.add();
  }
  live.series->requests.add();
  live.series->seconds.observe_nanos(monotonic_nanos() - begun);
  return outputs;
}

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
    if (slot.live != nullptr) {
      const Series& series = *slot.live->series;
      const telemetry::HistogramSnapshot seconds = series.seconds.snapshot();
      status.version = slot.live->version.version;
      status.requests = series.requests.value();
      status.errors = series.errors.value();
      status.rows = series.rows.value();
      status.seconds_total = seconds.sum_seconds;
      status.p50_ms = seconds.quantile_seconds(0.5) * 1e3;
      status.p99_ms = seconds.quantile_seconds(0.99) * 1e3;
      status.latency = seconds;
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
