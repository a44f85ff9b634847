#include "exec/internal/views.h"

#include <fcntl.h>

#include <string>
#include <utility>

namespace falaj::exec::internal {

ViewPtr Views::take(std::int64_t now) {
  MutexLock lock(mutex_);
  return newest_ && now - since_ < kFreshNanos ? newest_ : nullptr;
}

void Views::keep(ViewPtr view, std::int64_t now) {
  if (!view) return;
  MutexLock lock(mutex_);
  newest_ = std::move(view);
  since_ = now;
}

void Views::drop_old(std::int64_t now) {
  ViewPtr old;  // Closed without the lock: it may be the last that holds the namespace.
  MutexLock lock(mutex_);
  if (newest_ && now - since_ >= kFreshNanos) old = std::move(newest_);
}

ViewPtr view_of(int pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  auto view = std::make_shared<View>();
  view->mounts = Fd(::open((process + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  view->root = Fd(::open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return view->mounts.open() && view->root.open() ? view : nullptr;
}

}  // namespace falaj::exec::internal
