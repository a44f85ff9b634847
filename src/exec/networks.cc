#include "exec/internal/networks.h"

#include <fcntl.h>

#include <cstdio>
#include <utility>

namespace falaj::exec::internal {

Fd Networks::take() {
  MutexLock lock(mutex_);
  if (spare_.empty()) return {};
  Fd network = std::move(spare_.back());
  spare_.pop_back();
  return network;
}

void Networks::keep(Fd network) {
  if (!network.open()) return;
  MutexLock lock(mutex_);
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(network));
}

Fd network_of(int pid) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
  return Fd(::open(path, O_RDONLY | O_CLOEXEC));
}

}  // namespace falaj::exec::internal
