#include <filesystem>

#include "app/libraries.h"
#include "app/wiring.h"
#include "base/log.h"
#include "exec/sandbox.h"
#include "jobs/checkpoint/memory_folder.h"
#include "jobs/command.h"
#include "jobs/oci/bundle.h"
#include "jobs/runtimes.h"
#include "jobs/warden_executor.h"
#include "training/worker_jobs.h"

namespace falaj::app {
namespace {

// Said once at the start, loudly, and then by /readyz for as long as the server runs.
std::vector<std::string> missing_protections(const Options& options) {
  const auto report = exec::probe_sandbox({options.data_folder, options.job_io_max});
  if (!report.ok()) {
    log::error("jobs cannot be confined", {{"why", report.error().message}});
    return {"sandbox"};
  }
  std::vector<std::string> missing;
  for (const std::string& refused : report->refused) {
    log::error("jobs run with less protection than they should: falaj doctor tells more",
               {{"protection", refused}});
    missing.push_back(refused.substr(0, refused.find(':')));
  }
  return missing;
}

// What programs write and print lies in clear while they run: in memory, so that it is nowhere once
// the machine is off. Where there is no such memory that is said, loudly.
Status choose_work_folder(Options& options, Training& parts) {
  if (!options.jobs_work_dir.empty()) return {};
  const auto folder = jobs::checkpoint::MemoryFolder::private_root("jobs", options.data_folder);
  if (folder.ok()) {
    parts.work_folder = *folder + "/jobs";
    options.jobs_work_dir = parts.work_folder;
    return {};
  }
  log::error("folders and logs of running jobs lie in clear in the data folder",
             {{"why", folder.error().message}});
  parts.unprotected.emplace_back("jobs in memory");
  options.jobs_work_dir = options.data_folder + "/jobs";
  return {};
}

// "/a:/b" as folders.
Result<std::vector<std::string>> folders_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    const std::string_view folder = text.substr(0, colon);
    text.remove_prefix(colon == std::string_view::npos ? text.size() : colon + 1);
    if (folder.empty()) continue;
    if (!folder.starts_with('/')) {
      return Error(ErrorId::kOutOfRange, "jobs.readable and jobs.writable name whole paths, not '" +
                                             std::string(folder) + "'");
    }
    out.emplace_back(folder);
  }
  return out;
}

jobs::QueueOptions queue_options(const Options& options, Storage& storage) {
  jobs::QueueOptions queue;
  queue.work_folder = options.jobs_work_dir;
  queue.concurrency = options.job_concurrency;
  queue.waiting_max = options.jobs_waiting_max;
  if (options.node_cpus > 0) queue.machine.cpu_milli = options.node_cpus * 1000;
  if (options.node_memory > 0) queue.machine.memory_bytes = options.node_memory;
  queue.admits = [exits = storage.exits.get()](const security::RequestContext& context) -> Status {
    security::residency::Flow flow;
    flow.exit = security::residency::Exit::kSchedule;
    flow.project = context.project.str();
    flow.data = context.zone;
    flow.destination = exits->machine_for(context.zone);
    flow.object = "Job";
    FALAJ_TRY(exits->pass(context, std::move(flow)));
    return {};
  };
  queue.may_hold = [exits = storage.exits.get()](const std::string& project, const Zone& data) {
    security::residency::Flow flow;
    flow.exit = security::residency::Exit::kSchedule;
    flow.project = project;
    flow.data = data;
    flow.destination = exits->machine_for(data);
    flow.object = "Job";
    return exits->would_pass(std::move(flow)).allowed;
  };
  return queue;
}

Result<jobs::CommandOptions> command_options(const Options& options) {
  jobs::CommandOptions out;
  out.memory_bytes_max = options.job_memory_max;
  out.time_max = options.job_time_max;
  out.processes_max = options.job_processes_max;
  out.disk_bytes_max = options.job_disk_max;
  out.io_bytes_max = options.job_io_max;
  out.readable = FALAJ_TRY(folders_of(options.jobs_readable));
  out.writable = FALAJ_TRY(folders_of(options.jobs_writable));
  out.network = options.jobs_network == JobsNetwork::kHost;
  out.network_zone = Zone(options.jobs_network_zone);
  if (out.network && options.listen.mode == ListenOptions::Mode::kLoopback) {
    return Error(
        ErrorId::kOutOfRange,
        "jobs.network=host is for falaj serve: whoever reaches falaj dev is its developer, "
        "and a job with the machine's network would be");
  }
  out.program = program_path();
  out.oci_runtime = jobs::oci::find_oci_runtime(options.oci_runtime);
  out.sandbox.enabled = true;
  out.sandbox.interfaces = true;  // Workers of one job find each other by them.
  if (options.job_sandbox == training::SandboxPolicy::kRequired) {
    out.sandbox.required = exec::full_confinement();
  }
  return out;
}

// What a command with the machine's network reads, it can send wherever that leads: it passes as a
// download to there would. Each pass has its entry and its row before the command begins.
auto departures(security::residency::Exits& exits, const Zone& leads_to) {
  return [&exits, leads_to](const security::RequestContext& context, const std::string& object,
                            jobs::Departure why) -> Status {
    security::residency::Flow flow;
    flow.exit = security::residency::Exit::kExport;
    flow.project = context.project.str();
    flow.data = context.zone;
    flow.destination =
        exits.caller_zone(context.zone, leads_to, security::residency::Caller::kElsewhere);
    flow.object = object;
    if (why == jobs::Departure::kAsked && exits.would_pass(flow).allowed) return {};
    FALAJ_TRY(exits.pass_recorded(context, std::move(flow)));
    return {};
  };
}

