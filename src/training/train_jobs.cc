#include "training/train_jobs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/sandbox.h"
#include "jobs/capture.h"
#include "jobs/exit_error.h"
#include "security/identity/job_identities.h"
#include "training/engine.h"
#include "training/engine_process.h"
#include "training/worker_jobs.h"

namespace falaj::training {
namespace {

constexpr const char* kJobType = "train";
// Reports come many times a second, a durable write costs an fsync: they are gathered.
constexpr std::int64_t kFlushNanos = 250'000'000;
constexpr std::size_t kPointsMax = 2'000;

// What a job's payload holds: the declaration as it was when the job was submitted.
struct Order {
  RunId run;
  std::string manifest;
  std::string set_name;  // Of that manifest.
  TrainJob job;
};

Value to_payload(const Order& order) {
  Value value;
  value["run"] = order.run.str();
  value["train_job"] = order.job.name;
  value["training_set"] = order.manifest;
  value["set_name"] = order.set_name;
  value["engine"] = order.job.engine;
  value["params"] = order.job.params;
  value["threads"] = order.job.threads;
  value["memory_bytes_max"] = order.job.memory_bytes_max;
  value["run_nanos_max"] = order.job.run_time_max.nanos;
  value["model"] = order.job.model;
  value["verify_rows"] = order.job.verify_rows;
  return value;
}

Order from_payload(const Value& value) {
  Order order;
  order.run = RunId(value.text("run"));
  order.manifest = value.text("training_set");
  order.job.name = value.text("train_job");
  order.set_name = value.text("set_name");
  order.job.engine = value.text("engine");
  order.job.params = value["params"];
  order.job.threads = value.integer("threads", 1);
  order.job.memory_bytes_max = value.integer("memory_bytes_max");
  order.job.run_time_max = Duration{value.integer("run_nanos_max")};
  order.job.model = value.text("model");
  order.job.verify_rows = value.integer("verify_rows");
  return order;
}

exec::Limits limits_of(const TrainJob& job, const TrainOptions& options) {
  exec::Limits limits;
  limits.memory_bytes_max = std::min(job.memory_bytes_max, options.memory_bytes_max);
  limits.run_time_max = std::min(job.run_time_max, options.run_time_max);
  limits.file_bytes_max = options.file_bytes_max;
  limits.processes_max = options.processes_max;
  limits.cpus_max = static_cast<double>(job.threads);
  return limits;
}

security::RequestContext service_context(const std::string& project, const std::string& zone) {
  return security::system_context("service:training", ProjectName(project), Zone(zone));
}

// What a job was started for: it may read the frozen set and its own run, and register the model
// that it declares, whatever the person who started it may do.
std::vector<security::Scope> job_scopes(const std::string& project, const Order& order) {
  std::vector<security::Scope> scopes{{"features.read", project, "TrainingSet/" + order.set_name},
                                      {"models.read", project, "Run/" + order.run.str()}};
  if (!order.job.model.empty()) {
    scopes.push_back({"models.write", project, "Model/" + order.job.model});
  }
  return scopes;
}

// A job is a principal of its own.
security::RequestContext job_context(const JobId& job, const Order& order,
                                     const features::Manifest& manifest) {
  security::RequestContext context;
  context.project = ProjectName(manifest.project);
  context.zone = Zone(manifest.zone);
  context.principal =
      security::job_principal(job, job_scopes(manifest.project, order), Timestamp::max());
  return context;
}

Status check_scope(const security::RequestContext& context, std::string_view action,
                   const std::string& object) {
  if (security::within_scopes(context.principal, action, context.project.str(), object)) return {};
  return Error{ErrorId::kJobScopeExceeded, context.principal.id + " may not do " +
                                               std::string(action) + " to " + object +
                                               ": it was not started for that"};
}

Result<std::string> find_library(const std::vector<std::string>& folders) {
  std::string tried;
  for (const std::string& folder : folders) {
    const std::string path = folder + "/lib_lightgbm.so";
    if (std::ifstream(path).good()) return path;
    tried.append(tried.empty() ? "" : ", ").append(folder);
  }
  return Error(ErrorId::kEngineUnavailable,
               "lib_lightgbm.so is in none of the library folders (" + tried +
                   "); run ./dev setup, or install the package with its libraries");
}

// Its payload names a run. Nobody else can write a companion into a payload.
bool is_training(const jobs::Job& job) {
  return job.spec.type == kJobType || job.spec.payload.text("companion") == WorkerJobs::kName;
}

std::string describe(const Error& error) { return to_string(error.id) + ": " + error.message; }

}  // namespace

struct TrainJobs::Impl {
  TrainOptions options;
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  features::TrainingSets& sets;
  tracking::Runs& runs;
  registry::Models& models;
  jobs::Queue& queue;
  WorkerJobs workers;

