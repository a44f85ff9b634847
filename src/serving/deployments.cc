#include "serving/deployments.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "serving/internal/deployments_impl.h"
#include "serving/internal/logged_rows.h"

namespace falaj::serving {

namespace {

// A load that failed is tried again after this, or at once when something it depends on changed.
constexpr Duration kRetryAfter = Duration::seconds(30);
constexpr std::size_t kLoggedRowsMax = 1000;

using telemetry::MetricInfo;
using telemetry::MetricKind;
const std::vector<std::string> kLabels{"project", "deployment", "version"};
const MetricInfo kRequests{"falaj_serving_requests_total",
                           "Prediction requests answered or refused.", MetricKind::kCounter,
                           kLabels};
const MetricInfo kErrors{"falaj_serving_errors_total", "Prediction requests that failed.",
                         MetricKind::kCounter, kLabels};
const MetricInfo kRows{"falaj_serving_rows_total",
                       "Rows that a model predicted; answers from a cache are not among them.",
                       MetricKind::kCounter, kLabels};
const MetricInfo kSeconds{"falaj_serving_predict_seconds",
                          "Time to read features, score and log one request.",
                          MetricKind::kHistogram, kLabels};
const MetricInfo kJoined{"falaj_serving_joined_total",
                         "Requests answered by a run of the model that another began.",
                         MetricKind::kCounter, kLabels};
const MetricInfo kRefused{
    "falaj_serving_refused_total",
    "Requests refused because they would be late, or given up because their caller left.",
    MetricKind::kCounter, kLabels};
const MetricInfo kFallbacks{
    "falaj_serving_fallback_total",
    "Requests answered by the deployment's fallback because this version would have been late.",
    MetricKind::kCounter, kLabels};
const MetricInfo kPhaseSeconds{
    "falaj_serving_phase_seconds",
    "Where the time of an answered request went: parse, authorise, features, queue, batch, "
    "execute, render.",
    MetricKind::kHistogram,
    {"project", "deployment", "phase"}};
// How long a load may try whether a model's rows are its own.
constexpr Duration kTrialLimit = Duration::milliseconds(300);

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

// Whether a rollout shares this request.
bool is_shared(const LiveModel& live, MayShare share) {
  return live.split != nullptr && share == MayShare::kYes &&
         live.split->tensors == rollout::Split::Tensors::kFit;
}

}  // namespace

Deployments::Deployments(storage::SqlStore& sql, registry::Models& models, features::Online& online,
                         Runtime& runtime, PredictionSink& sink, security::Audit& audit,
                         telemetry::Metrics& metrics, const Clock& clock)
    : impl_(new Impl{sql,
                     models,
                     online,
                     runtime,
                     sink,
                     audit,
                     metrics,
                     clock,
                     {},
                     {},
                     0,
                     {},
                     {},
                     false,
                     {},
                     {},
                     {}}) {
  for (const MetricInfo& info :
       {kRequests, kErrors, kRows, kSeconds, kJoined, kRefused, kFallbacks, kPhaseSeconds}) {
    metrics.declare(info);
  }
  declare_cache_metrics(metrics);
  declare_idle_metrics(metrics);
  declare_memory_metrics(metrics);
  limit({std::max(1U, std::thread::hardware_concurrency()), {}});
  impl_->publish({});
}

void Deployments::offer(const std::string& name, std::unique_ptr<Runtime> runtime) {
  impl_->offered[name] = std::move(runtime);
}

void Deployments::record_into(rollout::Recordings& recordings) { impl_->recordings = &recordings; }

Deployments::~Deployments() = default;

Status Deployments::tick() {
  MutexLock lock(impl_->ticking);
  std::vector<storage::Object> objects;
  FALAJ_TRY(
      impl_->sql.read([&](storage::SqlTransaction& tx) FALAJ_REQUIRES(impl_->ticking) -> Status {
        objects = FALAJ_TRY(storage::list_objects(tx, "Deployment"));
        return impl_->drop_when_rules_change(tx, *impl_->table.load());
      }));
  Table next = *impl_->table.load();
  impl_->drop_removed(objects, next);
  // Those that stay come first: what is left is for those that may leave.
  std::stable_partition(objects.begin(), objects.end(), [](const storage::Object& object) {
    const Result<Deployment> declared = decode_deployment(object);
    return declared.ok() && !may_leave(*declared);
  });
  Status first_failure;
  for (const storage::Object& object : objects) {
    // One deployment that cannot be brought up must not hold back the others.
    const Status done = impl_->reconcile(object, next);
    if (!done.ok() && first_failure.ok()) first_failure = done;
  }
  const Status fetched = impl_->prefetch(objects, next);
  if (first_failure.ok()) first_failure = fetched;
  return first_failure;
}

void Deployments::forget(const ProjectName& project, const std::string& model) {
  MutexLock lock(impl_->ticking);
  Table next = *impl_->table.load();
  for (auto& [key, slot] : next) {
    if (key.first != project.str()) continue;
    clear_answers(slot);
    if (slot.live == nullptr) continue;
    if (!model.empty() && !uses_model(*slot.live, model)) continue;
    slot.live = nullptr;
    slot.state = "failed";
    slot.error = "the keys of the model were destroyed";
  }
  impl_->publish(next);
}

Status Deployments::unload(const security::RequestContext& context, const std::string& deployment) {
  MutexLock lock(impl_->ticking);
  Table next = *impl_->table.load();
  const auto found = next.find(KeyLess::View{context.project.str(), deployment});
  if (found == next.end()) return not_found(deployment);
  Slot& slot = found->second;
  if (slot.unloaded) return {};
  Value detail;
  detail["version"] = slot.live == nullptr ? 0 : slot.live->version.version;
  FALAJ_TRY(impl_->audit.record(
      context, {"deployment.unload", "Deployment/" + found->first.first + "/" + deployment,
                std::move(detail)}));
  slot.unloaded = true;
  slot.rest = Slot::Rest::kAwake;
  clear_answers(slot);
  slot.live = nullptr;
  slot.state = "unloaded";
  slot.error = "unloaded by request";
  impl_->publish(next);
  return {};
}

Status Deployments::load(const security::RequestContext& context, const std::string& deployment) {
  const KeyLess::View key{context.project.str(), deployment};
  // It may be declared just now, and not seen yet.
  if (!impl_->table.load()->contains(key)) static_cast<void>(tick());
  {
    MutexLock lock(impl_->ticking);
    Table next = *impl_->table.load();
    const auto found = next.find(key);
    if (found == next.end()) return not_found(deployment);
    Slot& slot = found->second;
    if (slot.unloaded) {
      FALAJ_TRY(impl_->audit.record(
          context, {"deployment.load", "Deployment/" + found->first.first + "/" + deployment,
                    Value(Value::Object{})}));
      slot.state = "loading";
      slot.error.clear();
    }
    slot.unloaded = false;
    slot.rest = Slot::Rest::kAwake;
    slot.asked = true;
    slot.failed_version = 0;
    impl_->publish(next);
  }
  const Status ticked = tick();  // Another deployment's failure is none of this one.
  const std::shared_ptr<const Table> table = impl_->table.load();
  const auto found = table->find(key);
  if (found == table->end()) return not_found(deployment);
  if (found->second.live != nullptr && found->second.state == "ready") return {};
  const bool unsaid = found->second.error.empty() && !ticked.ok();
  return Error(ErrorId::kModelNotReady,
               "failed to load '" + deployment + "', " +
                   (unsaid ? ticked.error().message : found->second.error));
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
  renew_answers(slot);
  if (slot.unloaded) return {};
  if (FALAJ_TRY(rests(object, slot, next))) return {};

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

  const Status done = bring_up(object, slot, *version, next);
  slot.asked = false;
  publish(next);
  return done;
}

// Loads what is wanted and flips to it. On failure the slot keeps what it had.
Status Deployments::Impl::bring_up(const storage::Object& object, Slot& slot, std::int64_t version,
                                   Table& next) {
  Result<std::shared_ptr<const LiveModel>> loaded = load_into_room(object, slot, version, next);
  if (loaded.ok() && *loaded == slot.live) {
    slot.state = "ready";
    slot.error.clear();
    slot.failed_version = 0;
    return {};
  }
  const std::int64_t before = slot.live == nullptr ? 0 : slot.live->version.version;
  if (!loaded.ok() && before == 0 && loaded.error().id == ErrorId::kModelNotReady) {
    slot.error = loaded.error().message;  // A step waits for its model's first version.
    return {};
  }
  if (!loaded.ok() && before == 0 && is_full(loaded.error()) && may_leave(slot.declared)) {
    return rest_unloaded(object, slot, version, loaded.error());
  }
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
  if (before != version || slot.live->version.model != fresh.version.model ||
      digest_of(*slot.live) != digest_of(fresh) || slot.live->runtime != fresh.runtime) {
    Value detail;
    detail["model"] = fresh.version.model;
    detail["version"] = version;
    detail["previous"] = before;
    detail["onnx"] = fresh.version.onnx.str();
    if (!fresh.runtime.empty()) detail["runtime"] = fresh.runtime;
    if (fresh.graph != nullptr) detail["graph"] = steps_value(*fresh.graph);
    detail["memory_bytes"] = bytes_of(fresh);
    FALAJ_TRY(remember(&fresh, object, "deployment.serve", std::move(detail)));
    slot.since = clock.now();
  }
  slot.live = std::move(*loaded);
  slot.for_memory = false;
  slot.state = "ready";
  slot.error.clear();
  slot.failed_version = 0;
  return {};
}

// The model wanted now: the live one itself when nothing changed, a copy with another plan when a
// feature definition changed, a rollout's candidate, which is warm, or a fresh session.
Result<std::shared_ptr<const LiveModel>> Deployments::Impl::load(const storage::Object& object,
                                                                 const Slot& slot,
                                                                 std::int64_t version) {
  auto fresh = std::make_shared<LiveModel>();
  const bool same_model = slot.live != nullptr && slot.live->version.version == version &&
                          slot.live->version.model == slot.declared.model &&
                          slot.live->runtime == slot.declared.runtime;
  const rollout::Split* split = slot.live == nullptr ? nullptr : slot.live->split.get();
  if (same_model) {
    *fresh = *slot.live;
  } else if (split != nullptr && split->candidate->version.version == version &&
             split->candidate->version.model == slot.declared.model &&
             split->candidate->runtime == slot.declared.runtime) {
    *fresh = *split->candidate;
  } else {
    fresh->project = object.project;
    fresh->deployment = object.name;
    fresh->version =
        FALAJ_TRY(models.get(ProjectName(object.project), slot.declared.model, version));
    fresh->session = FALAJ_TRY(open_session(fresh->version, slot.declared.runtime));
    fresh->runtime = slot.declared.runtime;
    fresh->series = series(*fresh);
  }
  FALAJ_TRY(add_graph(slot.declared, slot.live.get(), *fresh));
  FALAJ_TRY(add_fallback(slot.declared, slot.live.get(), *fresh));
  FALAJ_TRY(add_versions(object, slot, *fresh));
  fresh->alias = slot.declared.alias;
  fresh->slo = slot.declared.slo;
  add_batcher(slot.declared, *fresh);
  add_cache(slot, *fresh);
  const Labels& labels = slot.declared.labels;
  const bool same_labels = fresh->labels == nullptr ? labels.empty() : *fresh->labels == labels;
  if (!same_labels) fresh->labels = labels.empty() ? nullptr : std::make_shared<Labels>(labels);
  if (recordings != nullptr) {
    fresh->recorder = recordings->recorder({object.project, object.name, fresh->version.zone},
                                           slot.declared.record);
  }
  FALAJ_TRY(add_features(slot.declared, *fresh));
  if (same_model && fresh->session == slot.live->session && fresh->plan == slot.live->plan &&
      fresh->alias == slot.live->alias && fresh->slo == slot.live->slo &&
      fresh->batcher == slot.live->batcher && fresh->cached == slot.live->cached &&
      fresh->recorder == slot.live->recorder && fresh->labels == slot.live->labels &&
      fresh->fallback == slot.live->fallback && fresh->others == slot.live->others) {
    return slot.live;
  }
  return std::shared_ptr<const LiveModel>(std::move(fresh));
}

Result<Runtime*> Deployments::Impl::runtime_named(const std::string& name) const {
  if (name.empty()) return &runtime;
  const auto found = offered.find(name);
  if (found != offered.end()) return found->second.get();
  std::string known;
  for (const auto& [each, unused] : offered) known += (known.empty() ? "" : ", ") + each;
  return Error(ErrorId::kRuntimeUnavailable, "this server has no runtime '" + name +
                                                 "'; the setting serving.runtimes names " +
                                                 (known.empty() ? "none" : known));
}

Status Deployments::Impl::add_features(const Deployment& declared, LiveModel& live) {
  const std::string models_own = has_rows_of_model(live) ? live.version.feature_service : "";
  const std::string& service =
      declared.feature_service.empty() ? models_own : declared.feature_service;
  if (service.empty()) {
    live.plan = nullptr;
    live.columns.clear();
    return {};
  }
  std::shared_ptr<const features::OnlinePlan> plan =
      FALAJ_TRY(online.plan(ProjectName(live.project), service));
  if (plan == live.plan) return {};
  const std::vector<std::string>& names =
      live.version.signature.features.empty() || live.graph != nullptr
          ? live.session->signature().features
          : live.version.signature.features;
  live.columns = FALAJ_TRY(map_columns(names, *plan));
  live.plan = std::move(plan);
  // The first row is paid for here: it proves that the columns fit, and warms the path.
  const std::vector<float> missing(live.columns.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> scores;
  Status warmed = live.session->score(missing, missing.size(), scores);
  // A rule may have no answer where everything is missing: that is for the request with such a row
  // to hear. What does not fit has another id.
  const bool no_answer =
      live.graph != nullptr && !warmed.ok() && warmed.error().id == ErrorId::kInvalidArgument;
  return no_answer ? Status() : warmed;
}

// One for each session; anew only when the declaration says otherwise than before.
void Deployments::Impl::add_batcher(const Deployment& declared, LiveModel& live) {
  if (live.batcher != nullptr && live.batch == declared.batch) return;
  live.batch = declared.batch;
  live.rows_together = declared.batch == Deployment::Batch::kNever
                           ? 1
                           : batching::rows_that_agree(*live.session, kTrialLimit);
  live.batcher = std::make_shared<batching::Batcher>(
      live.session, batching::BatcherOptions{processors, live.rows_together, steady});
}

std::shared_ptr<Series> Deployments::Impl::series(const LiveModel& live) {
  const std::string number = std::to_string(live.version.version);
  const bool own = live.stands_in_for.empty();
  const std::vector<std::string> values{live.project, live.deployment,
                                        own ? number : live.version.model + "/" + number};
  auto made = std::shared_ptr<Series>(new Series{live.project + "/" + live.deployment,
                                                 metrics.counter(kRequests, values),
                                                 metrics.counter(kErrors, values),
                                                 metrics.counter(kRows, values),
                                                 metrics.histogram(kSeconds, values),
                                                 metrics.counter(kJoined, values),
                                                 metrics.counter(kRefused, values),
                                                 metrics.counter(kFallbacks, values),
                                                 {}});
  for (const Phase phase : kPhases) {
    made->phases[static_cast<std::size_t>(phase)] = &metrics.histogram(
        kPhaseSeconds, {live.project, live.deployment, std::string(phase_word(phase))});
  }
  return made;
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

Status Deployments::Impl::read_features(const LiveModel& live, const EntityKeys& keys,
                                        Timestamp now, features::OnlineRow& read,
                                        std::vector<float>& row) const {
  if (live.plan == nullptr) {
    return Error(ErrorId::kFailedPrecondition,
                 "deployment '" + live.deployment +
                     "' has no feature service; name one in its spec, or send tensors");
  }
  thread_local std::vector<features::KeyPart> ordered;
  ordered.clear();
  FALAJ_TRY(features::append_keys(*live.plan, keys, ordered));
  online.read(*live.plan, ordered, now, read);
  if (read.failed) return *read.failed;
  if (read.too_large) {
    return Error(ErrorId::kOutOfRange,
                 "the texts that features of this entity are computed from are over 64 MiB in all");
  }
  row.resize(live.columns.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(read.numbers[live.columns[i]]);
  }
  return {};
}

Status Deployments::Impl::answer(const LiveModel& live, const EntityKeys& keys,
                                 EntityPrediction& prediction, Prediction& logged,
                                 Laps& laps) const {
  thread_local std::vector<float> scores;
  const Timestamp now = clock.now();
  const std::vector<float>& row = logged.features;
  FALAJ_TRY(read_features(live, keys, now, prediction.row, logged.features));
  laps.end(Phase::kFeatures);
  FALAJ_TRY(live.session->score(row, row.size(), scores));
  laps.end(Phase::kExecute);
  prediction.score = scores.back();
  prediction.version = live.version.version;
  prediction.live = &live;
  logged.at = now;
  logged.score = prediction.score;
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
    const std::string& request_id, std::vector<EntityPrediction>& predictions,
    PhaseTimes* times) const {
  PhaseTimes unseen;
  PhaseTimes& into = times == nullptr ? unseen : *times;
  if (live->recorder != nullptr) live->recorder->offer(entities);
  if (live->split != nullptr) {
    return impl_->answer_shared(*live, entities, request_id, predictions, into);
  }
  Timed timed = impl_->answer_all(*live, entities, request_id, predictions, Trace::kCounted);
  into = timed.times;
  return std::move(timed.status);
}

void Deployments::observe(const LiveModel& live, const PhaseTimes& times) {
  if (live.series == nullptr) return;
  for (const Phase phase : kPhases) {
    if (times[phase] > 0) {
      live.series->phases[static_cast<std::size_t>(phase)]->observe_nanos(times[phase]);
    }
  }
}

Timed Deployments::Impl::answer_all(const LiveModel& live, std::span<const EntityKeys> entities,
                                    const std::string& request_id,
                                    std::vector<EntityPrediction>& predictions, Trace trace) const {
  const std::int64_t begun = monotonic_nanos();
  predictions.resize(entities.size());
  // Kept from request to request, so that none of them allocates.
  thread_local std::vector<Prediction> logged;
  if (logged.size() < entities.size()) logged.resize(entities.size());
  Timed timed;
  Laps laps(begun);
  std::size_t answered = 0;
  for (const EntityKeys& keys : entities) {
    timed.status = answer(live, keys, predictions[answered], logged[answered], laps);
    if (!timed.status.ok()) break;
    ++answered;
  }
  // What nobody receives was not predicted.
  const bool given = trace == Trace::kCounted && timed.status.ok();
  if (given && answered > 0) live.series->touch(logged[answered - 1].at);
  const bool seen = given && has_rows_of_model(live);
  for (std::size_t i = 0; seen && i < answered; ++i) {
    logged[i].deployment = live.series->full_name;
    logged[i].version = live.version.version;
    logged[i].request_id = request_id;
    sink.offer(logged[i]);
  }
  timed.nanos = monotonic_nanos() - begun;
  timed.times = laps.times;
  if (trace == Trace::kNone) return timed;
  Series& series = *live.series;
  series.requests.add();
  series.rows.add(answered);
  if (!timed.status.ok()) series.errors.add();
  series.seconds.observe_nanos(timed.nanos);
  return timed;
}

void Deployments::Impl::log_rows(const LiveModel& live, std::span<const Tensor> inputs,
                                 const std::vector<Tensor>& outputs,
                                 const std::string& request_id) const {
  const LoggedRows logged = logged_rows(inputs, outputs);
  const Timestamp now = clock.now();
  live.series->touch(now);
  if (!has_rows_of_model(live)) return;
  Prediction prediction{live.series->full_name, live.version.version, now, {}, 0, request_id};
  prediction.features.resize(logged.columns);
  for (std::size_t row = 0; row < std::min(logged.rows, kLoggedRowsMax); ++row) {
    std::memcpy(prediction.features.data(),
                logged.input->bytes.data() + row * logged.columns * sizeof(float),
                logged.columns * sizeof(float));
    prediction.score = score_at(logged, row);
    sink.offer(prediction);
  }
}

Result<Inference> Deployments::infer(const LiveModel& live, std::span<const Tensor> inputs,
                                     const std::string& request_id, MayShare share) const {
  InferJob job;
  job.inputs.assign(inputs.begin(), inputs.end());
  job.request_id = request_id;
  if (live.recorder != nullptr) live.recorder->offer(job.inputs);
  if (is_shared(live, share)) return impl_->run_shared(live, job);
  std::int64_t nanos = 0;
  return impl_->run(live, job, nanos);
}

void Deployments::infer(const std::shared_ptr<const LiveModel>& live, InferJob job,
                        InferDone done) const {
  if (live->recorder != nullptr) live->recorder->offer(job.inputs);
  if (is_shared(*live, job.share)) return done(impl_->run_shared(*live, job));
  if (live->batcher == nullptr) {
    std::int64_t nanos = 0;
    return done(impl_->run(*live, job, nanos));
  }
  if (live->cached != nullptr) return impl_->infer_cached(live, std::move(job), std::move(done));
  impl_->submit(live, std::move(job), impl_->steady(), std::move(done));
}

void Deployments::Impl::submit(const std::shared_ptr<const LiveModel>& live, InferJob job,
                               std::int64_t begun, InferDone done) const {
  batching::Job queued;
  queued.order.tenant = std::hash<std::string>()(job.tenant);
  queued.order.priority = job.priority;
  queued.order.deadline = deadline_of(*live, job, begun, clock.now());
  queued.inputs = std::move(job.inputs);
  queued.gone = std::move(job.gone);
  queued.done = [this, live, begun, order = queued.order, gone = queued.gone,
                 id = std::move(job.request_id), done = std::move(done)](
                    batching::Outcome outcome, const std::vector<Tensor>& inputs) {
    // What was refused or given up says nothing about the model: it counts apart.
    const bool late = !outcome.outputs.ok() && outcome.outputs.error().id == ErrorId::kOverloaded;
    const bool ran =
        outcome.outputs.ok() || (!late && outcome.outputs.error().code != Code::kCancelled);
    if (late && live->fallback != nullptr &&
        fall_back(live, {inputs, order, gone, nullptr}, id, begun, done)) {
      return;
    }
    if (live->series != nullptr && !ran) live->series->refused.add();
    if (!ran) return done(outcome.outputs.error());
    if (live->series != nullptr && outcome.runs == 0) live->series->joined.add();
    done(finished(*live, std::move(outcome.outputs), inputs, id, begun, outcome.times));
  };
  live->batcher->submit(std::move(queued));
}

Result<Inference> Deployments::Impl::run_model(const LiveModel& live, const InferJob& job,
                                               std::int64_t& nanos) const {
  const std::int64_t begun = steady();
  Result<std::vector<Tensor>> outputs = live.session->run(job.inputs);
  nanos = steady() - begun;
  PhaseTimes times;
  times[Phase::kExecute] = nanos;
  return finished(live, std::move(outputs), job.inputs, job.request_id, begun, times);
}

// Counts, and logs the rows.
Result<Inference> Deployments::Impl::finished(const LiveModel& live,
                                              Result<std::vector<Tensor>> outputs,
                                              std::span<const Tensor> inputs,
                                              const std::string& request_id, std::int64_t begun,
                                              const PhaseTimes& times) const {
  if (live.series != nullptr) {
    if (outputs.ok()) {
      log_rows(live, inputs, *outputs, request_id);
      live.series->rows.add(inputs.empty() ? 1 : rows_of(inputs[0]));
    } else {
      live.series->errors.add();
    }
    live.series->requests.add();
    live.series->seconds.observe_nanos(steady() - begun);
  }
  if (!outputs.ok()) return outputs.error();
  return Inference{live.version.version, std::move(outputs).value(), Inference::Cache::kNone,
                   times};
}

Result<std::shared_ptr<const LiveModel>> Deployments::prepare(
    const ProjectName& project, const std::string& deployment, std::int64_t version,
    const std::shared_ptr<const LiveModel>& before) {
  const std::shared_ptr<const Table> table = impl_->table.load();
  const auto found = table->find(KeyLess::View{project.str(), deployment});
  if (found == table->end()) return not_found(deployment);
  Slot beside;
  beside.declared = found->second.declared;
  beside.answers = found->second.answers;
  beside.live = before;
  // The one that serves has these; who takes over takes them over.
  beside.declared.fallback.reset();
  beside.declared.versions = {};
  storage::Object object;
  object.project = project.str();
  object.name = deployment;
  return impl_->load_beside(object, beside, version);
}

Status Deployments::share(const ProjectName& project, const std::string& deployment,
                          std::int64_t champion, std::shared_ptr<const rollout::Split> split) {
  MutexLock lock(impl_->ticking);
  Table next = *impl_->table.load();
  const auto found = next.find(KeyLess::View{project.str(), deployment});
  const LiveModel* live = found == next.end() ? nullptr : found->second.live.get();
  if (live == nullptr || live->version.version != champion) {
    return Error(ErrorId::kModelNotReady, "version " + std::to_string(champion) +
                                              " does not serve in deployment '" + deployment + "'");
  }
  auto changed = std::make_shared<LiveModel>(*live);
  changed->split = std::move(split);
  found->second.live = std::move(changed);
  impl_->publish(next);
  return {};
}

}  // namespace falaj::serving
