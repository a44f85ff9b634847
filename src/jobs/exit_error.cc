#include "jobs/exit_error.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/units.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kLinesShown = 10;
constexpr std::size_t kTailBytes = 4096;
constexpr std::string_view kLogFollows = "; its last lines:\n";

std::string with_log(std::string message, std::string_view output) {
  const std::string tail = last_lines(output, kLinesShown);
  if (!tail.empty()) message.append(kLogFollows).append(tail);
  return message;
}

std::string limit_text(std::int64_t bytes) {
  return bytes > 0 ? "its memory limit of " + format_bytes(bytes) : "the machine's memory";
}

// A foreign process wrote it: what is not UTF-8 may not reach JSON or the audit.
void make_showable(std::string& text) {
  if (!is_valid_utf8(text)) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  }
  std::replace(text.begin(), text.end(), '\0', '?');
}

}  // namespace

std::string without_log(const std::string& error) {
  return error.substr(0, error.find(kLogFollows));
}

std::string last_lines(std::string_view output, std::size_t lines) {
  if (output.size() > kTailBytes) output.remove_prefix(output.size() - kTailBytes);
  std::string text(output);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  for (std::size_t found = 0; begin > 0; --begin) {
    if (text[begin - 1] == '\n' && ++found == lines) break;
  }
  text.erase(0, begin);
  make_showable(text);
  return text;
}

std::string last_bytes(std::string_view output, std::size_t bytes_max) {
  const bool cut = output.size() >= bytes_max;
  if (cut) output.remove_prefix(output.size() - bytes_max);
  std::string text(output);
  const std::size_t line = text.find('\n');
  if (cut && line != std::string::npos) text.erase(0, line + 1);
  make_showable(text);
  return text;
}

Status check_exit(const exec::ChildExit& exit, const exec::Limits& limits) {
  const std::string& output = exit.output;
  switch (exit.reason) {
    case exec::ExitReason::kExited:
      if (exit.code == 0) return {};
      return Error(ErrorId::kJobFailed,
                   with_log("the process exited with code " + std::to_string(exit.code), output));
    case exec::ExitReason::kSignalled: {
      const char* name = ::strsignal(exit.code);
      return Error(
          ErrorId::kJobKilled,
          with_log("the process was killed by signal " + std::to_string(exit.code) + " (" +
                       (name == nullptr ? "unknown" : name) +
                       "); if nobody did that, look for it in the system's log: the machine may "
                       "have run out of memory",
                   output));
    }
    case exec::ExitReason::kOutOfMemory:
      return Error(ErrorId::kJobOutOfMemory,
                   with_log("the process needed more than " + limit_text(limits.memory_bytes_max) +
                                " (peak " + format_bytes(exit.memory_peak_bytes) +
                                "): raise resources.memory, or give it less to hold",
                            output));
    case exec::ExitReason::kTimedOut:
      return Error(ErrorId::kJobTimedOut,
                   with_log("the process ran past its limit of " + to_string(limits.run_time_max) +
                                ": raise its time_max, or give it less to do",
                            output));
    case exec::ExitReason::kOutOfDisk:
      return Error(ErrorId::kJobOutOfDisk,
                   with_log("the process wrote more than its limit of " +
                                format_bytes(limits.disk_bytes_max) +
                                " into its folder: raise resources.disk, or have it write less",
                            output));
    case exec::ExitReason::kStopped:
      return Error(Code::kCancelled, "cancelled");
  }
  return Error(Code::kInternal, "a process ended for an unknown reason");
}

std::string lines_of_group(std::string_view output, std::string_view group) {
  const std::string begins = "[" + std::string(group) + " ";
  std::string out;
  while (!output.empty()) {
    const std::size_t end = output.find('\n');
    const std::size_t size = end == std::string_view::npos ? output.size() : end + 1;
    if (output.starts_with(begins)) out += output.substr(0, size);
    output.remove_prefix(size);
  }
  return out;
}

}  // namespace falaj::jobs
