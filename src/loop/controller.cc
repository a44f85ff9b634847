#include "loop/controller.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "features/ingest.h"
#include "loop/internal/evaluation.h"
#include "loop/internal/state.h"

namespace falaj::loop {
namespace {

// A step that failed is tried again after this: freezing and scoring are not free.
constexpr Duration kRetryAfter = Duration::minutes(1);
constexpr std::int64_t kRunsSearched = 200;

// Everything a policy speaks of, resolved anew at each tick.
struct Bound {
  PolicyKey key;
  Policy policy;
  serving::Deployment deployment;
  training::TrainJob job;
  features::TrainingSetSpec set;
  ProjectName project() const { return ProjectName(key.project); }
  std::string object() const { return "Policy/" + key.project + "/" + key.policy; }
};

Result<Bound> bind(storage::SqlTransaction& tx, const storage::Object& object) {
  Bound bound;
  bound.key = {object.project, object.name};
  bound.policy = FALAJ_TRY(decode_policy(object));
  const auto get = [&](std::string_view kind, const std::string& name) {
    return storage::get_object(tx, kind, object.project, name);
  };
  const auto monitor =
      FALAJ_TRY(monitoring::decode_monitor(FALAJ_TRY(get("Monitor", bound.policy.monitor))));
  bound.deployment =
      FALAJ_TRY(serving::decode_deployment(FALAJ_TRY(get("Deployment", monitor.deployment))));
  bound.job = FALAJ_TRY(training::decode_train_job(FALAJ_TRY(get("TrainJob", bound.policy.job))));
  if (bound.job.workers)
    return bound;  // A command: it registers nothing, which obstacle_of() says.
  bound.set = FALAJ_TRY(
      features::decode_training_set(FALAJ_TRY(get("TrainingSet", bound.job.training_set))));
  return bound;
}

// Why what is declared cannot lead to a promotion, whatever is trained; "" when it can.
std::string obstacle_of(const Bound& bound) {
  const serving::Deployment& deployment = bound.deployment;
  if (deployment.version.has_value()) {
    return "the deployment pins version " + std::to_string(*deployment.version) +
           ", so that no promotion would change what '" + deployment.name + "' serves";
  }
  if (bound.job.model != deployment.model) {
    return "TrainJob '" + bound.job.name + "' registers " +
           (bound.job.model.empty() ? "no model" : "model '" + bound.job.model + "'") +
           ", but deployment '" + deployment.name + "' serves model '" + deployment.model + "'";
  }
  if (bound.set.spine_view.empty()) {
    return "training set '" + bound.set.name +
           "' takes its labels from a file, and retraining needs a label view";
  }
  return "";
}

// What outlives a round.
State after_round(const State& state) {
  State fresh;
  fresh.round = state.round;
  fresh.obstacle = state.snapshot.obstacle;
  fresh.obstacle_alarm = state.snapshot.alarm;
  fresh.last_action = state.last_action;
  fresh.snapshot = state.snapshot;
  return fresh;
}

// Failures that another try cannot mend: the step is over, the champion stays.
bool is_final(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kFailedPrecondition:
    case Code::kDataLoss:
    case Code::kPermissionDenied:
    case Code::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Controller::Impl {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  features::TrainingSets& sets;
  training::TrainJobs& trainer;
  tracking::Runs& runs;
  registry::Models& models;
  serving::Deployments& deployments;
  serving::Runtime& runtime;
  monitoring::Monitors& monitors;
  security::Audit& audit;
  const Clock& clock;

  Mutex ticking;
  std::map<PolicyKey, Timestamp> retry_at FALAJ_GUARDED_BY(ticking);
  mutable Mutex showing;  // Never held during a step: status() does not wait for training data.
  std::map<PolicyKey, std::pair<Action, Snapshot>> shown FALAJ_GUARDED_BY(showing);

  Status step(const Bound& bound) FALAJ_REQUIRES(ticking);
  Status resume(const Bound& bound, State& state);
  Result<Snapshot> look(const Bound& bound, const State& state);
  Status look_at_run(const Bound& bound, const State& state, Snapshot& snapshot);
  Status act(const Bound& bound, State state, const Action& action);
  Status retrain(const Bound& bound, State state);
  Status ensure_run(const Bound& bound, State& state);
  Status evaluate(const Bound& bound, State state);
  Result<Comparison> measure(const Bound& bound, const features::Manifest& gate,
                             const State& state);
  Result<std::unique_ptr<serving::Session>> load(const registry::ModelVersion& version);
  Status finish_promotion(const Bound& bound, State& state);
  Status withdraw_promotion(const Bound& bound, State& state);
  Result<std::int64_t> champion(const Bound& bound);
  Status count_labels(const Bound& bound, Snapshot& snapshot);
  Result<features::ViewStats> label_stats(const Bound& bound);
  Result<Timestamp> newest_label(const Bound& bound);
  Status save(const Bound& bound, const State& state);
  Status decide(const Bound& bound, const State& state, Value evidence, Timestamp retrained_at);
  Result<security::RequestContext> context(const Bound& bound);
};

Controller::Controller(storage::SqlStore& sql, storage::BlobStore& blobs,
                       features::TrainingSets& sets, training::TrainJobs& trainer,
                       tracking::Runs& runs, registry::Models& models,
                       serving::Deployments& deployments, serving::Runtime& runtime,
                       monitoring::Monitors& monitors, security::Audit& audit, const Clock& clock)
    : impl_(new Impl{sql,
                     blobs,
                     sets,
                     trainer,
                     runs,
                     models,
                     deployments,
                     runtime,
                     monitors,
                     audit,
                     clock,
                     {},
                     {},
                     {},
                     {}}) {}
Controller::~Controller() = default;

Status Controller::tick() {
  MutexLock lock(impl_->ticking);
  std::vector<Bound> policies;
  Status first_failure;
  const auto failed = [&](const Error& error, const std::string& policy) {
    log::warn("loop step failed", {{"policy", policy}, {"reason", error.message}});
    if (first_failure.ok()) first_failure = error.within("policy " + policy);
  };
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "Policy"))) {
      Result<Bound> bound = bind(tx, object);
      if (bound.ok()) {
        policies.push_back(std::move(bound).value());
      } else {
        failed(bound.error(), object.project + "/" + object.name);
      }
    }
    return {};
  }));
  for (const Bound& bound : policies) {
    const auto waiting = impl_->retry_at.find(bound.key);
    if (waiting != impl_->retry_at.end() && impl_->clock.now() < waiting->second) continue;
    const Status done = impl_->step(bound);
    if (done.ok()) {
      impl_->retry_at.erase(bound.key);
      continue;
    }
    impl_->retry_at[bound.key] = impl_->clock.now() + kRetryAfter;
    failed(done.error(), bound.key.project + "/" + bound.key.policy);
  }
  return first_failure;
}

