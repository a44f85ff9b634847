#include "features/internal/horizon.h"

#include <algorithm>

namespace falaj::features {

void Horizon::expect(std::uint64_t commit) {
  const MutexLock lock(mutex_);
  ++expected_[commit];
  newest_ = std::max(newest_, commit);
}

void Horizon::pass(std::uint64_t commit) {
  const MutexLock lock(mutex_);
  newest_ = std::max(newest_, commit);
  const auto found = expected_.find(commit);
  if (found != expected_.end() && --found->second == 0) expected_.erase(found);
  const std::uint64_t whole = expected_.empty() ? newest_ : expected_.begin()->first - 1;
  commit_.store(std::max(whole, commit_.load(std::memory_order_relaxed)),
                std::memory_order_release);
  changed_.notify_all();
}

void Horizon::wait(std::uint64_t commit) {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&] { return commit_.load(std::memory_order_relaxed) >= commit; });
}

}  // namespace falaj::features
