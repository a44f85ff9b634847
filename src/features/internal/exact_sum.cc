#include "features/internal/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace falaj::features {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint32_t kPutsMax = 1u << 29;
constexpr int kLeastExponent = -1074;  // Of the first bit of the first digit.
constexpr std::uint64_t kDigitMask = 0xFFFFFFFFu;

}  // namespace

void ExactSum::put(double value, std::int64_t sign) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t exponent = bits >> 52 & 0x7FF;
  std::uint64_t mantissa = bits & ((1ULL << 52) - 1);
  const bool negative = bits >> 63 != 0;
  if (exponent == 0x7FF) {
    std::int64_t& kind = mantissa != 0 ? nans_ : negative ? minus_infinities_ : infinities_;
    kind += sign;
    return;
  }
  if (exponent != 0) mantissa |= 1ULL << 52;
  if (mantissa == 0) return;
  if (negative) sign = -sign;
  const std::uint64_t place = exponent == 0 ? 0 : exponent - 1;
  const std::size_t digit = place / 32;
  const Wide shifted = static_cast<Wide>(mantissa) << (place % 32);
  for (std::size_t i = 0; i < 3; ++i) {
    digits_[digit + i] += sign * static_cast<std::int64_t>(
                                     static_cast<std::uint64_t>(shifted >> (32 * i)) & kDigitMask);
  }
  low_ = std::min(low_, digit);
  high_ = std::max(high_, digit + 2);
  if (++puts_ < kPutsMax) return;
  high_ = std::min(high_ + 2, kDigits - 1);
  carry(digits_, low_, high_);
  puts_ = 0;
}

void ExactSum::carry(Digits& digits, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const std::int64_t over = digits[i] >> 32;  // Rounds down, so that a digit is never negative.
    digits[i] -= over * (std::int64_t{1} << 32);
    digits[i + 1] += over;
  }
}

double ExactSum::rounded() const {
  if (nans_ != 0 || (infinities_ != 0 && minus_infinities_ != 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (infinities_ != 0) return std::numeric_limits<double>::infinity();
  if (minus_infinities_ != 0) return -std::numeric_limits<double>::infinity();
  if (low_ == kDigits) return 0;
  const std::size_t top = std::min(high_ + 2, kDigits - 1);
  Digits digits;
  std::copy(digits_.begin() + static_cast<std::ptrdiff_t>(low_),
            digits_.begin() + static_cast<std::ptrdiff_t>(top) + 1,
            digits.begin() + static_cast<std::ptrdiff_t>(low_));
  carry(digits, low_, top);
  const bool negative = digits[top] < 0;
  if (negative) {
    for (std::size_t i = low_; i <= top; ++i) digits[i] = -digits[i];
    carry(digits, low_, top);
  }
  std::size_t first = top;
  while (first > low_ && digits[first] == 0) --first;
  // Three digits have at least 65 bits; what is below them can only decide a tie, by its last bit.
  Wide head = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool there = first >= i + low_;
    head = head << 32 | (there ? static_cast<std::uint64_t>(digits[first - i]) : 0);
  }
  for (std::size_t i = low_; i + 3 <= first; ++i) {
    if (digits[i] != 0) head |= 1;
  }
  const int exponent = kLeastExponent + 32 * (static_cast<int>(first) - 2);
  const double size = std::ldexp(static_cast<double>(head), exponent);
  return negative ? -size : size;
}

void ExactSum::clear() {
  if (low_ < kDigits) {
    std::fill(digits_.begin() + static_cast<std::ptrdiff_t>(low_),
              digits_.begin() + static_cast<std::ptrdiff_t>(high_) + 1, 0);
  }
  low_ = kDigits;
  high_ = 0;
  puts_ = 0;
  nans_ = infinities_ = minus_infinities_ = 0;
}

}  // namespace falaj::features
