#include "serving/batching/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace falaj::serving::batching {
namespace {

constexpr std::uint32_t kMiddle = 1000;
constexpr std::size_t kLookedAt = 64;

std::uint32_t rank(std::uint32_t priority) { return priority == 0 ? kMiddle : priority; }

bool is_late(const Waiting& request, const ServiceTimes& times, std::int64_t now) {
  return request.deadline != kNoDeadline &&
         now + times.expect(request.rows).nanos > request.deadline;
}

// The usual case: one caller, or one after the other, all with the same limit.
bool stands_in_order(std::span<const Waiting> waiting) {
  for (std::size_t i = 1; i < waiting.size(); ++i) {
    const Waiting& a = waiting[i - 1];
    const Waiting& b = waiting[i];
    if (a.tenant != b.tenant || a.priority != b.priority || a.deadline > b.deadline) return false;
  }
  return true;
}

// Rows of those whose turn comes before that of a new request: of its own tenant those of its
// priority or a higher one, of each other as many requests as those are, and one.
std::size_t rows_before(const Waiting& request, std::span<const Waiting> waiting) {
  const auto own_before = [&](const Waiting& each) {
    return each.tenant == request.tenant && rank(each.priority) <= rank(request.priority);
  };
  const auto own =
      static_cast<std::size_t>(std::count_if(waiting.begin(), waiting.end(), own_before));
  std::map<std::uint64_t, std::size_t> of_tenant;
  std::size_t rows = 0;
  for (const Waiting& each : waiting) {
    const bool other = each.tenant != request.tenant;
    if (own_before(each) || (other && of_tenant[each.tenant]++ <= own)) rows += each.rows;
  }
  return rows;
}

bool is_full(const Waiting& request, std::span<const Waiting> waiting) {
  if (waiting.size() >= kWaitingMax) return true;
  const auto own = std::count_if(waiting.begin(), waiting.end(), [&](const Waiting& each) {
    return each.tenant == request.tenant;
  });
  return static_cast<std::size_t>(own) >= kWaitingMax - waiting.size();
}

}  // namespace

std::vector<std::size_t> turns(std::span<const Waiting> waiting) {
  std::vector<std::size_t> order(waiting.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (stands_in_order(waiting)) return order;
  const auto urgency = [&](std::size_t i) {
    return std::tuple(rank(waiting[i].priority), waiting[i].deadline, waiting[i].arrived, i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return urgency(a) < urgency(b); });
  // The how-manieth of its tenant each is.
  std::map<std::uint64_t, std::size_t> seen;
  std::vector<std::size_t> round(waiting.size());
  for (const std::size_t i : order) round[i] = seen[waiting[i].tenant]++;
  const auto turn = [&](std::size_t i) {
    return std::tuple(round[i], waiting[i].deadline, waiting[i].arrived, i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return turn(a) < turn(b); });
  return order;
}

Batch next_batch(std::span<const Waiting> waiting, const ServiceTimes& times, std::size_t rows_max,
                 std::int64_t now) {
  Batch batch;
  std::size_t rows = 0;
  std::int64_t earliest = kNoDeadline;
  const std::size_t worth = std::min(times.rows_worth(), rows_max);
  std::size_t looked_at = 0;
  for (const std::size_t i : turns(waiting)) {
    const Waiting& request = waiting[i];
    // Who comes far behind what is full has its turn another time.
    if (rows >= worth && ++looked_at > kLookedAt) break;
    if (is_late(request, times, now)) {
      batch.late.push_back(i);
      continue;
    }
    if (batch.run.empty()) {
      batch.run.push_back(i);
      rows = request.rows;
      earliest = request.deadline;
      continue;
    }
    const std::size_t together = rows + request.rows;
    const std::int64_t due = std::min(earliest, request.deadline);
    const bool in_time = due == kNoDeadline || now + times.expect(together).nanos <= due;
    const bool alike = request.shape != 0 && request.shape == waiting[batch.run.front()].shape;
    if (!alike || together > worth || !in_time) continue;
    batch.run.push_back(i);
    rows = together;
    earliest = due;
  }
  return batch;
}

Admission admit(const Waiting& request, const Line& line, const ServiceTimes& times,
                std::int64_t now) {
  if (is_full(request, line.waiting)) return {Admission::Verdict::kFull, {}};
  if (request.deadline == kNoDeadline) return {};  // Then nobody needs to know how long it waits.
  const std::size_t before = rows_before(request, line.waiting);
  const std::int64_t queue = times.per_row_at_best().nanos * static_cast<std::int64_t>(before) /
                             static_cast<std::int64_t>(std::max<std::size_t>(line.runners, 1));
  const Duration wait{std::max<std::int64_t>(line.free_at - now, 0) + queue};
  const bool late = now + wait.nanos + times.expect(request.rows).nanos > request.deadline;
  return {late ? Admission::Verdict::kTooLate : Admission::Verdict::kWait, wait};
}

}  // namespace falaj::serving::batching
