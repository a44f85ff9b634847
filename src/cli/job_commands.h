// cli/job_commands.h — what the commands under `falaj jobs` do, as cli/commands.h.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace falaj::cli {

struct JobChoice {
  std::vector<std::string> command;
  std::string name;
  std::string queue;
  std::int64_t priority = 0;
  double cpus = 1;
  std::string memory = "512Mi";
  std::int64_t gpus = 0;
  std::string time_max;  // "": what the server allows.
  std::int64_t attempts_max = 1;
  std::vector<std::string> after;
  std::vector<std::string> env;  // NAME=value
};
// kWait prints the log as it comes and fails when the job fails.
Status submit_job(const Session& session, const JobChoice& choice, Wait wait);
// An id narrows to one; kLog prints what the job wrote.
enum class JobView : std::uint8_t { kState, kLog };
Status show_jobs(const Session& session, const std::string& id, JobView view);
// One line, or with -o json all that is known.
Status explain_job(const Session& session, const std::string& id);
Status cancel_job(const Session& session, const std::string& id);
// Prints what it writes until it ends.
Status follow_job(const Session& session, const std::string& id);
Status show_job_usage(const Session& session);

}  // namespace falaj::cli
