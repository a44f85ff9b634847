// jobs/executor.h — the port to whatever runs processes: this machine now, a cluster later.
//
// The queue decides; an executor acts. What it is told may come twice (the queue was killed between
// the deed and writing it down), so every call is idempotent, and an attempt's id is its fence: a
// job that is tried again gets another one, and what an old attempt says is no longer listened to.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "exec/child.h"
#include "jobs/usage_curve.h"

namespace falaj::jobs {

// One try of a job. Attempts begin with 1 and are never used again, also after a restart.
struct AttemptId {
  JobId job;
  int attempt = 0;
  auto operator<=>(const AttemptId&) const = default;
};
// "01J…-2": a file name, unique. parse_attempt() is its inverse; kInvalidArgument otherwise.
std::string to_string(const AttemptId& id);
Result<AttemptId> parse_attempt(std::string_view text);

// What the scheduler gave to an attempt beside what the job asks for.
struct Grant {
  std::uint16_t gpus = 0;         // Devices, a bit each.
  std::int64_t workers = 1;       // Of a job that may have several (Request::workers).
  std::uint8_t numa = 0xff;       // The NUMA node that it is bound to; 0xff: none.
  std::uint8_t mig_start = 0xff;  // Where its instance begins on its device; 0xff: it has none.
  std::uint64_t number = 0;       // What the job is called in the decision that gave this.
};

// What is to be run. Nothing is inherited from the server but what stands here.
struct Work {
  std::vector<std::string> argv;                         // argv[0] is an absolute path.
  std::vector<std::pair<std::string, std::string>> env;  // The whole environment.
  std::string work_dir;                                  // Absolute; exists.
  // Standard output and error go here: absolute, its folder exists. Past log_bytes_max the middle
  // is left out, and a line of the log says how much.
  std::string log_path;
  std::int64_t log_bytes_max = std::int64_t{16} << 20;
  exec::Limits limits;
  exec::Sandbox sandbox;
  std::uint16_t gpus = 0;  // The devices that it was given: their use is sampled.
};

enum class EndReason : std::uint8_t {
  kExited,       // `code` is its exit code.
  kSignalled,    // `code` is the signal.
  kOutOfMemory,  // Past limits.memory_bytes_max.
  kTimedOut,     // Past limits.run_time_max.
  kStopped,      // By stop().
  kNotStarted,   // There never was a process: `detail` says why. Trying again may not help.
  kLost,         // The executor died with it, or cannot tell how it ended. Tried again by policy.
  kOutOfDisk,    // Past limits.disk_bytes_max.
};
std::string_view end_reason_name(EndReason reason);

struct AttemptEnd {
  EndReason reason = EndReason::kExited;
  int code = 0;
  std::string detail;  // For people; "" when there is nothing to add.
  std::int64_t memory_peak_bytes = 0;
  Duration cpu_time{};
  Duration run_time{};             // 0 when it never ran, or that is not known.
  std::int64_t log_bytes_cut = 0;  // How much of the log was left out.
  Timestamp ended_at{};
};

struct Attempt {
  AttemptId id;
  Timestamp started_at{};
  std::int64_t pid = 0;  // 0 when it has ended or its process is elsewhere.
  // Of a running one, as far as the executor samples it.
  std::int64_t memory_bytes = 0;
  Duration cpu_time{};
  std::optional<AttemptEnd> end;  // Set once it has ended with every process it had started.
};

// Thread-safe. No call waits for a process to end.
class Executor {
 public:
  virtual ~Executor() = default;
  // Starts it, or nothing when this attempt was started before (also by a server that has died
  // since) and was not forgotten. What cannot be started (no such program, a protection that the
  // machine does not grant) is not an error here: the attempt ends with kNotStarted. An error is
  // kUnavailable: nothing was started, ask again later.
  virtual Status start(const AttemptId& id, const Work& work) = 0;
  // SIGTERM to the whole tree, SIGKILL after Limits::grace. Ok and nothing done when it has ended;
  // kNotFound when it is not known.
  virtual Status stop(const AttemptId& id) = 0;
  // Everything running, and what has ended and was not forgotten, in any order.
  virtual Result<std::vector<Attempt>> list() const = 0;
  // How its use of the machine went, until it is forgotten: at most 512 samples. None where the
  // executor does not sample; kNotFound when the attempt is not known.
  virtual Result<UsageCurve> curve(const AttemptId& id) const;
  // Its end was written down elsewhere. Ok when it is not known; kConflict while it runs.
  virtual Status forget(const AttemptId& id) = 0;
  // `changed` is called after an attempt has ended (not once for each: look at list()), on a thread
  // of the executor; it must not block nor call back. One caller; an empty function ends it, and
  // then none is running any more.
  virtual void when_changed(std::function<void()> changed) = 0;
};

}  // namespace falaj::jobs
