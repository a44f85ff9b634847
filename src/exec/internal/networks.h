// exec/internal/networks.h — private networks that are used again: to make one takes the kernel
// longer than to start a program, and to take it down as long again.
//
// A network is kept when every process that was in it has ended and none of them could change it:
// there is its loopback interface, and nothing else. A port that the last user left a moment ago
// may still be in the state TIME_WAIT.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "exec/internal/fd.h"

namespace falaj::exec::internal {

// Thread-safe.
class Networks {
 public:
  // One that nobody is in; not open when there is none, and then a child makes its own.
  Fd take();
  // Gives one back, or adds a new one. Beyond kSpareMax it is closed, which removes it.
  void keep(Fd network);

  static constexpr std::size_t kSpareMax = 128;

 private:
  Mutex mutex_;
  std::vector<Fd> spare_ FALAJ_GUARDED_BY(mutex_);
};

// The network that a process is in; not open when that cannot be told.
Fd network_of(int pid);

}  // namespace falaj::exec::internal
