// scheduler/simulate/random.h — chance that is the same on every machine, from a seed.
//
// The standard's engines are specified to the bit, its distributions are not; so those are here.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace falaj::scheduler::simulate {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  // In [0, bound); the bias of the remainder is under bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  double normal() {  // Box and Muller; the second of the pair is not kept.
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace falaj::scheduler::simulate
