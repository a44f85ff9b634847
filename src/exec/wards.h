// exec/wards.h — processes that outlive the server. A ward is a process with all that it starts; a
// small process of its own, the warden (exec/warden.h), starts them, holds their limits, keeps
// their logs bounded and writes their ends down, so that a server that was killed finds them again.
//
// There is one warden for a folder. It is started when it is needed and absent, is told what to do
// over a socket in that folder, and ends when asked, when it has had nothing to do for a while, or
// when the folder is gone. Wards die with their warden: they are then lost, and said to be.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "exec/child.h"

namespace falaj::exec {

struct WardSpec {
  std::vector<std::string> argv;                         // argv[0] is an absolute path.
  std::vector<std::pair<std::string, std::string>> env;  // The whole environment.
  std::string work_dir;                                  // Absolute; exists.
  std::string log_path;  // Standard output and error; absolute, its folder exists.
  std::int64_t log_bytes_max = std::int64_t{16} << 20;  // See exec/bounded_log.h.
  Limits limits;
  Sandbox sandbox;
  std::uint32_t gpus = 0;  // Those to be measured: bit N is /dev/nvidiaN.
  bool operator==(const WardSpec&) const = default;
};

enum class WardEndReason : std::uint8_t {
  kExited,       // `code` is its exit code.
  kSignalled,    // `code` is the signal's number, here and below.
  kOutOfMemory,  // Past Limits::memory_bytes_max.
  kTimedOut,     // Past Limits::run_time_max.
  kStopped,      // By Wards::stop.
  kNotStarted,   // There never was a program: `detail` says why.
  kLost,         // Its warden died. It is gone, with its descendants; how it ended is not known.
  kOutOfDisk,    // Past Limits::disk_bytes_max.
};
// "exited", "signalled", "out_of_memory", …
std::string_view name_of(WardEndReason reason);

struct WardEnd {
  WardEndReason reason = WardEndReason::kExited;
  int code = 0;
  std::string detail;  // For people; "" when there is nothing to add.
  std::int64_t memory_peak_bytes = 0;
  Duration cpu_time{};
  std::int64_t log_bytes_cut = 0;
  Timestamp ended_at{};
  bool operator==(const WardEnd&) const = default;
};

// What a ward used, `at` after it began: processor time and bytes from its beginning on, memory and
// GPUs at that moment.
struct WardUsage {
  Duration at{};
  Duration cpu_time{};
  std::int64_t memory_bytes = 0;
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  // Of its GPUs (WardSpec::gpus), with whatever else runs on them: how many were busy, in
  // thousandths, and the memory in use. -1: it has none, or their driver does not say.
  std::int64_t gpu_milli = -1;
  std::int64_t gpu_memory_bytes = -1;
  bool operator==(const WardUsage&) const = default;
};

struct Ward {
  std::string id;
  Timestamp started_at{};                        // When it began; until then, when it was accepted.
  std::int64_t pid = 0;                          // 0 until it has begun and once it has ended.
  WardUsage usage;                               // The newest sample.
  std::vector<std::string> protections;          // As in ChildExit.
  std::vector<std::string> protections_refused;  // As in ChildExit.
  std::optional<WardEnd> end;  // Set once it has ended, with every process that it had started.
  bool operator==(const Ward&) const = default;
};

struct WardsOptions {
  std::string folder;  // The warden's own; made (0700) if absent, below a folder that exists.
  // The warden's command line: a program that calls run_warden() with the folder that is appended.
  std::vector<std::string> warden;
  Duration patience = Duration::seconds(10);  // How long a call waits for the warden.
  // Called on one thread after a ward has begun or ended, with its id, and with "" after the
  // connection was made (anything may have happened before). Must not block nor call Wards.
  std::function<void(std::string_view id)> changed;
};

// Thread-safe. A failure is kUnavailable when the warden cannot be reached in time: what was asked
// may or may not have been done, and may be asked again.
class Wards {
 public:
  // Does not start a warden. One thread of its own connects as soon as a call needs it, or at once
  // when there was a warden in the folder before.
  static Result<std::unique_ptr<Wards>> open(WardsOptions options);
  virtual ~Wards() = default;  // The wards live on.

  // Returns when it is written down that it will be started, which then happens at once and once:
  // an id that is known already starts nothing and is ok. 1–128 of [A-Za-z0-9._:-].
  // What cannot be started ends with kNotStarted. kInvalidArgument for a spec out of bounds,
  // kResourceExhausted when there are too many wards or the disk is full.
  virtual Status start(const std::string& id, const WardSpec& spec) = 0;
  // The same for several, in the order given and in one go: much quicker. One status each.
  virtual std::vector<Status> start_all(
      const std::vector<std::pair<std::string, WardSpec>>& wards) = 0;
  // SIGTERM, then SIGKILL after Limits::grace. Ok when it has ended; kNotFound when not known.
  virtual Status stop(const std::string& id) = 0;
  // Those that run and those that ended and were not forgotten, by id.
  virtual Result<std::vector<Ward>> list() = 0;
  // kNotFound when not known.
  virtual Result<Ward> get(const std::string& id) = 0;
  // How its use went, oldest first, at most 256 samples evenly spread; none survive the warden.
  virtual Result<std::vector<WardUsage>> curve(const std::string& id) = 0;
  // The end was noted elsewhere. Ok when not known; kConflict while it runs.
  virtual Status forget(const std::string& id) = 0;
  virtual std::vector<Status> forget_all(const std::vector<std::string>& ids) = 0;
  // Ends the warden if nothing runs; kConflict otherwise. Ok when there is none. A later call
  // starts another.
  virtual Status dismiss() = 0;
};

}  // namespace falaj::exec