Status Controller::Impl::step(const Bound& bound) {
  State state;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    state = FALAJ_TRY(load_state(tx, bound.key));
    return {};
  }));
  FALAJ_TRY(resume(bound, state));
  Snapshot snapshot = FALAJ_TRY(look(bound, state));
  FALAJ_TRY(count_labels(bound, snapshot));
  snapshot.obstacle_known = !snapshot.obstacle.empty() && snapshot.obstacle == state.obstacle &&
                            snapshot.alarm == state.obstacle_alarm;
  state.snapshot = snapshot;
  state.last_action = next_action(state.snapshot, bound.policy);
  {
    MutexLock lock(showing);
    shown[bound.key] = {state.last_action, state.snapshot};
  }
  return act(bound, state, state.last_action);
}

// Carries out what was decided and recorded, but cut off by a crash or a failure.
Status Controller::Impl::resume(const Bound& bound, State& state) {
  if (state.phase == Phase::kTraining && state.run.empty() && state.run_error.empty()) {
    FALAJ_TRY(ensure_run(bound, state));
  }
  if (state.promoting) FALAJ_TRY(finish_promotion(bound, state));
  return {};
}

Status Controller::Impl::act(const Bound& bound, State state, const Action& action) {
  switch (action.kind) {
    case ActionKind::kNone:
      return {};
    case ActionKind::kRetrain:
      return retrain(bound, std::move(state));
    case ActionKind::kEvaluate:
      return evaluate(bound, std::move(state));
    case ActionKind::kPromote: {
      state.promoting = true;
      Value evidence;
      evidence["gate_set"] = state.gate_set;
      evidence["run"] = state.run;
      FALAJ_TRY(decide(bound, state, std::move(evidence), {}));
      return finish_promotion(bound, state);
    }
    case ActionKind::kKeep: {
      Value evidence;
      evidence["gate_set"] = state.gate_set;
      evidence["run"] = state.run;
      if (!state.run_error.empty()) evidence["error"] = state.run_error;
      return decide(bound, after_round(state), std::move(evidence), {});
    }
  }
  return {};
}

