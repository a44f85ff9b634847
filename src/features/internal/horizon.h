// features/internal/horizon.h — up to which commit readers may read.
//
// Commits get their numbers one after another but are published as each is done. A reader reads at
// the horizon: every commit up to it was published, or never will be.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "base/mutex.h"

namespace falaj::features {

// Thread-safe. commit() is one load.
class Horizon {
 public:
  std::uint64_t commit() const { return commit_.load(std::memory_order_acquire); }
  // It got its number and is not published yet: called in the order of the numbers. One that was
  // taken back is passed; its number must not be given to another that is expected after that.
  void expect(std::uint64_t commit);
  // Published, or never to be. Of one that was not expected too.
  void pass(std::uint64_t commit);
  // Until commit() has reached it: all before it have passed.
  void wait(std::uint64_t commit);

 private:
  std::atomic<std::uint64_t> commit_{0};
  Mutex mutex_;
  CondVar changed_;
  std::uint64_t newest_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, int> expected_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::features
