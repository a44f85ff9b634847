// scheduler/simulate/tenant_use.h — the GPU time that each tenant had lately, halved per half-life:
// what `order.share` of a simulated policy goes by. Integers; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "scheduler/quota.h"

namespace falaj::scheduler::simulate {

class TenantUse {
 public:
  TenantUse(std::size_t tenants, Duration half_life) : half_life_(half_life), accounts_(tenants) {}

  // From `now` on so many milli-GPUs more are held; fewer, if negative. Time never goes back.
  void hold(std::uint32_t tenant, std::int64_t milli, Timestamp now) {
    (void)at(tenant, now);
    accounts_[tenant].held += milli;
  }

  // Milli-GPU-seconds until `now`, with what is being held.
  std::int64_t at(std::uint32_t tenant, Timestamp now) {
    Account& own = accounts_[tenant];
    own.used = decayed(own.used, own.held, now - own.until, half_life_);
    own.until = now;
    return own.used;
  }

 private:
  struct Account {
    std::int64_t used = 0;
    std::int64_t held = 0;
    Timestamp until{};
  };

  Duration half_life_;
  std::vector<Account> accounts_;
};

}  // namespace falaj::scheduler::simulate
