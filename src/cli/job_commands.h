// cli/job_commands.h — what the commands under `falaj jobs` do, as cli/commands.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/code_capture.h"
#include "cli/commands.h"

namespace falaj::cli {

struct JobChoice {
  std::vector<std::string> command;
  std::string name;
  std::string queue;
  std::string runtime;
  std::int64_t priority = 0;
  double cpus = 1;
  std::string memory = "512Mi";
  std::int64_t gpus = 0;
  std::string disk;  // The same as time_max.
  bool bound = false;
  std::string time_max;  // "": what the server allows.
  std::string deadline;  // RFC 3339; "": none.
  std::int64_t attempts_max = 1;
  std::int64_t array = 0;  // 0: one job, which is none.
  std::vector<std::string> after;
  std::vector<std::string> env;  // NAME=value
  CaptureChoice capture{};
};
// kWait prints the log as it comes and fails when the job fails.
Status submit_job(const Session& session, const JobChoice& choice, Wait wait);
// An id narrows to one; kLog prints what the job wrote.
enum class JobView : std::uint8_t { kState, kLog };
// `attempt`: whose log; 0: the newest one's.
Status show_jobs(const Session& session, const std::string& id, JobView view,
                 std::int64_t attempt = 0);
// One line, or with -o json all that is known.
Status explain_job(const Session& session, const std::string& id);
Status cancel_job(const Session& session, const std::string& id);
// Prints what it writes until it ends.
Status follow_job(const Session& session, const std::string& id);
Status show_job_usage(const Session& session);

struct ReplayChoice {
  std::string code;                  // Where the code lies now; "": here.
  std::optional<std::int64_t> seed;  // Another one than then.
};
// Runs a command's job, or a training run, again and compares the outputs' hashes; kConflict,
// naming the first input that differs, when they are not equal.
Status replay(const Session& session, const std::string& id, const ReplayChoice& choice);

}  // namespace falaj::cli
