// serving/rollout/assignment.h — which arm a unit belongs to: the same on every machine, for ever.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace falaj::serving::rollout {

// What a unit (a customer, a card, a request) is known by. Every rollout has a salt of its own, so
// that who met the last candidate is not who meets the next.
inline std::uint64_t unit_of(std::string_view unit, std::uint64_t salt) {
  return hash64(unit, salt);
}

// Where it stands in [0, 1): the upper 53 bits, what a double holds exactly.
inline double place_of(std::uint64_t unit) { return static_cast<double>(unit >> 11) * 0x1p-53; }

// The candidate has the places below its share: while the share grows, whoever had the candidate
// keeps it.
inline bool meets_candidate(double place, double share) { return place < share; }

}  // namespace falaj::serving::rollout
