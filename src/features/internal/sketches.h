// features/internal/sketches.h — what many values look like, in little memory, so that it can be
// added up.
//
// Nothing here is random: the same values give the same bytes on every machine. Spread and Distinct
// do not even depend on the order of the values, nor on how they were divided before they were
// merged. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace falaj::features {

// Numbers on one line of 64-bit places in the order of the numbers, and back.
std::uint64_t place_of_number(double value);  // Finite.
double number_at(std::uint64_t place);
std::uint64_t place_of_time(std::int64_t nanos);
std::int64_t time_at(std::uint64_t place);

// Where the values lie: counts in bins of 2^shift places, at most kBinsMax of them. Whenever there
// would be more, all bins become twice as wide, so that the width is the least that fits.
class Spread {
 public:
  static constexpr std::size_t kBinsMax = 512;
  // Bins of numbers are at first a 128th of a power of two wide: quantiles are off by 0.4 % or
  // less. Bins of times are at first 69 seconds wide.
  static constexpr unsigned kNumberShift = 45;
  static constexpr unsigned kTimeShift = 36;

  struct Bin {
    std::uint64_t index = 0;  // Its first place is index << shift.
    std::uint64_t count = 0;
    bool operator==(const Bin&) const = default;
  };

  explicit Spread(unsigned shift = kNumberShift) : shift_(shift) {}
  void add(std::uint64_t place, std::uint64_t weight);
  void merge(const Spread& other);

  std::uint64_t total() const { return total_; }
  unsigned shift() const { return shift_; }
  // Ascending.
  std::vector<Bin> bins() const;
  // The place below which that share of the values lies, between the bin's ends by rank. Asked only
  // when total() > 0.
  std::uint64_t quantile(double share) const;
  // `bins` ascending, distinct, within `shift`. kInvalidArgument otherwise.
  static Result<Spread> restore(unsigned shift, const std::vector<Bin>& bins);

 private:
  void count(std::uint64_t index, std::uint64_t weight);
  void rebuild(unsigned shift, std::size_t slots);
  std::size_t slot_of(std::uint64_t index) const;

  unsigned shift_;
  std::uint64_t total_ = 0;
  std::size_t used_ = 0;
  std::vector<Bin> slots_;  // Open addressing; count 0 is free. A power of two, or none.
};

// About how many different values there were (HyperLogLog with 2048 registers, off by 2.3 %
// typically, nearly exact for few).
class Distinct {
 public:
  static constexpr unsigned kBits = 11;
  static constexpr std::size_t kRegisters = std::size_t{1} << kBits;
  static constexpr unsigned kRankMax = 64 - kBits + 1;

  void add(std::uint64_t hash);
  void merge(const Distinct& other);
  std::uint64_t estimate() const;
  const std::array<std::uint8_t, kRegisters>& registers() const { return registers_; }
  // kInvalidArgument for a register that does not exist or a rank that none can have.
  Status restore(std::size_t place, std::uint64_t rank);

 private:
  std::array<std::uint8_t, kRegisters> registers_{};
};
// Spreads the bits of a number over all 64.
std::uint64_t hash_of(std::uint64_t bits);

// The values that occur most (Misra and Gries): a count is at most lost() too small, and a value
// that is not here occurred lost() times at most.
class TopValues {
 public:
  static constexpr std::size_t kTracked = 128;
  static constexpr std::size_t kValueMax = 128;  // Bytes; longer ones are not counted.

  void add(std::string_view value, std::uint64_t weight);
  void merge(const TopValues& other);
  std::uint64_t lost() const { return lost_; }
  // By count, then by value.
  std::vector<std::pair<std::string, std::uint64_t>> most() const;
  void restore_lost(std::uint64_t lost) { lost_ = lost; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };
  void prune();

  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
  std::uint64_t lost_ = 0;
};

}  // namespace falaj::features
