// exec/child.h — child processes held by pidfd: no zombie, no stray signal, no inherited
// descriptor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace falaj::exec {

// What the child may touch. Protections that the kernel refuses are reported, never dropped
// quietly; without one that is required the child does not start.
struct Sandbox {
  bool enabled = false;
  std::vector<std::string> read_only;  // Folders or files; the system's libraries are always added.
  std::vector<std::string> read_write;  // Folders, and devices: these can be controlled too.
  bool network = false;
  // It may ask which interfaces its network has (getifaddrs), as gloo and MPI do to find each other
  // over 127.0.0.1. Of the kernel's own sockets that is the only kind it gets.
  bool interfaces = false;
  // Names of protections (ChildExit::protections). Looked at by the child itself, before it becomes
  // the program.
  std::vector<std::string> required;
  bool operator==(const Sandbox&) const = default;
};

struct Limits {
  std::int64_t memory_bytes_max = 0;  // 0 = none. Past it the child is killed, and said to be.
  Duration run_time_max{};            // 0 = none. Past it SIGTERM, then SIGKILL after grace.
  Duration grace = Duration::seconds(2);
  std::int64_t file_bytes_max = 0;  // 0 = none. Of one file; past it the child gets SIGXFSZ.
  std::int64_t processes_max = 0;   // 0 = none. Processes and threads; past it fork fails in it.
  double cpus_max = 0;              // 0 = none. Processor time; past it the child is held back.
  // 0 = none. What lies in the work folder and in disk_folders, all together, in blocks of the
  // disk: looked at every second and at the end, so that a quick writer gets past it by what it
  // writes in a second. Past it the child is killed, and said to be.
  std::int64_t disk_bytes_max = 0;
  // 0 = none. Of a ward: so many whole processors are chosen for it, near to one memory node if one
  // has so many, that no other bound ward has while others are idle.
  std::int64_t bound_cpus = 0;
  std::int64_t bound_node = -1;  // … of this memory node, if it has so many; -1: of any.
  // Which processors it may run on, and which nodes its memory may come from: "0-3,8"; "": any.
  std::string processors{};
  std::string memory_nodes{};
  // 0 = none. Bytes a second that it may read from the disk with its work folder, and as many that
  // it may write; with control groups of version 1 only what bypasses the page cache is written so.
  std::int64_t io_bytes_max = 0;
  std::vector<std::string> disk_folders{};  // Absolute; neither in another nor in the work folder.
  bool operator==(const Limits&) const = default;
};

// An open file that the child gets under a number of its own.
struct Inherited {
  int number = -1;  // Over 2, not the channel's; each once.
  std::shared_ptr<const Descriptor> file;
};

enum class ExitReason : std::uint8_t {
  kExited,
  kSignalled,
  kOutOfMemory,
  kTimedOut,
  kStopped,
  kOutOfDisk,
};

struct ChildExit {
  ExitReason reason = ExitReason::kExited;
  int code = 0;            // Exit code, or the signal's number.
  bool by_signal = false;  // Which of them, whatever the reason.
  std::int64_t memory_peak_bytes = 0;
  Duration cpu_time{};
  // Which protections held, by name: "no_new_privs", "landlock", "cgroup-memory",
  // "cgroup-pids", "cgroup-cpu", "cgroup-cpuset", "cgroup-io", "affinity", "netns",
  // "hidden-processes", "userns", "no-capabilities", "seccomp"; exec/sandbox.h tells more.
  std::vector<std::string> protections;
  std::vector<std::string> protections_refused;  // "landlock: Function not implemented"
  std::string output;  // The last 64 KiB that it printed, unless that went to a file.
};

struct ChildSpec {
  std::vector<std::string> argv;                         // argv[0] is an absolute path.
  std::vector<std::pair<std::string, std::string>> env;  // The whole environment.
  std::string work_dir;
  Sandbox sandbox;
  Limits limits;
  // One end of a socketpair becomes this descriptor in the child; 3 by convention. The other end's
  // lines arrive at on_line. -1: there is none.
  int channel_fd = 3;
  std::vector<Inherited> inherited;
  // Standard output and error: appended to this file or, when it is "", kept in memory, the last
  // 64 KiB of them (see ChildExit::output).
  std::string log_path;
  // A line without its newline, at most 64 KiB (longer ones end the child). Called on one thread.
  std::function<void(std::string_view line)> on_line;
  // What it prints, as it comes, in pieces of at most 16 KiB that end anywhere; only without
  // log_path. It may block: then the child waits when its pipe is full. Called on the same thread.
  std::function<void(std::string_view bytes)> on_output;
  // Told how it ended, after the last on_line and on_output and before wait() returns. Called once,
  // on the same thread; it must neither wait for nor drop the child.
  std::function<void(const ChildExit& end)> on_exit;
};

class Child {
 public:
  // Starts at once. kNotFound if argv[0] is missing, kFailedPrecondition naming a required
  // protection that this machine does not grant, kInternal with errno's text otherwise.
  static Result<std::unique_ptr<Child>> start(ChildSpec spec);
  virtual ~Child() = default;  // Kills the whole process group and reaps it.

  virtual std::int64_t pid() const = 0;
  // Waits for the end; every line was delivered before it returns. Call once.
  virtual ChildExit wait() = 0;
  // Asks (SIGTERM), then forces (SIGKILL) after the grace period. Thread-safe; wait() returns.
  virtual void stop() = 0;
  // Sends a signal to the process alone, not to those it has started, and forces nothing. Nothing
  // happens when it has ended. Thread-safe.
  virtual void signal(int number) = 0;
  // What it has printed so far, as ChildExit::output. Thread-safe.
  virtual std::string output() const = 0;
  // Sends one line to the child's channel. kUnavailable when it has closed it.
  virtual Status send(std::string_view line) = 0;
};

}  // namespace falaj::exec
