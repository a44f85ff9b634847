// jobs/post_mortem.h — what is worth knowing about an attempt that did not succeed, in one place.
#pragma once

#include <string>
#include <string_view>

#include "base/value.h"
#include "jobs/executor.h"
#include "jobs/queue.h"

namespace falaj::jobs {

// Where a command may leave word of what happened inside it: the file's name in its folder, and the
// variable that names its path. `falaj launch` writes its report there (launch/launcher.h).
inline constexpr std::string_view kReportFile = ".falaj-report.json";
inline constexpr std::string_view kReportVariable = "FALAJ_REPORT";

// {attempt, reason, exit_code, signal, signal_name, detail, run_seconds, cpu_seconds,
// memory_peak_bytes, memory_max, last_lines[], charged{…}, workers}. `charged`: whether the attempt
// counts, how many of how many do now, and the processor, GPU and memory time that was kept for it.
// `workers`: of `reported`, which worker failed first, how, and how often the gang began again;
// null without such a report. Pure.
Value post_mortem(const Job& job, const AttemptEnd& end, std::string_view log,
                  const Value& reported);

// What the command left in its folder; null when that is no JSON object of at most 1 MiB in a file
// of its own. The command is not trusted: no link is followed, nothing is waited for.
Value read_report(const std::string& work_dir);
// When a running command last saved, by its report: {"checkpoint": {"saved_at": "2026-…Z"}}; zero
// when it does not say.
Timestamp reported_checkpoint(const std::string& work_dir);

}  // namespace falaj::jobs
