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

enum class GroupVersion : std::uint8_t { kV1, kV2 };

// Where control groups lie, and the three things that the kernel does with more than a file or a
// folder. Tests put a tree of their own in its place. Thread-safe.
class GroupTree {
 public:
  // `own` says which groups this process is in, as /proc/self/cgroup does.
  GroupTree(std::string mount, std::string own) : mount_(std::move(mount)), own_(std::move(own)) {}
  virtual ~GroupTree() = default;
  static GroupTree& of_this_machine();

  virtual bool make(const std::string& folder);
  virtual bool remove(const std::string& folder);  // True when it is gone.
  virtual bool write(const std::string& file, std::string_view text);

  const std::string& mount() const { return mount_; }
  // This process's group in a hierarchy: what stands behind `marker` in `own`; "" for the topmost.
  std::string own_group(const std::string& marker) const;

  // Where a group could be made last: looking for it anew would make and remove folders in vain.
  struct Place {
    GroupVersion version = GroupVersion::kV1;
    std::string parent;
  };
  Place last_place();
  void remember(Place place);

 private:
  const std::string mount_;
  const std::string own_;
  Mutex mutex_;
  Place last_ FALAJ_GUARDED_BY(mutex_);
};

class ControlGroup {
 public:
  // Under this process's own group: version 2 where its memory controller is ours to use, else
  // version 1, where each controller is a hierarchy of its own. kUnavailable when memory cannot be
  // limited either way; refused() names the other limits that could not be set.
  // Groups that a dead Falaj process left behind are emptied and removed on the way, unless there
  // is a tag, which becomes a part of the name: its user calls sweep_tagged() once.
  // The tree outlives the group.
  static Result<std::unique_ptr<ControlGroup>> create(
      const GroupLimits& limits, const std::string& tag = "",
      GroupTree& tree = GroupTree::of_this_machine());
  // Empties and removes the groups of that tag that other processes made; the caller knows that
  // these are dead. Returns when their members have gone.
  static void sweep_tagged(const std::string& tag, GroupTree& tree = GroupTree::of_this_machine());
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
  struct Folder {
    std::string path;
    Fd procs;
  };
  ControlGroup(GroupTree& tree, GroupVersion version, const GroupLimits& limits, std::string tag)
      : tree_(tree), version_(version), asked_(limits), tag_(std::move(tag)) {}

  static std::unique_ptr<ControlGroup> create_in(GroupTree& tree, const GroupTree::Place& place,
                                                 const GroupLimits& limits, const std::string& tag);
  bool enter(const std::string& parent);
  bool handed_down(std::string_view controller, std::string_view file) const;
  bool limit_memory(std::int64_t bytes_max) const;
  void limit_others(const GroupLimits& limits);
  void limit_cpu(double cpus);
  void bind(const GroupLimits& limits);
  void limit_io(const GroupLimits& limits);
  bool enter_v1(const std::string& hierarchy);
  void limit_other(Controller controller, const std::string& hierarchy,
                   const std::vector<std::pair<std::string, std::string>>& files);
  const std::string& folder() const { return folders_.front().path; }

  GroupTree& tree_;
  GroupVersion version_;
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
