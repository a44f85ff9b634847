// base/published.h — a value that many threads read and one replaces.
//
// Each reading thread has its own pointer, with a reference count of its own, behind its own mutex,
// which only a replacement ever contends for: a read costs an uncontended lock and a count, and no
// two readers touch the same cache line. std::atomic<std::shared_ptr> would be shorter, but
// libstdc++ 12 unlocks its load with relaxed order, a data race with the next store.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/mutex.h"
#include "base/thread_shard.h"

namespace falaj {

template <class T>
class Published {
 public:
  // The newest value, or the one just being replaced. Never null once replace() was called.
  std::shared_ptr<const T> load() const {
    const Shard& shard = shards_[thread_shard(kShards)];
    MutexLock lock(shard.mutex);
    return shard.value;
  }

  // When it returns, every later load() anywhere gives `value`. One caller at a time.
  void replace(std::shared_ptr<const T> value) {
    for (Shard& shard : shards_) {
      std::shared_ptr<const T> old = counted_apart(value);
      MutexLock lock(shard.mutex);
      shard.value.swap(old);
    }  // The old one is released after the lock: it may free a model.
  }

 private:
  // The same object, kept alive under another count.
  static std::shared_ptr<const T> counted_apart(const std::shared_ptr<const T>& value) {
    if (value == nullptr) return nullptr;
    return {std::make_shared<const std::shared_ptr<const T>>(value), value.get()};
  }

  static constexpr std::size_t kShards = 16;
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::shared_ptr<const T> value;
  };

  std::array<Shard, kShards> shards_;
};

}  // namespace falaj