jobs::CommandIdentity command_identity(JobDoor door, const Clock& clock) {
  jobs::CommandIdentity out;
  out.begin = [&identities = door.identities, &clock](
                  const jobs::AttemptId& id, std::vector<security::Scope> scopes,
                  security::PrincipalPtr submitter, const Zone& place) {
    return identities.mint_for(id.job, to_string(id), std::move(scopes), clock.now(),
                               std::move(submitter), place);
  };
  out.end = [&identities = door.identities](const JobId& job) { identities.end(job); };
  out.server = [&server = door.server] { return server; };
  return out;
}

// Commands may name them from here on.
Result<std::unique_ptr<jobs::Runtimes>> wire_runtimes(const Options& options, Storage& storage,
                                                      jobs::CommandOptions& commands,
                                                      jobs::Queue& queue) {
  jobs::RuntimesOptions own;
  own.folder = std::filesystem::absolute(options.data_folder).string() + "/runtimes";
  if (options.job_memory_max > 0) own.memory_bytes_max = options.job_memory_max;
  if (options.job_time_max.nanos > 0) own.run_time_max = options.job_time_max;
  own.sandbox = commands.sandbox;
  own.program = commands.program;
  own.oci_runtime = commands.oci_runtime;
  auto runtimes = FALAJ_TRY(jobs::Runtimes::open(std::move(own), *storage.sql, queue));
  queue.handle(std::string(jobs::kRuntimeType), *runtimes);
  commands.resolve = [runtimes = runtimes.get()](const security::RequestContext& context,
                                                 jobs::JobSpec& spec) {
    return runtimes->resolve(context, spec);
  };
  return runtimes;
}

}  // namespace

Training::~Training() {
  if (queue) queue->stop();
  if (work_folder.empty()) return;
  queue.reset();
  std::error_code ignored;
  std::filesystem::remove_all(work_folder + "-spare", ignored);
  // Unless jobs that go on have theirs there.
  std::filesystem::remove(work_folder, ignored);
  std::filesystem::remove(std::filesystem::path(work_folder).parent_path(), ignored);
}

Result<Training> wire_training(const Options& given, Storage& storage, JobDoor door,
                               Features& features, telemetry::Metrics& metrics,
                               const Clock& clock) {
  security::JobIdentities& identities = door.identities;
  Training parts;
  Options options = given;
  FALAJ_TRY(choose_work_folder(options, parts));
  parts.runs = std::make_unique<tracking::Runs>(*storage.sql, *storage.audit, clock);
  parts.retrain_due = std::make_unique<registry::RetrainDue>(*storage.sql, *storage.audit, clock);
  parts.models = std::make_unique<registry::Models>(*storage.sql, *storage.blobs, *storage.audit,
                                                    *storage.model_trust, clock);
  jobs::WardenExecutorOptions warden;
  warden.folder = std::filesystem::absolute(options.data_folder).string() + "/warden";
  warden.warden = {program_path(), "engine", "warden"};
  parts.executor = FALAJ_TRY(jobs::make_warden_executor(std::move(warden)));
  parts.queue = FALAJ_TRY(jobs::Queue::open(queue_options(options, storage), *storage.sql,
                                            *storage.audit, metrics, clock));
  jobs::CommandOptions commands = FALAJ_TRY(command_options(options));
  parts.runtimes = FALAJ_TRY(wire_runtimes(options, storage, commands, *parts.queue));
  commands.identity = command_identity(door, clock);
  commands.departs = departures(*storage.exits, commands.network_zone);
  parts.queue->run_commands(*parts.executor, commands);
  training::TrainOptions train;
  train.program = program_path();
  train.code_version = version_text() + "+" + build_text();
  train.library_folders = {library_folder()};
  train.memory_bytes_max = options.job_memory_max;
  train.processes_max = options.job_processes_max;
  train.run_time_max = options.job_time_max;
  train.sandbox = options.job_sandbox;
  train.checkpoint_folder =
      std::filesystem::absolute(options.data_folder).lexically_normal().string() + "/checkpoints";
  train.tokens.mint = [&identities, &clock](const JobId& job, std::vector<security::Scope> scopes) {
    return identities.mint(job, std::move(scopes), clock.now());
  };
  train.tokens.end = [&identities](const JobId& job) { identities.end(job); };
  parts.trainer = std::make_unique<training::TrainJobs>(train, *storage.sql, *storage.blobs,
                                                        *features.training_sets, *parts.runs,
                                                        *parts.models, *parts.queue);
  parts.queue->handle("train", *parts.trainer);
  parts.queue->accompany(training::WorkerJobs::kName, parts.trainer->companion());
  static_cast<training::WorkerJobs&>(parts.trainer->companion())
      .seal_with({storage.keys.tree.get(), storage.exits.get()});
  if (commands.network) {
    log::warn("commands that ask for it have this machine's network: what they read can leave it",
              {{"setting", "jobs.network"}});
    parts.unprotected.emplace_back("jobs.network");
  }
  for (std::string& each : missing_protections(options)) {
    parts.unprotected.push_back(std::move(each));
  }
  FALAJ_TRY(parts.trainer->recover());
  return parts;
}

void renew_job_tokens(security::JobIdentities& identities, const jobs::Queue& queue,
                      const Clock& clock) {
  for (const JobId& id : identities.ending(clock.now())) {
    const Result<jobs::Job> job = queue.get(id);
    if (job.ok() && job->status == jobs::JobStatus::kRunning) identities.renew(id, clock.now());
  }
}

}  // namespace falaj::app
