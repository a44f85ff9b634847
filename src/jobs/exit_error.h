// jobs/exit_error.h — why a job's process ended, in words that help.
#pragma once

#include <string>

#include "base/result.h"
#include "exec/child.h"

namespace falaj::jobs {

// Where the queue keeps what a process printed: beside its work folder, so that it outlives it.
std::string log_path(const std::string& work_dir);

// Ok when it exited with 0. Otherwise FJ-4001 (another code), FJ-4002 (killed), FJ-4003 (memory),
// FJ-4004 (time) or kCancelled, with what to do and the last lines of its log.
Status check_exit(const exec::ChildExit& exit, const exec::Limits& limits,
                  const std::string& log_path);

// The last lines of a file, at most `lines` and 4 KiB; "" when there is none.
std::string last_lines(const std::string& path, std::size_t lines);

// The last `bytes_max` of a file, from a line's beginning where one was cut; "" when there is none.
// What is not UTF-8 is replaced.
std::string last_bytes(const std::string& path, std::size_t bytes_max);

}  // namespace falaj::jobs
