// exec/internal/control_group.h — a control group around one child: its limits, its peak, and the
// certainty that no descendant outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

struct GroupLimits {
  std::int64_t memory_bytes_max = 0;  // 0 in each: no limit.
  std::int64_t processes_max = 0;
  double cpus_max = 0;            // Of processor time: 1.5 is one and a half processors.
  std::string processors;         // "0-3"; "": any.
  std::string memory_nodes;       // The same.
  std::int64_t io_bytes_max = 0;  // A second, of `io_device` ("254:0").
  std::string io_device;
  bool operator==(const GroupLimits&) const = default;
};

enum class Controller : std::uint8_t { kMemory, kProcesses, kCpu, kCpuSet, kIo };

class ControlGroup {
 public:
  // Under this process's own group: version 2 where its memory controller is ours to use, else
  // version 1, where each controller is a hierarchy of its own. kUnavailable when memory cannot be
  // limited either way; refused() names the other limits that could not be set.
  // Groups that a dead Falaj process left behind are emptied and removed on the way, unless there
  // is a tag, which becomes a part of the name: its user calls sweep_tagged() once.
  static Result<std::unique_ptr<ControlGroup>> create(const GroupLimits& limits,
                                                      const std::string& tag = "");
  // Empties and removes the groups of that tag that other processes made; the caller knows that
  // these are dead. Returns when their members have gone.
  static void sweep_tagged(const std::string& tag);
  ~ControlGroup();  // Kills what is left inside and removes the group.

  // The child writes "0" to each of them to move itself in; [0] is the one with the memory.
  std::vector<int> procs_fds() const;
  bool limits(Controller controller) const;  // Whether its limit was asked for and set.
  const std::vector<std::string>& refused() const { return refused_; }

  // Whether the kernel killed something here for want of memory.
  bool out_of_memory() const;
  std::int64_t peak_bytes() const;      // 0 if the kernel does not say.
  std::int64_t resident_bytes() const;  // Without files' pages; 0 if the kernel does not say.
  std::vector<std::int64_t> members() const;
  void kill_all() const;
  // Removes the folders that can be removed at once. True when none is left.
  bool try_remove();
  // Makes it as good as new for the same limits, if it can be: empty, never out of memory, with
  // next to no memory of the last user in it. False: remove it.
  bool renew();
  const GroupLimits& asked() const { return asked_; }

 private:
  enum class Version : std::uint8_t { kV1, kV2 };
  struct Folder {
    std::string path;
    Fd procs;
  };
  ControlGroup(Version version, const GroupLimits& limits, std::string tag)
      : version_(version), asked_(limits), tag_(std::move(tag)) {}

  struct Place;
  static Place& last_place();
  static std::unique_ptr<ControlGroup> create_where_it_was(const GroupLimits& limits,
                                                           const std::string& tag);
  static std::unique_ptr<ControlGroup> create_in(Version version, const std::string& parent,
                                                 const GroupLimits& limits, const std::string& tag);
  bool enter(const std::string& parent);
  bool limit_memory(std::int64_t bytes_max) const;
  void limit_others(const GroupLimits& limits);
  void limit_cpu(double cpus);
  void bind(const GroupLimits& limits);
  void limit_io(const GroupLimits& limits);
  void limit_other(Controller controller, std::string_view v1_mount, std::string_view v1_marker,
                   const std::vector<std::pair<std::string, std::string>>& files);
  const std::string& folder() const { return folders_.front().path; }

  Version version_;
  GroupLimits asked_;
  std::string tag_;
  std::vector<Folder> folders_;  // One in version 2; one for each controller in version 1.
  std::vector<Controller> limited_;
  std::vector<std::string> refused_;  // "cgroup-pids: why"
};

// Groups that are used again for the same limits: to make and remove one takes the kernel longer
// than to start a program. Thread-safe.
class SpareGroups {
 public:
  // Null when there is none for these limits.
  std::unique_ptr<ControlGroup> take(const GroupLimits& limits);
  // Takes it if it can be used again; null then, else the group.
  std::unique_ptr<ControlGroup> keep(std::unique_ptr<ControlGroup> group);

  static constexpr std::size_t kMost = 64;

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<ControlGroup>> spare_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::exec::internal
