// cli/job_commands.h — what the commands under `falaj jobs` do, as cli/commands.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/code_capture.h"
#include "cli/commands.h"

namespace falaj::cli {

// Where a job may be: members of `placement` and `checkpoint` (jobs/constraints.h).
struct PlaceChoice {
  std::vector<std::string> labels;  // key=value
  std::vector<std::string> not_labels;
  std::vector<std::string> data;  // name=zone,zone
  std::vector<std::string> gpu_models;
  std::string gpu_memory;
  double gpu_fraction = 1;
  std::string mig;
  bool numa = false;
  std::string together;
  std::string prefer;
  std::vector<std::string> tags;
  std::vector<std::string> avoid;
  std::vector<std::string> near;
  std::string checkpoint_every;
  std::string restart;
};

struct JobChoice {
  std::vector<std::string> command;
  std::string name;
  std::string queue;
  std::string runtime;
  std::string priority = "0";  // A number, or a class of the policy.
  double cpus = 1;
  std::string memory = "512Mi";
  std::int64_t gpus = 0;
  std::string disk;  // The same as time_max.
  bool bound = false;
  std::string time_max;  // "": what the server allows.
  std::string deadline;  // RFC 3339; "": none.
  std::optional<double> cost_cap;
  std::int64_t attempts_max = 1;
  std::string array;  // COUNT or 0-LAST, and %AT_A_TIME; "": one job, which is none.
  std::int64_t running_max = 0;
  PlaceChoice place{};
  std::vector<std::string> after;
  std::vector<std::string> env;     // NAME=value
  std::vector<std::string> inputs;  // KIND/NAME, for its own identity.
  std::vector<std::string> outputs;
  bool network = false;
  CaptureChoice capture{};
};
// kWait prints the log as it comes and fails when the job fails.
Status submit_job(const Session& session, const JobChoice& choice, Wait wait);
// An id narrows to one; kLog prints what the job wrote.
enum class JobView : std::uint8_t { kState, kLog };
// `attempt`: whose log; 0: the newest one's. `group`: of one role of a gang; "": of all.
Status show_jobs(const Session& session, const std::string& id, JobView view,
                 std::int64_t attempt = 0, const std::string& group = "");
// One line, or with -o json all that is known.
Status explain_job(const Session& session, const std::string& id);
Status cancel_job(const Session& session, const std::string& id);
// Of those that `jobs list` shows, all that wait or run.
Status cancel_jobs(const Session& session);
// Prints what it writes until it ends; of one group as above.
Status follow_job(const Session& session, const std::string& id, const std::string& group = "");
Status show_job_usage(const Session& session);
// Lines under a job, drawn from what /api/v1/jobs/{id}/usage says: memory and processors, and its
// GPUs where they were measured. "" when there were no samples.
std::string usage_pictures(const Value& usage);

struct ReplayChoice {
  std::string code;                  // Where the code lies now; "": here.
  std::optional<std::int64_t> seed;  // Another one than then.
};
// Runs a command's job, or a training run, again and compares the outputs' hashes; kConflict,
// naming the first input that differs, when they are not equal.
Status replay(const Session& session, const std::string& id, const ReplayChoice& choice);

}  // namespace falaj::cli
