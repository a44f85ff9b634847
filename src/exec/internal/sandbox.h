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
  kMemoryLimit,
  kNamespaces,
  kLandlockFiles,
  kLandlockNetwork,
  kCapabilities,
  kSystemCalls,
  kSetUp,  // From here on a record means that the child could not start.
  kWorkFolder,
  kExecute,
};
std::string_view step_name(Step step);

struct SandboxPlan {
  bool enabled = false;
  bool network = false;
  int landlock_error = 0;  // Why there is no ruleset for files, as an errno.
  Fd landlock_files;       // Ruleset: what may be read, written and executed.
  Fd landlock_network;     // Ruleset: no TCP; used when the network namespace is refused.
  std::string uid_map;     // For the user namespace of an unprivileged parent.
  std::string gid_map;
  bool privileged = false;
};

// Never fails: what the kernel does not offer is left out here and reported by the child.
SandboxPlan plan_sandbox(const Sandbox& sandbox, const std::string& program);

// Runs in the child. `report` takes (step, errno or 0); it must only use system calls.
using Report = void (*)(Step step, int error, int pipe);
void put_on_sandbox(const SandboxPlan& plan, Report report, int pipe);

}  // namespace falaj::exec::internal
