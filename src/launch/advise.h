// launch/advise.h — which precision, how many processes and threads, and which batch a training
// program should use on this machine: decided from a few short trials of the program itself.
//
// Pure: advise() is given what was tried so far and says what to try next, or what it found. Within
// `steps_most` training steps over all trials.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace falaj::launch {

enum class Precision : std::uint8_t { kFp32, kBf16 };
std::string_view to_string(Precision precision);  // "fp32", "bf16"

// What the program is asked to do. The batch is that of all processes together.
struct Trial {
  Precision precision = Precision::kFp32;
  int processes = 1;
  int threads = 1;  // Of each process.
  std::int64_t batch = 1;
  int steps = 1;
  bool operator==(const Trial&) const = default;
};

enum class TrialEnd : std::uint8_t { kDone, kOutOfMemory, kFailed };

struct TrialResult {
  Trial trial;
  TrialEnd end = TrialEnd::kDone;
  double samples_per_second = 0;  // After the first step, which warms up; 0: not known.
  std::int64_t memory_peak_bytes = 0;
  std::string why;  // Of a failure: what the program said.
};

// Whether the processor multiplies bf16 itself (AVX512_BF16, AMX_BF16): without, it is not tried.
enum class Bf16 : std::uint8_t { kNone, kInHardware };
Bf16 bf16_of_this_machine();

struct AdviseLimits {
  int cpus = 1;
  std::int64_t memory_bytes = 0;  // Of all processes together.
  std::int64_t batch_first = 32;  // What the program uses today.
  std::int64_t batch_most = 1 << 20;
  Bf16 bf16 = Bf16::kNone;
  int steps_most = 30;
};

struct Advice {
  Trial best;
  double samples_per_second = 0;
  std::int64_t memory_peak_bytes = 0;
  std::vector<std::string> because;  // A sentence a decision.
};

// Of the memory of all workers of a TrainJob, the share that its checkpoints may take while they
// wait for the disk: they lie in memory that counts.
inline constexpr std::int64_t kWaitingShare = 4;
// What each process of a TrainJob is given, in steps of 64 MiB: a tenth more than was seen, beside
// the checkpoints; never more than its part of the limit, in whole MiB. Pure.
std::int64_t memory_of_each(std::int64_t memory_peak_bytes, int processes, std::int64_t limit);

// kFailedPrecondition when the program fails at its first batch, or no batch fits; `why` is in the
// message.
using Advised = std::variant<Trial, Advice>;
Result<Advised> advise(const AdviseLimits& limits, const std::vector<TrialResult>& tried);

// Samples a second from what the processes reported, a line a step:
// {"step": 1, "samples": 16, "at": 12.5}; `at` is a monotonic clock in seconds. Lines of other
// shapes are left out. 0 when there is only one step. Pure.
struct StepReport {
  int steps = 0;  // Of the process that did least.
  double samples_per_second = 0;
};
StepReport read_steps(std::string_view lines, int processes);

}  // namespace falaj::launch
