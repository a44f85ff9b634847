// exec/internal/sandbox.h — the protections around a child: prepared by the parent, where memory
// may be allocated, and put on by the child between fork and exec, where only system calls are
// allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/child.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

// What the child reports, one record each, before it becomes the program.
enum class Step : std::uint8_t {
  kNoNewPrivileges,
  kMemoryGroup,
  kProcessGroup,
  kCpuGroup,
  kCpuSet,
  kIoGroup,
  kAffinity,
  kProcessLimit,
  kMemoryLimit,
  kNamespaces,
  kProcesses,
  kUsers,
  kLandlockFiles,
  kLandlockNetwork,
  kCapabilities,
  kSystemCalls,
  kSetUp,  // From here on a record means that the child could not start.
  kFileLimit,
  kWorkFolder,
  kRequired,  // Its error is the number of the step that was required and not granted.
  kExecute,
};
std::string_view step_name(Step step);

// A set of the steps before kSetUp.
using StepSet = std::uint32_t;
constexpr StepSet step_bit(Step step) { return StepSet{1} << static_cast<unsigned>(step); }

struct SandboxPlan {
  bool enabled = false;
  bool network = false;
  bool interfaces = false;
  int landlock_error = 0;           // Why there is no ruleset for files, as an errno.
  Fd landlock_files;                // Ruleset: what may be read, written and executed.
  std::uint64_t landlock_read = 0;  // The right to read, as far as that ruleset knows it.
  Fd landlock_network;              // Ruleset: no TCP; used when the network namespace is refused.
  std::string uid_map;              // For its user namespace: itself, and nobody else.
  std::string gid_map;
  bool privileged = false;
  int network_fd = -1;   // A network to enter instead of making one; the parent's.
  int view_mounts = -1;  // A view (exec/internal/views.h) to enter instead of making one, …
  int view_root = -1;    // … and its root.
  StepSet required = 0;  // What must be granted before the program may run.
};

// Never fails: what the kernel does not offer is left out here and reported by the child.
SandboxPlan plan_sandbox(const Sandbox& sandbox, const std::string& program);

// Tells the parent about steps and remembers which were granted. Uses system calls only.
class StepReport {
 public:
  explicit StepReport(int pipe) : pipe_(pipe) {}
  // `error` is an errno, or 0.
  void add(Step step, int error);
  StepSet granted() const { return granted_; }

 private:
  int pipe_;
  StepSet granted_ = 0;
};
struct StepRecord {
  Step step;
  std::int32_t error;
};

// What follows runs in the child. First it enters the plan's view, if there is one, and then goes
// to its work folder.
enum class Seen : std::uint8_t {
  kOwn,      // None was entered: put_on_sandbox() makes one.
  kEntered,  //
  kLost,     // It is half-way in, and must not go on.
};
Seen enter_view(const SandboxPlan& plan);
void put_on_sandbox(const SandboxPlan& plan, Seen seen, StepReport& report);

// The steps of these names. kInvalidArgument for a name that is no protection.
Result<StepSet> steps_named(const std::vector<std::string>& names);

}  // namespace falaj::exec::internal
