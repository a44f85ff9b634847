#include "scheduler/allowances.h"

#include <algorithm>

namespace falaj::scheduler {

Allowances::Allowances(const Snapshot& snapshot, Timestamp now)
    : snapshot_(snapshot), now_(now), committed_(snapshot.queues.size()) {
  for (std::size_t q = 0; q < snapshot.queues.size(); ++q) {
    committed_[q].assign(snapshot.queues[q].allowances.size(), 0);
    any_ = any_ || !committed_[q].empty();
  }
}

std::int64_t Allowances::amount(const Allowance& allowance, const Rates& rates, Duration run,
                                Rounding rounding) const {
  const std::int64_t window = std::max<std::int64_t>(0, (allowance.window_end - now_).nanos);
  const std::int64_t seconds = std::min(run.nanos, window) / 1'000'000'000;
  switch (allowance.kind) {
    case AllowanceKind::kGpuSeconds:
      return scaled(rates.gpu_milli, seconds, 1);
    case AllowanceKind::kMoney:
      return rounding == Rounding::kUp ? scaled_up(rates.money_per_hour, seconds, 3600)
                                       : scaled(rates.money_per_hour, seconds, 3600);
    case AllowanceKind::kEnergy:
      return scaled(rates.watts, seconds, 1);
  }
  return 0;
}

Allowances::Shortfall Allowances::shortfall(Index queue, const Rates& rates, Duration run) const {
  if (!any_) return {};
  for (Index q = queue; q != kAbsent; q = snapshot_.queues[q].parent) {
    const auto& allowances = snapshot_.queues[q].allowances;
    for (std::size_t i = 0; i < allowances.size(); ++i) {
      const std::int64_t left = allowances[i].limit - allowances[i].spent - committed_[q][i];
      const std::int64_t wanted = amount(allowances[i], rates, run, Rounding::kUp);
      if (wanted > 0 && wanted > left) {
        return {q, wanted - left, static_cast<Index>(i), wanted};
      }
    }
  }
  return {};
}

void Allowances::commit(Index queue, const Rates& rates, Duration run, std::int64_t sign,
                        Rounding rounding) {
  if (!any_) return;
  for (Index q = queue; q != kAbsent; q = snapshot_.queues[q].parent) {
    const auto& allowances = snapshot_.queues[q].allowances;
    for (std::size_t i = 0; i < allowances.size(); ++i) {
      committed_[q][i] += sign * amount(allowances[i], rates, run, rounding);
    }
  }
}

}  // namespace falaj::scheduler
