// training/train_jobs.h — from a TrainJob declaration to a registered model version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "features/training_sets.h"
#include "jobs/queue.h"
#include "registry/models.h"
#include "security/context.h"
#include "storage/objects.h"
#include "tracking/runs.h"
#include "training/worker_plan.h"

namespace falaj::training {

// kind: TrainJob
// spec: {data: {training_set: fraud}, engine: lightgbm, params: {num_leaves: 63, rounds: 400,
//        learning_rate: 0.08, early_stopping: 30, seed: 7}, resources: {threads: 2, memory: 2Gi,
//        time_max: 30m}, register: {model: fraud, verify_rows: 100000}}
// or {engine: command, command: [python3, train.py], workers: {max: 4}, …}: worker_plan.h
struct TrainJob {
  std::string name;
  std::string training_set;
  std::string engine;
  Value params;
  std::int64_t threads = 2;
  std::int64_t memory_bytes_max = std::int64_t{2} << 30;
  Duration run_time_max = Duration::minutes(30);
  std::string model;                    // "" registers nothing.
  std::int64_t verify_rows = 100'000;   // At least 100 000.
  std::optional<WorkerPlan> workers{};  // Of a command; it has no training set and no model.
};

Result<TrainJob> decode_train_job(const storage::Object& object);
std::vector<storage::KindInfo> kinds();

// What happens where the machine does not grant the sandbox's main protections: the job fails and
// says which one is missing, or it runs and the log says so.
enum class SandboxPolicy : std::uint8_t { kRequired, kBestEffort };

// Who a job's process is, to the server: minted when it starts, ended when it is over. Both empty:
// its process gets no identity.
struct JobTokens {
  std::function<Result<std::string>(const JobId& job, std::vector<security::Scope> scopes)> mint;
  std::function<void(const JobId& job)> end;
};

struct TrainOptions {
  std::string program;  // Path of the falaj binary: the engine is `program engine train …`.
  std::string code_version;
  // Readable in the sandbox; the first is where the process looks for its libraries.
  std::vector<std::string> library_folders;
  // No job gets more than this, whatever it declares.
  std::int64_t memory_bytes_max = std::int64_t{4} << 30;
  Duration run_time_max = Duration::hours(1);
  std::int64_t file_bytes_max = std::int64_t{16} << 30;  // Of one file that a job writes.
  std::int64_t processes_max = 64;                       // Processes and threads.
  SandboxPolicy sandbox = SandboxPolicy::kRequired;
  // Limited to the job's frozen set, run and model; in the process's environment as FALAJ_TOKEN.
  JobTokens tokens{};
  std::string checkpoint_folder{};  // Where commands' runs keep theirs; "": commands are refused.
};

// Submits jobs of type "train" and carries their results into runs and registry. Thread-safe.
class TrainJobs final : public jobs::Handler {
 public:
  TrainJobs(TrainOptions options, storage::SqlStore& sql, storage::BlobStore& blobs,
            features::TrainingSets& sets, tracking::Runs& runs, registry::Models& models,
            jobs::Queue& queue);
  ~TrainJobs() override;

  // Starts the declared job on the newest frozen manifest of its training set, or on
  // `manifest_id`; a command reads none. Of a command, `capture` (jobs/capture.h, decoded) is kept,
  // over what its declaration says. The run is recorded before this returns; its job follows it.
  struct Started {
    RunId run;
    JobId job;
    std::vector<std::string> warnings;  // The frozen set is older than what it was made from.
  };
  Result<Started> run(const security::RequestContext& context, const std::string& name,
                      const std::string& manifest_id = "", const Value& capture = {});

  // Its engine: "lightgbm", "command". kNotFound when it is not declared.
  Result<std::string> engine_of(const ProjectName& project, const std::string& name) const;

  // What runs beside commands of TrainJobs: give it to Queue::accompany() as WorkerJobs::kName.
  jobs::Companion& companion();

  // Carries into runs what the workers of commands have reported since; for a ticker.
  void tick();

  // Ends runs that a dead server left without a job, or whose job has ended. Call once, before the
  // queue starts.
  Status recover();

  Result<exec::ChildSpec> prepare(const jobs::Job& job, const std::string& work_dir) override;
  void on_report(const jobs::Job& job, const Value& report) override;
  // Registers only what was proven: FJ-4006 when the ONNX graph and the engine disagree on a row.
  // Repeating it after a crash finds the version that is there already.
  Outcome finish(const jobs::Job& job, const exec::ChildExit& exit,
                 const std::string& work_dir) override;
  void abandoned(const jobs::Job& job, const Error& error) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::training
