#include "app/libraries.h"
#include "app/wiring.h"
#include "base/log.h"
#include "exec/sandbox.h"

namespace falaj::app {
namespace {

// Said once at the start, loudly, and then by /readyz for as long as the server runs.
std::vector<std::string> missing_protections() {
  const auto report = exec::probe_sandbox();
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

}  // namespace

Training::~Training() {
  if (queue) queue->stop();
}

Result<Training> wire_training(const Options& options, Storage& storage,
                               security::JobIdentities& identities, Features& features,
                               telemetry::Metrics& metrics, const Clock& clock) {
  Training parts;
  parts.runs = std::make_unique<tracking::Runs>(*storage.sql, *storage.audit, clock);
  parts.retrain_due = std::make_unique<registry::RetrainDue>(*storage.sql, *storage.audit, clock);
  parts.models = std::make_unique<registry::Models>(*storage.sql, *storage.blobs, *storage.audit,
                                                    *storage.model_trust, clock);
  jobs::QueueOptions queue;
  queue.work_folder = options.data_folder + "/jobs";
  queue.concurrency = options.job_concurrency;
  parts.queue = FALAJ_TRY(jobs::Queue::open(queue, *storage.sql, *storage.audit, metrics, clock));
  training::TrainOptions train;
  train.program = program_path();
  train.code_version = version_text() + "+" + build_text();
  train.library_folders = {library_folder()};
  train.memory_bytes_max = options.job_memory_max;
  train.processes_max = options.job_processes_max;
  train.run_time_max = options.job_time_max;
  train.sandbox = options.job_sandbox;
  train.tokens.mint = [&identities, &clock](const JobId& job, std::vector<security::Scope> scopes) {
    return identities.mint(job, std::move(scopes), clock.now());
  };
  train.tokens.end = [&identities](const JobId& job) { identities.end(job); };
  parts.trainer = std::make_unique<training::TrainJobs>(train, *storage.sql, *storage.blobs,
                                                        *features.training_sets, *parts.runs,
                                                        *parts.models, *parts.queue);
  parts.queue->handle("train", *parts.trainer);
  parts.unprotected = missing_protections();
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
