// jobs/exit_error.h — why a job's process ended, in words that help.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "exec/child.h"

namespace falaj::jobs {

// Ok when it exited with 0. Otherwise FJ-4001 (another code), FJ-4002 (killed), FJ-4003 (memory),
// FJ-4004 (time) or kCancelled, with what to do and the last lines that it printed.
Status check_exit(const exec::ChildExit& exit, const exec::Limits& limits);

// The last lines of what a process printed, at most `lines` and 4 KiB.
std::string last_lines(std::string_view output, std::size_t lines);

// The last `bytes_max`, from a line's beginning where one was cut. What is not UTF-8 is replaced.
std::string last_bytes(std::string_view output, std::size_t bytes_max);

// Of what `falaj launch` printed, the lines of one group: "[worker 2] …" of "worker".
std::string lines_of_group(std::string_view output, std::string_view group);

// What check_exit() says, without the lines of the log at its end.
std::string without_log(const std::string& error);

}  // namespace falaj::jobs