  // Reports not written yet.
  struct Pending {
    std::vector<tracking::MetricPoint> points;
    double progress = 0;
    std::int64_t flushed_at = 0;
  };
  Mutex mutex;
  // Of processes under way: what they may still give back.
  std::map<JobId, EngineFiles> files FALAJ_GUARDED_BY(mutex);
  std::map<RunId, Pending> pending FALAJ_GUARDED_BY(mutex);

  Result<TrainJob> declaration(const std::string& project, const std::string& name) {
    std::optional<TrainJob> job;
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      const auto object = FALAJ_TRY(storage::get_object(tx, "TrainJob", project, name));
      job = FALAJ_TRY(decode_train_job(object));
      return {};
    }));
    return *std::move(job);
  }

  Result<Started> run_workers(const security::RequestContext& context, const TrainJob& job,
                              const std::string& manifest_id, const Value& capture);
  // What was declared to be kept, with what the request and the server know.
  Result<Value> captured(const security::RequestContext& context, Value declared,
                         const Value& capture) const;
  Result<exec::ChildSpec> command(const jobs::Job& job, const Order& order,
                                  const std::string& work_dir);
  // Its process is over: what it may still give back. Its identity ends here.
  std::optional<EngineFiles> take_files(const JobId& job);
  // Writes what was gathered. A run that has ended meanwhile takes no more: that is no fault.
  void flush(const RunId& run);
  void write(const RunId& run, const Pending& reports);
  Result<Value> register_model(const JobId& job, const Order& order,
                               const features::Manifest& manifest,
                               const EngineFiles::Outcome& outcome);
  Result<Value> collect(const jobs::Job& job, const Order& order, const EngineFiles& left);
  void end_run(const Order& order, const std::string& project, tracking::RunStatus status,
               const std::string& error, const Value& outputs);
  void end_like(const jobs::Job& job, const Order& order);
};

Result<exec::ChildSpec> TrainJobs::Impl::command(const jobs::Job& job, const Order& order,
                                                 const std::string& work_dir) {
  const auto manifest = FALAJ_TRY(sets.by_id(ProjectName(job.spec.project), order.manifest));
  EngineConfig config;
  config.features = manifest.features;
  config.label = manifest.label;
  config.engine = order.job.engine;
  config.params = order.job.params;
  config.threads = order.job.threads;
  config.verify_rows = order.job.verify_rows;
  config.library = FALAJ_TRY(find_library(options.library_folders));
  config.training_set = manifest.id;
  FALAJ_TRY(check_scope(job_context(job.id, order, manifest), "features.read",
                        "TrainingSet/" + manifest.name));
  storage::BlobGrant grant = FALAJ_TRY(blobs.grant(features::owner_of(manifest), manifest.data));
  EngineFiles left = FALAJ_TRY(EngineFiles::create(config, std::move(grant)));
  exec::ChildSpec spec;
  spec.argv = {options.program, "engine", "train"};
  spec.inherited = left.inherited();
  // A spinning OpenMP thread starves the others on shared cores.
  spec.env = {{"GOMP_SPINCOUNT", "0"},
              {"OMP_NUM_THREADS", std::to_string(order.job.threads)},
              {"LC_ALL", "C.UTF-8"},
              {"PATH", "/usr/bin:/bin"},
              // The server may have been told where they are; the process must find the same ones.
              {"FALAJ_LIBRARY_DIR", options.library_folders.front()}};
  if (options.tokens.mint) {
    spec.env.emplace_back(
        "FALAJ_TOKEN", FALAJ_TRY(options.tokens.mint(job.id, job_scopes(manifest.project, order))));
  }
#if defined(__SANITIZE_ADDRESS__)
  // At its end the leak check traces its own process, which the sandbox refuses.
  spec.env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
#endif
  spec.work_dir = work_dir;
  spec.sandbox.enabled = true;
  spec.sandbox.read_only = options.library_folders;
  if (options.sandbox == SandboxPolicy::kRequired) {
    spec.sandbox.required = exec::full_confinement();
  }
  spec.limits = limits_of(order.job, options);
  const MutexLock lock(mutex);
  files.insert_or_assign(job.id, std::move(left));
  return spec;
}

