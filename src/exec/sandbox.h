// exec/sandbox.h — which protections this machine grants to child processes.
//
// A child is sandboxed by ChildSpec::sandbox (exec/child.h). In this order, each as far as the
// kernel permits: a control group for memory, processes and
// processor time, no new privileges, own network, IPC and host-name
// namespaces, a /proc that shows its own processes alone (only where Falaj is root), a user
// namespace in which nobody but itself is (the first of the namespaces when Falaj is not root, the
// last when it is), Landlock (the system's folders
// readable, the declared folders readable or writable, nothing else), no capabilities, and a filter
// that refuses system calls such as ptrace, mount and bpf, and sockets other than UNIX and Internet
// ones and, if it may list its interfaces, the one for that (where the kernel refuses the own
// network, other than UNIX).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace falaj::exec {

// Sandbox::required for a process that opens what strangers made: no new rights, no network but its
// own, no files but those granted, no dangerous system calls.
std::vector<std::string> full_confinement();
// And a user namespace: for a parser of strangers' files, which needs nobody else on the machine.
std::vector<std::string> parser_confinement();

struct SandboxReport {
  std::vector<std::string> applied;  // "cgroup-memory", "no_new_privs", "netns", "landlock", …
  std::vector<std::string> refused;  // "netns: Operation not permitted"
};

struct ProbeOptions {
  std::string folder = "/";       // On whose disk the next is tried.
  std::int64_t io_bytes_max = 0;  // 0: not tried.
};
// Runs /bin/true in a sandbox and says what held. Takes some milliseconds. For `falaj doctor`.
Result<SandboxReport> probe_sandbox(const ProbeOptions& options = {});

}  // namespace falaj::exec
