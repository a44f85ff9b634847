// jobs/command.h — a submitted command as work for an executor: its folder, environment, limits and
// what it may touch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/executor.h"
#include "jobs/queue.h"

namespace falaj::jobs {

// What the administrator grants to commands.
struct CommandOptions {
  std::int64_t memory_bytes_max = 0;  // The most a job may ask for; 0: no limit but the machine.
  Duration time_max{};                // The most a job may run; 0: no limit.
  std::int64_t processes_max = 64;
  std::int64_t log_bytes_max = std::int64_t{8} << 20;
  std::vector<std::string> readable;  // Folders beside the system's: code, data, interpreters.
  std::vector<std::string> writable;
  exec::Sandbox sandbox;  // As far as it does not depend on the job.
};

// FJ-1006 when the job asks for more than `options` grants, FJ-1015 when its program is not there.
// `program` with a slash is looked for when the job starts, in its own folder.
Status check_command(const CommandOptions& options, const JobSpec& spec);

// The program with its folder, as looked for in `path` ("a:b"); the word itself when it has a
// slash, "" when it is nowhere.
std::string find_program(const std::string& word, std::string_view path);

// Where an attempt's files are.
struct AttemptFiles {
  std::string work_dir;
  std::string log;
};
AttemptFiles attempt_files(const std::string& folder, const AttemptId& id);

// The work of the job's attempt `job.epoch`. Pure but for looking up the program. `gpus`: which
// devices it was given, a bit each.
Work command_work(const CommandOptions& options, const Job& job, const AttemptFiles& files,
                  std::uint16_t gpus);

// Ok when the attempt succeeded; otherwise as jobs/exit_error.h, with the log's last lines.
Status check_end(const AttemptEnd& end, const Work& work, std::string_view log);

}  // namespace falaj::jobs
