// features/internal/plan_cache.h — plans that were made, until a definition changes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "features/online.h"

namespace falaj::features {

// Thread-safe.
class PlanCache {
 public:
  using PlanPtr = std::shared_ptr<const OnlinePlan>;
  using Name = std::pair<std::string, std::string>;  // The project, and what plan_name() says.
  // More are forgotten all at once and made again.
  static constexpr std::size_t kMax = 4'096;

  // Null when it was not made.
  PlanPtr known(const Name& name) const;
  // The plan that was made, or the one that `make` makes now. An error is not kept.
  Result<PlanPtr> get(const Name& name, const std::function<Result<PlanPtr>()>& make);
  // A definition has changed: those that are being made now are not kept either.
  void clear();

 private:
  mutable Mutex mutex_;
  std::map<Name, PlanPtr> plans_ FALAJ_GUARDED_BY(mutex_);
  std::uint64_t epoch_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace falaj::features
