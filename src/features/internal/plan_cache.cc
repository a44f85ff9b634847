#include "features/internal/plan_cache.h"

namespace falaj::features {

PlanCache::PlanPtr PlanCache::known(const Name& name) const {
  const MutexLock lock(mutex_);
  const auto found = plans_.find(name);
  return found == plans_.end() ? nullptr : found->second;
}

Result<PlanCache::PlanPtr> PlanCache::get(const Name& name,
                                          const std::function<Result<PlanPtr>()>& make) {
  std::uint64_t epoch = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = plans_.find(name);
    if (found != plans_.end()) return found->second;
    epoch = epoch_;
  }
  PlanPtr plan = FALAJ_TRY(make());
  const MutexLock lock(mutex_);
  // A definition that changed meanwhile may have made this plan old.
  if (epoch != epoch_) return plan;
  if (plans_.size() >= kMax) plans_.clear();
  plans_[name] = plan;
  return plan;
}

void PlanCache::clear() {
  const MutexLock lock(mutex_);
  ++epoch_;
  plans_.clear();
}

}  // namespace falaj::features