std::optional<EngineFiles> TrainJobs::Impl::take_files(const JobId& job) {
  if (options.tokens.end) options.tokens.end(job);
  const MutexLock lock(mutex);
  auto node = files.extract(job);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void TrainJobs::Impl::write(const RunId& run, const Pending& reports) {
  Status status = runs.log_metrics(run, reports.points);
  if (status.ok()) status = runs.set_progress(run, reports.progress);
  if (!status.ok() && status.error().code != Code::kConflict) {
    log::warn("run report not written", {{"run", run.str()}, {"error", status.error().message}});
  }
}

void TrainJobs::Impl::flush(const RunId& run) {
  Pending reports;
  {
    MutexLock lock(mutex);
    const auto found = pending.find(run);
    if (found == pending.end()) return;
    reports = std::move(found->second);
    pending.erase(found);
  }
  write(run, reports);
}

void TrainJobs::Impl::end_run(const Order& order, const std::string& project,
                              tracking::RunStatus status, const std::string& error,
                              const Value& outputs) {
  const Status ended = runs.end(service_context(project, ""), order.run, status, error, outputs);
  // A conflict: the server died after this had been written, and the job came back.
  if (ended.ok() || ended.error().code == Code::kConflict) return;
  log::error("run not ended", {{"run", order.run.str()}, {"error", ended.error().message}});
}

Result<Value> TrainJobs::Impl::register_model(const JobId& job, const Order& order,
                                              const features::Manifest& manifest,
                                              const EngineFiles::Outcome& outcome) {
  const security::RequestContext context = job_context(job, order, manifest);
  FALAJ_TRY(check_scope(context, "models.write", "Model/" + order.job.model));
  registry::ModelVersion version;
  version.project = manifest.project;
  version.model = order.job.model;
  version.zone = manifest.zone;
  FALAJ_TRY(registry::keep_onnx(blobs, outcome.model_onnx, version));
  FALAJ_TRY(registry::keep_native(blobs, outcome.model_text, version));
  version.signature = outcome.signature;
  version.training_set = manifest.id;
  version.feature_service = manifest.service;
  version.run = order.run;
  version.code_version = options.code_version;
  version.metrics = outcome.metrics;
  version.proof = outcome.proof;
  const auto made = FALAJ_TRY(models.add_version(context, std::move(version)));
  Value model;
  model["name"] = made.model;
  model["version"] = made.version;
  return model;
}

// The child ended well: its result becomes the run's, and a model version if one is wanted.
Result<Value> TrainJobs::Impl::collect(const jobs::Job& job, const Order& order,
                                       const EngineFiles& left) {
  const std::string& project = job.spec.project;
  const auto manifest = FALAJ_TRY(sets.by_id(ProjectName(project), order.manifest));
  const EngineFiles::Outcome result =
      FALAJ_TRY(left.outcome(manifest.features, order.job.verify_rows));
  Value outputs;
  outputs["rounds"] = result.rounds;
  outputs["proof"] = result.proof;
  if (!order.job.model.empty()) {
    outputs["model"] = FALAJ_TRY(register_model(job.id, order, manifest, result));
  }
  const Status shown = runs.set_metrics(order.run, result.metrics);
  if (!shown.ok() && shown.error().code != Code::kConflict) return shown.error();
  Value out = outputs;
  out["metrics"] = result.metrics;
  end_run(order, project, tracking::RunStatus::kFinished, "", outputs);
  return out;
}

TrainJobs::TrainJobs(TrainOptions options, storage::SqlStore& sql, storage::BlobStore& blobs,
                     features::TrainingSets& sets, tracking::Runs& runs, registry::Models& models,
                     jobs::Queue& queue)
    : impl_(new Impl{options,
                     sql,
                     blobs,
                     sets,
                     runs,
                     models,
                     queue,
                     {{options.program, options.checkpoint_folder}, runs, queue},
                     {},
                     {},
                     {}}) {}

TrainJobs::~TrainJobs() = default;

Result<std::string> TrainJobs::engine_of(const ProjectName& project,
                                         const std::string& name) const {
  const TrainJob job = FALAJ_TRY(impl_->declaration(project.str(), name));
  return job.engine;
}

jobs::Companion& TrainJobs::companion() { return impl_->workers; }

Result<TrainJobs::Started> TrainJobs::Impl::run_workers(const security::RequestContext& context,
                                                        const TrainJob& job,
                                                        const std::string& manifest_id,
                                                        const Value& capture) {
  if (!manifest_id.empty()) {
    return Error(ErrorId::kOutOfRange, "TrainJob '" + job.name +
                                           "' runs a command, which is given no training set: "
                                           "leave training_set_id out");
  }
  FALAJ_TRY(queue.room(context.project));
  WorkerPlan plan = *job.workers;
  plan.capture = FALAJ_TRY(captured(context, std::move(plan.capture), capture));
  const WorkerJobs::Started started = FALAJ_TRY(workers.run(context, job.name, plan, job.params));
  return Started{started.run, started.job, {}};
}

Result<Value> TrainJobs::Impl::captured(const security::RequestContext& context, Value declared,
                                        const Value& capture) const {
  if (declared.is_null() && capture.is_null()) return declared;
  if (declared.is_null()) declared = Value::object();
  if (capture.is_object()) {
    for (const auto& [name, value] : capture.as_object()) declared[name] = value;
  }
  Value& data = declared["data"];
  if (data.is_object()) {
    const auto manifest = FALAJ_TRY(sets.latest(context.project, data.text("training_set")));
    data["fingerprint"] = manifest.data_sha256;
  } else {
    declared.as_object().erase("data");
  }
  declared["machine"] = jobs::machine_facts();
  return declared;
}

Result<TrainJobs::Started> TrainJobs::run(const security::RequestContext& context,
                                          const std::string& name, const std::string& manifest_id,
                                          const Value& capture) {
  Order order;
  order.job = FALAJ_TRY(impl_->declaration(context.project.str(), name));
  if (order.job.workers) {
    return impl_->run_workers(context, order.job, manifest_id, capture);
  }
  const features::Manifest manifest =
      FALAJ_TRY(manifest_id.empty() ? impl_->sets.latest(context.project, order.job.training_set)
                                    : impl_->sets.by_id(context.project, manifest_id));
  order.manifest = manifest.id;
  order.set_name = manifest.name;
  FALAJ_TRY(impl_->queue.room(context.project));  // Before a run is there that would only fail.
  std::vector<std::string> warnings;
  for (const std::string& newer : FALAJ_TRY(impl_->sets.newer_inputs(manifest))) {
    warnings.push_back("TrainingSet " + manifest.name + " was frozen before this: " + newer +
                       "; freeze it again to train on that");
  }
  tracking::Run wanted;
  wanted.experiment = name;
  wanted.params = order.job.params;
  wanted.inputs["training_set"]["name"] = manifest.name;
  wanted.inputs["training_set"]["id"] = manifest.id;
  wanted.inputs["training_set"]["rows"] = manifest.rows;
  // What learns from a frozen set stays where the set must.
  security::RequestContext there = context;
  there.zone = Zone(manifest.zone);
  order.run = FALAJ_TRY(impl_->runs.create(there, wanted)).id;
  jobs::JobSpec spec;
  spec.type = kJobType;
  spec.payload = to_payload(order);
  auto job = impl_->queue.submit(there, std::move(spec));
  if (!job.ok()) {
    impl_->end_run(order, context.project.str(), tracking::RunStatus::kFailed,
                   describe(job.error()), {});
    return std::move(job).error();
  }
  return Started{order.run, *job, std::move(warnings)};
}

// A run that is still open although its job has ended takes the job's end.
void TrainJobs::Impl::end_like(const jobs::Job& job, const Order& order) {
  switch (job.status) {
    case jobs::JobStatus::kQueued:
    case jobs::JobStatus::kRunning:
      return;  // The queue takes it up again.
    case jobs::JobStatus::kSucceeded: {
      Value outputs = job.result;
      if (outputs.is_object()) outputs.as_object().erase("metrics");
      end_run(order, job.spec.project, tracking::RunStatus::kFinished, "", outputs);
      return;
    }
    case jobs::JobStatus::kFailed:
      end_run(order, job.spec.project, tracking::RunStatus::kFailed, job.error, {});
      return;
    case jobs::JobStatus::kCancelled:
      end_run(order, job.spec.project, tracking::RunStatus::kStopped, "cancelled", {});
      return;
  }
}

void TrainJobs::tick() { impl_->workers.tick(); }

Status TrainJobs::recover() {
  for (const tracking::Run& run : FALAJ_TRY(impl_->runs.unfinished())) {
    Order order;
    order.run = run.id;
    const auto job = FALAJ_TRY(impl_->queue.of_run(run.id));
    if (job && is_training(*job)) {
      if (job->spec.type == jobs::kCommandType && job->status == jobs::JobStatus::kRunning) {
        impl_->workers.adopt(run.id);
      }
      impl_->end_like(*job, order);
      continue;
    }
    impl_->end_run(order, run.project, tracking::RunStatus::kFailed,
                   "the server stopped before the job was recorded; start it again", {});
  }
  return {};
}

Result<exec::ChildSpec> TrainJobs::prepare(const jobs::Job& job, const std::string& work_dir) {
  const Order order = from_payload(job.spec.payload);
  auto spec = FALAJ_TRY(impl_->command(job, order, work_dir));
  const Status started = impl_->runs.start(order.run);
  // It had ended when the server died and the job came back: the same bytes come out again.
  if (!started.ok() && started.error().code != Code::kConflict) return started.error();
  return spec;
}

void TrainJobs::abandoned(const jobs::Job& job, const Error& error) {
  impl_->take_files(job.id);
  const Order order = from_payload(job.spec.payload);
  impl_->flush(order.run);
  impl_->end_run(order, job.spec.project, tracking::RunStatus::kFailed, describe(error), {});
}

void TrainJobs::on_report(const jobs::Job& job, const Value& report) {
  const RunId run(job.spec.payload.text("run"));
  const std::int64_t now = monotonic_nanos();
  Impl::Pending due;
  {
    MutexLock lock(impl_->mutex);
    Impl::Pending& reports = impl_->pending[run];
    const double progress = report.number("progress", -1);
    if (progress >= 0 && progress <= 1) reports.progress = progress;
    if (report["metric"].is_string() && report["value"].is_number()) {
      reports.points.push_back(
          {report.text("metric"), report.integer("step"), report.number("value"), {}});
    }
    const bool full = reports.points.size() >= kPointsMax;
    if (!full && now - reports.flushed_at < kFlushNanos) return;
    due = std::exchange(reports, {{}, reports.progress, now});
  }
  impl_->write(run, due);
}

jobs::Handler::Outcome TrainJobs::finish(const jobs::Job& job, const exec::ChildExit& exit,
                                         const std::string&) {
  const std::optional<EngineFiles> left = impl_->take_files(job.id);
  const Order order = from_payload(job.spec.payload);
  const std::string& project = job.spec.project;
  impl_->flush(order.run);
  if (exit.reason == exec::ExitReason::kStopped) {
    impl_->end_run(order, project, tracking::RunStatus::kStopped, "cancelled", {});
    return {Error(Code::kCancelled, "cancelled"), false};
  }
  Status ended = jobs::check_exit(exit, limits_of(order.job, impl_->options));
  if (ended.ok() && !left) ended = Error(Code::kInternal, "the job's files are gone");
  if (!ended.ok() && left && ended.error().id == ErrorId::kJobFailed) {
    ended = left->error(ended.error());
  }
  Result<Value> result =
      ended.ok() ? impl_->collect(job, order, *left) : Result<Value>(ended.error());
  if (result.ok()) return {std::move(result), false};
  // Killed from outside is the one failure that another attempt may not meet.
  const bool retry = result.error().id == ErrorId::kJobKilled;
  if (!retry || job.attempts >= job.spec.attempts_max) {
    impl_->end_run(order, project, tracking::RunStatus::kFailed, describe(result.error()), {});
  }
  return {std::move(result), retry};
}

}  // namespace falaj::training
