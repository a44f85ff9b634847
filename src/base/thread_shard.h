// base/thread_shard.h — which of a few shards a thread uses, so that busy threads rarely meet.
#pragma once

#include <atomic>
#include <cstddef>

namespace falaj {

// The same for every call of a thread with the same number; threads are dealt out in turn.
inline std::size_t thread_shard(std::size_t shards) {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine % shards;
}

}  // namespace falaj
