// exec/internal/views.h — what sandboxed children of root see of the machine's folders: a mount
// namespace whose /proc shows of other processes only those that the looker may trace. One of them
// makes it, the next ones enter it: to make one and to take it down again takes the kernel longer
// than all other namespaces of a child together.
//
// They may share it, whoever they belong to. It is root's: they have left root's users and can
// mount nothing there. What its /proc shows depends on who looks, and Landlock lets nobody trace
// anything outside of its own sandbox. What is mounted on the machine later is not in it, so each
// is entered for a second only and then another is made.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

struct View {
  Fd mounts;  // The namespace …
  Fd root;    // … and the folder that is "/" in it.
};
using ViewPtr = std::shared_ptr<const View>;

// Thread-safe. Times are those of monotonic_nanos().
class Views {
 public:
  // The newest one, if it may still be entered; null: the child makes its own.
  ViewPtr take(std::int64_t now);
  // Of a child that has said that other processes are hidden from it.
  void keep(ViewPtr view, std::int64_t now);
  // Lets go of one that is not entered any more: it keeps the machine's mounts in use.
  void drop_old(std::int64_t now);

  static constexpr std::int64_t kFreshNanos = 1'000'000'000;

 private:
  Mutex mutex_;
  ViewPtr newest_ FALAJ_GUARDED_BY(mutex_);
  std::int64_t since_ FALAJ_GUARDED_BY(mutex_) = 0;
};

// The one that a process is in; null when that cannot be told.
ViewPtr view_of(int pid);

}  // namespace falaj::exec::internal
