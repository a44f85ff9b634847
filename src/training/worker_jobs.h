// training/worker_jobs.h — TrainJobs whose engine is a command: a gang of workers under `falaj
// launch`, one job of the queue.
//
//   FOLDER/RUN/archive     checkpoints, sealed, kept over attempts and after the end
//   MEMORY/metrics.jsonl   what workers reported: FALAJ_METRICS; in clear, so never on a disk
//   MEMORY/report.json     how the newest attempt went
//
// The workers' network is their own: 127.0.0.1 and nothing else. They survive a restart of the
// server; when the job is preempted or its machine dies, its next attempt goes on from the newest
// checkpoint.
#pragma once

#include <map>
#include <string>

#include "base/mutex.h"
#include "jobs/executor.h"
#include "jobs/queue.h"
#include "security/context.h"
#include "tracking/runs.h"
#include "training/checkpoint_vault.h"
#include "training/reports.h"
#include "training/worker_plan.h"

namespace falaj::training {

struct WorkerOptions {
  std::string program;  // The falaj binary.
  std::string folder;   // Absolute. "": such jobs are refused.
};

// Thread-safe.
class WorkerJobs final : public jobs::Companion {
 public:
  static constexpr const char* kName = "train";  // As jobs::Queue::accompany() knows it.

  WorkerJobs(WorkerOptions options, tracking::Runs& runs, jobs::Queue& queue);

  // What checkpoints are sealed with; before the queue starts. Without it they lie in clear.
  void seal_with(const CheckpointVault& vault) { vault_ = vault; }

  struct Started {
    RunId run;
    JobId job;
  };
  // Records the run and submits its job. As Queue::submit().
  Result<Started> run(const security::RequestContext& context, const std::string& name,
                      const WorkerPlan& plan, const Value& params);

  // Carries into the runs what their workers have reported since. For a ticker; cheap when nothing
  // was.
  void tick();
  // The run of a job that an earlier server started, and that may still be running, is followed.
  void adopt(const RunId& run);

  Status prepare(const jobs::Job& job, const jobs::Grant& grant, jobs::Work& work) override;
  Value ended(const jobs::Job& job, jobs::JobStatus status, const std::string& error) override;
  Timestamp newest_checkpoint(const jobs::Job& job) const override;

 private:
  struct Folders {
    std::string all;
    std::string archive;
    std::string memory;
    std::string reports;  // In memory too.
  };
  Result<Folders> folders_of(const RunId& run) const;
  std::string reports_of(const RunId& run) const;
  // Writes down what is new; whether there may be more.
  bool take_reports(const RunId& run, ReportTail& tail, ReportTail::Until until);

  const WorkerOptions options_;
  CheckpointVault vault_;
  tracking::Runs& runs_;
  jobs::Queue& queue_;
  Mutex mutex_;
  std::map<RunId, ReportTail> tails_ FALAJ_GUARDED_BY(mutex_);  // Of what runs.
};

}  // namespace falaj::training
