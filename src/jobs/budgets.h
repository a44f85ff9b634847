// jobs/budgets.h — what a queue may spend in a window of time.
//
//   budgets: [{per: month, gpu_hours: 500, money: 2000, kwh: 300}]
//
// Windows are days, weeks (from Monday) and months of the calendar, UTC. Money and energy are
// counted by the prices of the SchedulingPolicy. A job is admitted when what it will probably use
// fits beside what was spent and what runs: the p90 of jobs of the same queue, name and size, at
// most its limit, and its limit before five of them have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/decode.h"
#include "base/time.h"
#include "scheduler/snapshot.h"

namespace falaj::jobs {

enum class Per : std::uint8_t { kDay, kWeek, kMonth };

struct QueueBudget {
  Per per = Per::kMonth;
  scheduler::AllowanceKind kind = scheduler::AllowanceKind::kGpuSeconds;
  std::int64_t limit = 0;  // Milli-GPU-seconds, millionths, or watt-seconds.
  bool operator==(const QueueBudget&) const = default;
};

struct Window {
  Timestamp begin{};
  Timestamp end{};
};
// The one that `now` is in. Pure.
Window window_of(Per per, Timestamp now);

// The member `budgets` of a Queue's spec; an entry gives one budget for each of its limits.
Result<std::vector<QueueBudget>> decode_budgets(Fields& fields);

}  // namespace falaj::jobs
