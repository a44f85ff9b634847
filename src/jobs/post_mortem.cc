#include "jobs/post_mortem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/descriptor.h"
#include "base/json.h"
#include "jobs/exit_error.h"
#include "jobs/request.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kLinesShown = 20;
constexpr std::size_t kReportBytesMax = 1024 * 1024;

Value lines_of(std::string_view log) {
  Value out = Value::array();
  const std::string text = last_lines(log, kLinesShown);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out.push(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// What was lost, stopped or preempted is nobody's fault, and a cancel is no failure.
bool counts(EndReason reason) {
  return reason != EndReason::kLost && reason != EndReason::kStopped;
}

Value charged(const Job& job, const AttemptEnd& end) {
  const Resources& kept = job.spec.request.resources;
  const double seconds = end.run_time.as_seconds();
  Value out;
  out["counts"] = counts(end.reason);
  out["attempts"] = counts(end.reason) ? job.attempts : job.attempts - 1;
  out["attempts_max"] = job.spec.attempts_max;
  out["cpu_seconds"] = seconds * static_cast<double>(kept.cpu_milli) / 1000;
  out["gpu_seconds"] = seconds * static_cast<double>(gpu_milli(job.spec.request)) / 1000;
  out["memory_gib_seconds"] =
      seconds * static_cast<double>(kept.memory_bytes) / static_cast<double>(1 << 30);
  return out;
}

// What a program says of itself is kept only as long as what a person would read.
constexpr std::size_t kFailureBytesMax = 8 * 1024;
constexpr std::size_t kReasonBytesMax = 512;

// The cause of the end is the first failure of the last attempt that had one.
Value workers_of(const Value& reported) {
  if (!reported.is_object() || !reported["attempts"].is_array()) return {};
  Value out;
  for (const Value& attempt : reported["attempts"].as_array()) {
    if (!attempt.is_object() || !attempt["first_failure"].is_object()) continue;
    if (to_json(attempt["first_failure"]).size() > kFailureBytesMax) continue;
    out["first_failure"] = attempt["first_failure"];
    out["first_failure"]["attempt"] = attempt.integer("attempt");
  }
  std::string reason = reported.text("reason");
  cut(reason, kReasonBytesMax);
  out["reason"] = std::move(reason);
  out["crashes"] = reported.integer("crashes");
  out["preemptions"] = reported.integer("preemptions");
  return out;
}

}  // namespace

Value post_mortem(const Job& job, const AttemptEnd& end, std::string_view log,
                  const Value& reported) {
  const bool signalled = end.reason == EndReason::kSignalled;
  const char* name = signalled ? ::sigabbrev_np(end.code) : nullptr;
  Value out;
  out["attempt"] = job.epoch;
  out["reason"] = end_reason_name(end.reason);
  out["exit_code"] = end.reason == EndReason::kExited ? Value(end.code) : Value();
  out["signal"] = signalled ? Value(end.code) : Value();
  out["signal_name"] = name == nullptr ? Value() : Value("SIG" + std::string(name));
  out["detail"] = end.detail;
  out["run_seconds"] = end.run_time.as_seconds();
  out["cpu_seconds"] = end.cpu_time.as_seconds();
  out["memory_peak_bytes"] = end.memory_peak_bytes;
  out["memory_max"] = job.spec.request.resources.memory_bytes;
  out["last_lines"] = lines_of(log);
  out["charged"] = charged(job, end);
  out["workers"] = workers_of(reported);
  return out;
}

Value read_report(const std::string& work_dir) {
  const std::string path = work_dir + "/" + std::string(kReportFile);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (info.st_size <= 0 || info.st_size > static_cast<off_t>(kReportBytesMax)) return {};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  auto value = parse_json(text);
  return value.ok() && value->is_object() ? std::move(value).value() : Value();
}

Timestamp reported_checkpoint(const std::string& work_dir) {
  if (::access((work_dir + "/" + std::string(kReportFile)).c_str(), F_OK) != 0) return {};
  const Value report = read_report(work_dir);
  return parse_timestamp(report["checkpoint"].text("saved_at")).value_or(Timestamp{});
}

}  // namespace falaj::jobs
