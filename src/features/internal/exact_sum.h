// features/internal/exact_sum.h — a sum of float64 values without rounding until it is asked for.
//
// What was added can be taken away again, and no order of doing so changes a bit of the result:
// that is why a window that slides over many rows and one that is summed anew agree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace falaj::features {

// Cost: a few integer additions for each value; rounded() looks at the digits that were touched.
class ExactSum {
 public:
  void add(double value) { put(value, 1); }
  void remove(double value) { put(value, -1); }  // One that was added.
  // The float64 nearest to the sum, ties to even; +0 for no values. NaN when there is one, or both
  // infinities; an infinity when there is one, or the sum is past the largest float64.
  double rounded() const;
  void clear();

 private:
  // Digits of 32 bits from 2^-1074 on, in words that leave room for 2^30 additions before a carry.
  static constexpr std::size_t kDigits = 70;
  using Digits = std::array<std::int64_t, kDigits>;

  void put(double value, std::int64_t sign);
  // Moves what exceeds a digit to the next; the highest keeps the sign.
  static void carry(Digits& digits, std::size_t from, std::size_t to);

  Digits digits_{};
  std::size_t low_ = kDigits;  // Digits [low_, high_] may be other than 0.
  std::size_t high_ = 0;
  std::uint32_t puts_ = 0;  // Since the last carry.
  std::int64_t nans_ = 0;
  std::int64_t infinities_ = 0;
  std::int64_t minus_infinities_ = 0;
};

}  // namespace falaj::features