Result<std::int64_t> Controller::Impl::champion(const Bound& bound) {
  if (bound.deployment.version.has_value()) return *bound.deployment.version;
  return FALAJ_TRY(models.alias(bound.project(), bound.deployment.model, bound.deployment.alias))
      .value_or(0);
}

Result<Snapshot> Controller::Impl::look(const Bound& bound, const State& state) {
  Snapshot snapshot;
  snapshot.now = clock.now();
  snapshot.phase = state.phase;
  snapshot.champion_version = FALAJ_TRY(champion(bound));
  snapshot.obstacle = obstacle_of(bound);
  for (const monitoring::Monitors::Alarm& alarm : FALAJ_TRY(monitors.alarms(bound.project()))) {
    const bool ours = alarm.open && alarm.monitor == bound.policy.monitor &&
                      alarm.version == snapshot.champion_version;
    if (!ours) continue;
    snapshot.alarm_open = true;
    snapshot.alarm = alarm.id;
    snapshot.alarm_at = alarm.at;
    break;
  }
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    const Retrains retrains = FALAJ_TRY(count_retrains(tx, bound.key, snapshot.now));
    snapshot.retrains_last_week = retrains.last_week;
    snapshot.last_retrain = retrains.newest;
    return {};
  }));
  if (state.phase == Phase::kWatching) return snapshot;

  FALAJ_TRY(look_at_run(bound, state, snapshot));
  if (state.phase == Phase::kEvaluating) snapshot.candidate_version = state.candidate;
  snapshot.evaluated = state.evaluated;
  snapshot.evaluated_champion = state.evaluated_champion;
  snapshot.champion_auc = state.champion_auc;
  snapshot.candidate_auc = state.candidate_auc;
  snapshot.gate_rows = state.gate_rows;
  snapshot.gate_positives = state.gate_positives;
  return snapshot;
}

Status Controller::Impl::look_at_run(const Bound& bound, const State& state, Snapshot& snapshot) {
  snapshot.run = state.run;
  snapshot.run_error = state.run_error;
  snapshot.run_status = "failed";
  if (!state.run_error.empty()) return {};
  const Result<tracking::Run> run = runs.get(RunId(state.run));
  if (!run.ok()) return run.error().code == Code::kNotFound ? Status() : Status(run.error());
  snapshot.run_status = tracking::status_name(run->status);
  snapshot.candidate_version = run->outputs["model"].integer("version");
  // The job or the deployment may have been declared anew since the run began.
  const std::string made = run->outputs["model"].text("name", bound.deployment.model);
  if (snapshot.obstacle.empty() && made != bound.deployment.model) {
    snapshot.obstacle = "run " + state.run + " made a version of model '" + made +
                        "', but deployment '" + bound.deployment.name + "' serves model '" +
                        bound.deployment.model + "'";
  }
  return {};
}

// Labels are counted from the moment of the alarm, by when their ingest was committed.
Status Controller::Impl::count_labels(const Bound& bound, Snapshot& snapshot) {
  if (!snapshot.alarm_open || !snapshot.obstacle.empty()) return {};
  const auto rows = static_cast<std::int64_t>(FALAJ_TRY(label_stats(bound)).rows);
  if (bound.policy.labels_min == 0) {
    if (rows == 0) snapshot.obstacle = "label view '" + bound.set.spine_view + "' has no rows";
    return {};
  }
  snapshot.labels_since_alarm = static_cast<std::int64_t>(FALAJ_TRY(
      features::rows_since(sql, bound.project(), bound.set.spine_view, snapshot.alarm_at)));
  return {};
}

Result<features::ViewStats> Controller::Impl::label_stats(const Bound& bound) {
  for (const features::ViewStats& stats :
       FALAJ_TRY(features::view_stats(sql, nullptr, bound.project()))) {
    if (stats.view == bound.set.spine_view) return stats;
  }
  return features::ViewStats{};
}

// A label dated in the future would move both windows to where nothing is.
Result<Timestamp> Controller::Impl::newest_label(const Bound& bound) {
  const features::ViewStats stats = FALAJ_TRY(label_stats(bound));
  if (stats.rows > 0) return std::min(stats.newest_event, clock.now());
  return Error(ErrorId::kLabelsMissing, "label view '" + bound.set.spine_view + "' has no rows");
}

