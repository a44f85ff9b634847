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
  pid_t pid = -1;  // Leads its own session and group. Not reaped: the caller does.
  Fd pidfd;
  Fd output;   // What it prints; non-blocking. Not open when that goes to a file.
  Fd channel;  // Our end, if it has one; non-blocking for reads by the caller's choice.
  std::vector<std::string> protections;
  std::vector<std::string> protections_refused;
  bool in_memory_group = false;
};

// The child dies with the calling *thread* (PR_SET_PDEATHSIG), so that no job outlives its server:
// call this on a thread that lives until the child has been reaped. `group` may be null.
Result<Spawned> spawn(const ChildSpec& spec, const ControlGroup* group);

// For a process with many children: as many open files as it may have. What it spawns gets the
// limit from before. Call once, before any spawn.
void raise_descriptor_limit();

}  // namespace falaj::exec::internal
