// exec/internal/supervised.h — a started process and what is owed to it until it is reaped: its
// deadlines, its limits, the end of all that it started, and the account of how it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/child.h"
#include "exec/internal/control_group.h"
#include "exec/internal/folder_meter.h"
#include "exec/internal/networks.h"
#include "exec/internal/spawn.h"
#include "exec/internal/views.h"

namespace falaj::exec::internal {

enum class GroupUse : std::uint8_t {
  kAsNeeded,  // Only for a sandbox or a limit that needs one.
  kAlways,    // Wherever the machine grants one: no descendant gets away.
};

struct SupervisedOptions {
  GroupUse group = GroupUse::kAsNeeded;
  std::string group_tag;          // See ControlGroup::create.
  SpareGroups* groups = nullptr;  // Where a control group may come from that was used before.
  Networks* networks = nullptr;   // Where a sandbox's own network comes from, if not from nowhere.
  Views* views = nullptr;         // The same for what it sees; outlives the child.
};

// What a process and its descendants have used so far. 0 where the kernel does not say.
struct TreeUsage {
  Duration cpu_time{};
  std::int64_t memory_bytes = 0;
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
};

// Not thread-safe. The thread that starts it lives until it is reaped (see spawn()).
class Supervised {
 public:
  // Fails as Child::start does. Returns when the program has begun.
  static Result<std::unique_ptr<Supervised>> start(const ChildSpec& spec,
                                                   const SupervisedOptions& options);
  // The same without waiting: process().report becomes readable when has_begun() is to be asked.
  // Until that is true only kill_now() and kill_tree() may be called. An error from it: the program
  // did not begin, and there is nothing left to reap.
  static Result<std::unique_ptr<Supervised>> begin(const ChildSpec& spec,
                                                   const SupervisedOptions& options);
  Result<bool> has_begun();

  Spawned& process() { return process_; }
  const Spawned& process() const { return process_; }
  std::int64_t started_nanos() const { return started_; }  // Of monotonic_nanos().

  // SIGTERM now, SIGKILL after the grace period. The first reason given stays.
  void ask_to_end(ExitReason reason, std::int64_t now);
  void kill_now(ExitReason reason);
  // SIGKILL to the process, its group and its control group; the reason is its own.
  void kill_tree() const;
  // Acts on what is due; call it at wake_at() at the latest (kNever: no need).
  void keep_deadlines(std::int64_t now);
  std::int64_t wake_at(std::int64_t now) const;
  static constexpr std::int64_t kNever = INT64_MAX;

  TreeUsage usage() const;
  // Once the process has ended: whether every descendant (that a control group holds) is gone too.
  // Kills those that are not.
  bool tree_has_ended() const;
  // Waits for the process, which has ended, and tells how. Output and lines are the caller's.
  ChildExit reap();
  // Gives the control group away once reaped: removing it may take a while.
  std::unique_ptr<ControlGroup> take_group() { return std::move(group_); }
  // The network of a reaped one, if nothing can be left in it: to be used again.
  Fd take_network();

 private:
  Supervised() = default;
  void signal_group(int signal) const;
  void look_at_disk();
  bool fills_too_much() const;

  ChildSpec spec_;
  std::unique_ptr<ControlGroup> group_;
  Fd network_;
  Views* views_ = nullptr;      // If it may share one …
  ViewPtr made_view_;           // … and made it, until it is known whether that hides processes.
  bool network_clean_ = false;  // Known once it was reaped.
  bool keeps_orphans_ = false;  // For want of a group.
  Spawned process_;
  std::vector<std::string> refused_;
  std::int64_t started_ = 0;
  std::int64_t stop_at_ = kNever;
  std::int64_t kill_at_ = kNever;
  bool ending_ = false;
  bool watch_memory_ = false;
  std::optional<FolderMeter> disk_;  // While there is a limit to keep.
  std::int64_t disk_at_ = kNever;    // When to look on.
  std::int64_t disk_spent_ = 0;      // By the count that is being taken.
  std::optional<ExitReason> reason_;
};

// When a process began, in the kernel's ticks since boot; 0 if there is none of that number. With
// the number it names a process for good.
std::int64_t birth_of(std::int64_t pid);

}  // namespace falaj::exec::internal
