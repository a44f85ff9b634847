#include "serving/batching/service_times.h"

#include <algorithm>
#include <bit>

namespace falaj::serving::batching {
namespace {

constexpr double kWeight = 0.1;  // Of the newest run.
constexpr double kWorth = 0.9;   // A row of twice as many must cost at most this much of one.
constexpr std::uint64_t kStale = 4096;  // Runs after which a size is tried again.

std::size_t size_of(std::size_t rows, std::size_t sizes) {
  const std::size_t size = rows <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(rows - 1));
  return std::min(size, sizes - 1);
}

}  // namespace

void ServiceTimes::observe(std::size_t rows, Duration took) {
  ++runs_;
  Size& size = sizes_[size_of(rows, kSizes)];
  const double row_nanos =
      static_cast<double>(took.nanos) / static_cast<double>(std::max<std::size_t>(rows, 1));
  // What was stale counts for nothing: the machine may be another by now.
  const bool fresh = size.seen_at != 0 && runs_ - size.seen_at <= kStale;
  size.row_nanos = fresh ? size.row_nanos + kWeight * (row_nanos - size.row_nanos) : row_nanos;
  size.seen_at = runs_;
}

bool ServiceTimes::is_known(std::size_t size) const { return sizes_[size].seen_at != 0; }

Duration ServiceTimes::expect(std::size_t rows) const {
  const std::size_t wanted = size_of(rows, kSizes);
  const auto whole = [](double row_nanos, std::size_t count) {
    return Duration{static_cast<std::int64_t>(row_nanos * static_cast<double>(count))};
  };
  for (std::size_t size = wanted + 1; size-- > 0;) {
    if (is_known(size)) return whole(sizes_[size].row_nanos, std::max<std::size_t>(rows, 1));
  }
  // Only larger ones were seen: fewer rows do not take longer than the smallest of them did.
  for (std::size_t size = wanted + 1; size < kSizes; ++size) {
    if (is_known(size)) return whole(sizes_[size].row_nanos, std::size_t{1} << size);
  }
  return {};
}

std::size_t ServiceTimes::rows_worth() const {
  std::size_t size = 0;
  while (size < kSizes && !is_known(size)) ++size;
  if (size == kSizes) return 1;
  // A caller may send so many rows at once that fewer were never seen: it begins with those.
  while (size + 1 < kSizes && is_known(size)) {
    const Size& next = sizes_[size + 1];
    const bool untried = next.seen_at == 0 || runs_ - next.seen_at > kStale;
    if (untried) return std::size_t{1} << (size + 1);
    if (next.row_nanos > kWorth * sizes_[size].row_nanos) break;
    ++size;
  }
  return std::size_t{1} << size;
}

Duration ServiceTimes::per_row_at_best() const {
  const std::size_t rows = rows_worth();
  return Duration{expect(rows).nanos / static_cast<std::int64_t>(rows)};
}

}  // namespace falaj::serving::batching
