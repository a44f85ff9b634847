// serving/batching/service_times.h — how long a model takes for how many rows, learned from its
// runs. Pure: no clock, no lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace falaj::serving::batching {

// The most rows that requests of others are put together to.
inline constexpr std::size_t kRowsMax = 4096;

// One for each model; the caller locks.
class ServiceTimes {
 public:
  // A run of `rows` took so long. Old runs are forgotten by and by.
  void observe(std::size_t rows, Duration took);
  // What a run of `rows` will take. Of sizes never seen: as if nothing were won by running them
  // together, so that a promise made by it is kept. 0 before the first run.
  Duration expect(std::size_t rows) const;
  // How many rows it pays to run together: as long as twice as many rows take clearly less than
  // twice as long, from the smallest size that was seen. Beyond what was tried it is tried once,
  // and again after some thousand runs.
  std::size_t rows_worth() const;
  // Of one row when as many as pay are run together.
  Duration per_row_at_best() const;

 private:
  static constexpr std::size_t kSizes = 13;  // 1, 2, 3-4, 5-8, … 2049-4096.
  struct Size {
    double row_nanos = 0;       // Of one row, on the average.
    std::uint64_t seen_at = 0;  // Which run it was; 0: never.
  };
  bool is_known(std::size_t size) const;

  std::array<Size, kSizes> sizes_{};
  std::uint64_t runs_ = 0;
};

}  // namespace falaj::serving::batching