// Data that cannot be frozen however often it is tried ends the round at the next tick, and counts
// as a retraining: cooldown and the week's maximum hold for it too.
Status Controller::Impl::retrain(const Bound& bound, State state) {
  const Timestamp gate_begins = FALAJ_TRY(newest_label(bound)) - bound.policy.gate_window;
  const security::RequestContext by = FALAJ_TRY(context(bound));
  state.round += 1;
  state.phase = Phase::kTraining;
  state.alarm = state.snapshot.alarm;
  state.began_at = clock.now();
  features::FreezeOptions options;
  options.from = gate_begins - bound.policy.train_window;
  options.to = gate_begins;
  options.name_suffix = "-round-" + std::to_string(state.round);
  const Result<features::Manifest> manifest = sets.freeze(by, bound.set.name, options);
  if (!manifest.ok() && !is_final(manifest.error())) return manifest.error();

  Value evidence;
  if (manifest.ok()) {
    state.training_set = manifest->id;
    evidence["training_set"] = manifest->id;
    evidence["rows"] = manifest->rows;
  } else {
    state.run_error = manifest.error().message;
    evidence["error"] = state.run_error;
  }
  evidence["from"] = to_rfc3339(*options.from);
  evidence["to"] = to_rfc3339(*options.to);
  evidence["job"] = bound.policy.job;
  FALAJ_TRY(decide(bound, state, std::move(evidence), state.began_at));
  return manifest.ok() ? ensure_run(bound, state) : Status();
}

// Starts the run of this round, or finds the one that was started before a crash.
Status Controller::Impl::ensure_run(const Bound& bound, State& state) {
  for (const tracking::Run& run : FALAJ_TRY(runs.list(bound.project(), kRunsSearched))) {
    const bool ours = run.experiment == bound.policy.job && run.created_at >= state.began_at &&
                      run.inputs["training_set"].text("id") == state.training_set;
    // One that ended before it began never had a job: the server died, or the queue was full.
    const bool never_ran =
        run.status == tracking::RunStatus::kFailed && run.started_at == Timestamp{};
    if (!ours || never_ran) continue;
    state.run = run.id.str();
    return save(bound, state);
  }
  const auto started = trainer.run(FALAJ_TRY(context(bound)), bound.policy.job, state.training_set);
  if (started.ok()) {
    state.run = started->run.str();
  } else if (is_final(started.error())) {
    state.run_error = started.error().message;
  } else {
    return started.error();
  }
  return save(bound, state);
}

Result<std::unique_ptr<serving::Session>> Controller::Impl::load(
    const registry::ModelVersion& version) {
  const std::string bytes = FALAJ_TRY(models.load_onnx(version));
  return runtime.load_bytes(bytes);
}

Result<Comparison> Controller::Impl::measure(const Bound& bound, const features::Manifest& gate,
                                             const State& state) {
  const registry::ModelVersion champion = FALAJ_TRY(
      models.get(bound.project(), bound.deployment.model, state.snapshot.champion_version));
  const registry::ModelVersion candidate =
      FALAJ_TRY(models.get(bound.project(), bound.job.model, state.candidate));
  const auto champion_session = FALAJ_TRY(load(champion));
  const auto candidate_session = FALAJ_TRY(load(candidate));
  const auto data = FALAJ_TRY(blobs.open(features::owner_of(gate), gate.data));
  return compare(*data, gate.label, {champion_session.get(), champion.signature.features},
                 {candidate_session.get(), candidate.signature.features});
}

// What cannot be measured counts as measured with no rows: the gate then keeps the champion.
Status Controller::Impl::evaluate(const Bound& bound, State state) {
  state.model = bound.job.model;
  state.candidate = state.snapshot.candidate_version;
  state.evaluated_champion = state.snapshot.champion_version;
  Value evidence;
  const auto measured = [&]() -> Result<Comparison> {
    const Timestamp newest = FALAJ_TRY(newest_label(bound));
    features::FreezeOptions options;
    options.from = newest - bound.policy.gate_window;
    options.to = newest + Duration::nanoseconds(1);
    options.name_suffix = "-gate-" + std::to_string(state.round);
    const features::Manifest gate =
        FALAJ_TRY(sets.freeze(FALAJ_TRY(context(bound)), bound.set.name, options));
    state.gate_set = gate.id;
    evidence["gate_set"] = gate.id;
    evidence["from"] = to_rfc3339(*options.from);
    evidence["to"] = to_rfc3339(newest);
    return measure(bound, gate, state);
  }();
  if (!measured.ok() && !is_final(measured.error())) return measured.error();
  const Comparison comparison = measured.ok() ? *measured : Comparison{};
  if (!measured.ok()) evidence["error"] = measured.error().message;
  state.phase = Phase::kEvaluating;
  state.evaluated = true;
  state.champion_auc = comparison.champion_auc;
  state.candidate_auc = comparison.candidate_auc;
  state.gate_rows = comparison.rows;
  state.gate_positives = comparison.positives;
  evidence["champion"] = state.evaluated_champion;
  evidence["candidate"] = state.candidate;
  evidence["champion_auc"] = comparison.champion_auc;
  evidence["candidate_auc"] = comparison.candidate_auc;
  evidence["rows"] = comparison.rows;
  evidence["positives"] = comparison.positives;
  return decide(bound, state, std::move(evidence), {});
}

