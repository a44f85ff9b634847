// exec/internal/spawn.h — fork, set up, execute: the part of a child's life before it is itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/child.h"
#include "exec/internal/control_group.h"
#include "exec/internal/fd.h"
#include "exec/internal/views.h"

namespace falaj::exec::internal {

struct Spawned {
  pid_t pid = -1;  // Leads its own session and group. Not reaped: the caller does.
  Fd pidfd;
  Fd output;   // What it prints; non-blocking. Not open when that goes to a file.
  Fd channel;  // Our end, if it has one; non-blocking for reads by the caller's choice.
  Fd report;   // Readable when take_report() has something to do; non-blocking.
  std::vector<std::string> protections;
  std::vector<std::string> protections_refused;
  bool in_memory_group = false;
};

enum class Orphans : std::uint8_t {
  kOfTheMachine,  // What its children leave behind goes to whoever takes them.
  kItsOwn,        // … stays with it until it ends, and then goes to its parent.
};
struct SpawnOptions {
  const ControlGroup* group = nullptr;  // To be put into.
  int network = -1;            // Entered instead of a new one, if the sandbox asks for one.
  const View* view = nullptr;  // The same, for what a sandboxed child of root sees.
  Orphans orphans = Orphans::kOfTheMachine;
};

// Makes a process, which sets itself up and becomes the program by itself; take_report() tells.
// Where it can, it uses our memory until then and this thread waits for it: a millisecond or more.
// The child dies with the calling *thread* (PR_SET_PDEATHSIG), so that no job outlives its server:
// call this on a thread that lives until the child has been reaped.
Result<Spawned> spawn(const ChildSpec& spec, const SpawnOptions& options);

enum class Beginning : std::uint8_t { kNotYet, kBegun };
// What the child has reported since; does not wait. An error says why it did not become the
// program: it has been killed and reaped.
Result<Beginning> take_report(const ChildSpec& spec, Spawned& child);

// For a process with many children: as many open files as it may have. What it spawns gets the
// limit from before. Call once, before any spawn.
void raise_descriptor_limit();

}  // namespace falaj::exec::internal
