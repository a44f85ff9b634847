// exec/internal/spawn.h — fork, set up, execute: the part of a child's life before it is itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "exec/child.h"
#include "exec/internal/control_group.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

struct Spawned {
  pid_t pid = -1;  // Leads its own process group. Not reaped: the caller does.
  Fd pidfd;
  Fd output;   // What it prints; non-blocking. Not open when that goes to a file.
  Fd channel;  // Our end; non-blocking for reads by the caller's choice.
  std::vector<std::string> protections;
  std::vector<std::string> protections_refused;
  bool in_memory_group = false;
};

// The child dies with the calling *thread* (PR_SET_PDEATHSIG), so that no job outlives its server:
// call this on a thread that lives until the child has been reaped. `group` may be null.
Result<Spawned> spawn(const ChildSpec& spec, const ControlGroup* group);

}  // namespace falaj::exec::internal