// Moves the alias only from the version that was measured: another one, or another deployment than
// the decision was made on, takes the round back to the evaluation.
Status Controller::Impl::finish_promotion(const Bound& bound, State& state) {
  const std::string& alias = bound.deployment.alias;
  const bool same_model = state.model == bound.deployment.model;
  if (!same_model || !obstacle_of(bound).empty()) return withdraw_promotion(bound, state);
  const std::optional<std::int64_t> now_at =
      FALAJ_TRY(models.alias(bound.project(), bound.deployment.model, alias));
  if (now_at != state.candidate) {
    Value evidence;
    evidence["policy"] = bound.key.policy;
    evidence["reason"] = state.last_action.reason;
    evidence["run"] = state.run;
    evidence["gate_set"] = state.gate_set;
    const Status moved =
        models.set_alias(FALAJ_TRY(context(bound)), bound.deployment.model, alias, state.candidate,
                         evidence, {.expected_version = state.evaluated_champion});
    const bool moved_by_another = !moved.ok() && moved.error().id == ErrorId::kConflict;
    if (moved_by_another) return withdraw_promotion(bound, state);
    FALAJ_TRY(moved);
  }
  state = after_round(state);
  FALAJ_TRY(save(bound, state));
  return deployments.tick();
}

Status Controller::Impl::withdraw_promotion(const Bound& bound, State& state) {
  log::warn("promotion withdrawn", {{"policy", bound.key.project + "/" + bound.key.policy},
                                    {"reason", "what serves changed since the evaluation"}});
  state.promoting = false;
  return save(bound, state);
}

Status Controller::Impl::save(const Bound& bound, const State& state) {
  return sql.write([&](storage::SqlTransaction& tx) { return save_state(tx, bound.key, state); });
}

// The new state and the audit entry of the decision that led to it, together or not at all.
Status Controller::Impl::decide(const Bound& bound, const State& state, Value evidence,
                                Timestamp retrained_at) {
  Value detail;
  detail["snapshot"] = to_value(state.snapshot);
  detail["policy"] = to_value(bound.policy);
  detail["action"] = to_value(state.last_action);
  detail["evidence"] = std::move(evidence);
  const std::string action = "loop." + std::string(action_name(state.last_action.kind));
  const security::RequestContext by = FALAJ_TRY(context(bound));
  log::info("loop decision", {{"policy", bound.key.project + "/" + bound.key.policy},
                              {"action", action_name(state.last_action.kind)},
                              {"reason", state.last_action.reason}});
  return sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(save_state(tx, bound.key, state));
    if (retrained_at != Timestamp{}) FALAJ_TRY(insert_retrain(tx, bound.key, retrained_at));
    FALAJ_TRY(audit.append(tx, by, {action, bound.object(), detail}));
    return {};
  });
}

// The zone of what a round makes is that of the model it continues.
Result<security::RequestContext> Controller::Impl::context(const Bound& bound) {
  const registry::ModelVersion version =
      FALAJ_TRY(models.get(bound.project(), bound.deployment.model, FALAJ_TRY(champion(bound))));
  return security::system_context("service:loop", bound.project(), Zone(version.zone));
}

Result<std::vector<PolicyStatus>> Controller::status(const ProjectName& project) const {
  std::vector<PolicyStatus> statuses;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::Object& object :
         FALAJ_TRY(storage::list_objects(tx, "Policy", project.str()))) {
      const State state = FALAJ_TRY(load_state(tx, {object.project, object.name}));
      statuses.push_back(
          {object.project, object.name, state.phase, state.last_action, state.snapshot, {}, {}});
    }
    return {};
  }));
  MutexLock lock(impl_->showing);
  for (PolicyStatus& status : statuses) {
    const auto newer = impl_->shown.find({status.project, status.policy});
    if (newer == impl_->shown.end()) continue;
    status.current_action = newer->second.first;
    status.current_snapshot = newer->second.second;
  }
  return statuses;
}

}  // namespace falaj::loop
