#include "features/internal/sketches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/hash.h"

namespace falaj::features {
namespace {

constexpr std::uint64_t kSign = 1ULL << 63;
constexpr std::size_t kSlotsFirst = 16;

// Ertl's estimator (2017) for registers without a bias at any size.
double sigma(double x) {
  if (x == 1) return std::numeric_limits<double>::infinity();
  double y = 1;
  double z = x;
  for (double before = -1; z != before; y += y) {
    x *= x;
    before = z;
    z += x * y;
  }
  return z;
}

double tau(double x) {
  if (x == 0 || x == 1) return 0;
  double y = 1;
  double z = 1 - x;
  for (double before = -1; z != before;) {
    x = std::sqrt(x);
    before = z;
    y *= 0.5;
    z -= (1 - x) * (1 - x) * y;
  }
  return z / 3;
}

}  // namespace

std::uint64_t place_of_number(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);  // −0 is 0.
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

double number_at(std::uint64_t place) {
  return std::bit_cast<double>((place & kSign) != 0 ? place ^ kSign : ~place);
}

std::uint64_t place_of_time(std::int64_t nanos) {
  return static_cast<std::uint64_t>(nanos) ^ kSign;
}

std::int64_t time_at(std::uint64_t place) { return static_cast<std::int64_t>(place ^ kSign); }

std::uint64_t hash_of(std::uint64_t bits) {
  bits ^= bits >> 30;
  bits *= 0xbf58476d1ce4e5b9;
  bits ^= bits >> 27;
  bits *= 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

std::size_t Spread::slot_of(std::uint64_t index) const {
  const std::size_t mask = slots_.size() - 1;
  // Neighbours in the line are neighbours in the table: the bins of one column are close together.
  std::size_t slot = (index ^ (index >> 9)) & mask;
  while (slots_[slot].count != 0 && slots_[slot].index != index) slot = (slot + 1) & mask;
  return slot;
}

void Spread::count(std::uint64_t index, std::uint64_t weight) {
  if (slots_.empty()) slots_.resize(kSlotsFirst);
  Bin& bin = slots_[slot_of(index)];
  const bool fresh = bin.count == 0;
  bin.index = index;
  bin.count += weight;
  total_ += weight;
  if (!fresh) return;
  ++used_;
  if (used_ > kBinsMax) {
    while (used_ > kBinsMax) rebuild(shift_ + 1, slots_.size());
  } else if (used_ * 2 > slots_.size()) {
    rebuild(shift_, slots_.size() * 2);
  }
}

void Spread::rebuild(unsigned shift, std::size_t slots) {
  std::vector<Bin> before(slots);
  before.swap(slots_);
  const unsigned wider = shift - shift_;
  shift_ = shift;
  used_ = 0;
  for (const Bin& bin : before) {
    if (bin.count == 0) continue;
    const std::uint64_t index = bin.index >> wider;
    Bin& into = slots_[slot_of(index)];
    used_ += into.count == 0 ? 1 : 0;
    into.index = index;
    into.count += bin.count;
  }
}

void Spread::add(std::uint64_t place, std::uint64_t weight) {
  if (weight > 0) count(place >> shift_, weight);
}

void Spread::merge(const Spread& other) {
  if (other.slots_.empty()) return;
  if (shift_ < other.shift_) {
    if (slots_.empty()) {
      shift_ = other.shift_;
    } else {
      rebuild(other.shift_, slots_.size());
    }
  }
  for (const Bin& bin : other.slots_) {
    if (bin.count > 0) add(bin.index << other.shift_, bin.count);
  }
}

std::vector<Spread::Bin> Spread::bins() const {
  std::vector<Bin> out;
  for (const Bin& bin : slots_) {
    if (bin.count > 0) out.push_back(bin);
  }
  std::sort(out.begin(), out.end(), [](const Bin& a, const Bin& b) { return a.index < b.index; });
  return out;
}

std::uint64_t Spread::quantile(double share) const {
  FALAJ_CHECK(total_ > 0);
  const double rank = share * static_cast<double>(total_);
  double before = 0;
  std::uint64_t last = 0;
  for (const Bin& bin : bins()) {
    const auto here = static_cast<double>(bin.count);
    last = bin.index << shift_;
    if (before + here >= rank) {
      const double within = std::clamp((rank - before) / here, 0.0, 0.999);
      return last + static_cast<std::uint64_t>(within * std::ldexp(1.0, static_cast<int>(shift_)));
    }
    before += here;
  }
  return last;
}

Result<Spread> Spread::restore(unsigned shift, const std::vector<Bin>& bins) {
  const Error bad(Code::kInvalidArgument, "bins that no values can have");
  if (shift > 63 || bins.size() > kBinsMax) return bad;
  Spread out(shift);
  std::uint64_t least = 0;
  for (const Bin& bin : bins) {
    const bool fits = bin.index >= least && bin.index <= (~std::uint64_t{0} >> shift);
    // Sums stay far from overflowing, also when many are merged.
    if (!fits || bin.count == 0 || bin.count >= (1ULL << 48)) return bad;
    least = bin.index + 1;
    out.count(bin.index, bin.count);
  }
  return out;
}

void Distinct::add(std::uint64_t hash) {
  const std::size_t place = hash >> (64 - kBits);
  const std::uint64_t rest = (hash << kBits) | (1ULL << (kBits - 1));
  const auto rank = static_cast<std::uint8_t>(std::countl_zero(rest) + 1);
  if (registers_[place] < rank) registers_[place] = rank;
}

void Distinct::merge(const Distinct& other) {
  for (std::size_t i = 0; i < kRegisters; ++i) {
    registers_[i] = std::max(registers_[i], other.registers_[i]);
  }
}

std::uint64_t Distinct::estimate() const {
  std::array<std::size_t, kRankMax + 1> counts{};
  for (const std::uint8_t rank : registers_) ++counts[rank];
  constexpr auto kM = static_cast<double>(kRegisters);
  if (counts[0] == kRegisters) return 0;
  double z = kM * tau(1 - static_cast<double>(counts[kRankMax]) / kM);
  for (std::size_t rank = kRankMax - 1; rank >= 1; --rank) {
    z = 0.5 * (z + static_cast<double>(counts[rank]));
  }
  z += kM * sigma(static_cast<double>(counts[0]) / kM);
  return static_cast<std::uint64_t>(std::llround(kM * kM / (2 * std::log(2.0) * z)));
}

Status Distinct::restore(std::size_t place, std::uint64_t rank) {
  if (place >= kRegisters || rank == 0 || rank > kRankMax) {
    return Error(Code::kInvalidArgument, "a register that no values can have");
  }
  registers_[place] = static_cast<std::uint8_t>(rank);
  return {};
}

std::size_t TopValues::Hash::operator()(std::string_view text) const { return hash64(text); }

void TopValues::add(std::string_view value, std::uint64_t weight) {
  if (value.size() > kValueMax || weight == 0) return;
  const auto found = counts_.find(value);
  if (found != counts_.end()) {
    found->second += weight;
    return;
  }
  counts_.emplace(value, weight);
  if (counts_.size() > 2 * kTracked) prune();
}

void TopValues::prune() {
  std::vector<std::uint64_t> counts;
  for (const auto& each : counts_) counts.push_back(each.second);
  std::nth_element(counts.begin(), counts.begin() + kTracked, counts.end(), std::greater<>());
  const std::uint64_t least = counts[kTracked];
  lost_ += least;
  for (auto each = counts_.begin(); each != counts_.end();) {
    if (each->second <= least) {
      each = counts_.erase(each);
    } else {
      (each++)->second -= least;
    }
  }
}

void TopValues::merge(const TopValues& other) {
  lost_ += other.lost_;
  // In one order, so that the same parts give the same whole.
  for (const auto& [value, count] : other.most()) add(value, count);
}

std::vector<std::pair<std::string, std::uint64_t>> TopValues::most() const {
  std::vector<std::pair<std::string, std::uint64_t>> out(counts_.begin(), counts_.end());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return out;
}

}  // namespace falaj::features
