#include "jobs/executor.h"

#include <array>
#include <charconv>

namespace falaj::jobs {

std::string to_string(const AttemptId& id) {
  return id.job.str() + "-" + std::to_string(id.attempt);
}

Result<AttemptId> parse_attempt(std::string_view text) {
  const std::size_t dash = text.rfind('-');
  AttemptId id;
  if (dash != std::string_view::npos && dash > 0 && text[dash - 1] != '-') {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + dash + 1, end, id.attempt);
    id.job = JobId(std::string(text.substr(0, dash)));
    if (read.ec == std::errc() && read.ptr == end && id.attempt > 0) return id;
  }
  return Error(Code::kInvalidArgument,
               "'" + std::string(text) + "' is no attempt: a job's id, '-' and a number");
}

Result<UsageCurve> Executor::curve(const AttemptId&) const { return UsageCurve{}; }

std::string_view end_reason_name(EndReason reason) {
  constexpr std::array<std::string_view, 8> kNames{"exited",    "signalled",  "out_of_memory",
                                                   "timed_out", "stopped",    "not_started",
                                                   "lost",      "out_of_disk"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace falaj::jobs
