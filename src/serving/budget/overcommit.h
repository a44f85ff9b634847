// serving/budget/overcommit.h — which models leave when another needs their memory, and which comes
// back when there is some: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"

namespace falaj::serving::budget {

// Used within this time, a model is at work and does not leave.
inline constexpr Duration kAtWork = Duration::seconds(1);

// A model that may be unloaded for another.
struct Loaded {
  std::int64_t bytes = 0;
  Timestamp used{};  // Last.
};
// Those to unload so that `missing` bytes are given back: what was used longest ago first, of
// equals the first in the list. Empty when all of them together would not do: then none leaves in
// vain.
std::vector<std::size_t> to_unload(std::span<const Loaded> loaded, std::int64_t missing,
                                   Timestamp now);

// A model that left, or never came, for want of memory, and comes back when somebody asks.
struct Resting {
  std::int64_t bytes = 0;  // That it will need.
  Timestamp used{};        // Last; 1970: never.
  // kMoved: another version is wanted than the one that left, so somebody is about to look at it.
  enum class Wanted : std::uint8_t { kSame, kMoved } wanted = Wanted::kSame;
};
// The one to load before anybody asks, into memory that nobody has: of those that fit one that
// moved, else the one used last; of equals the first in the list.
std::optional<std::size_t> to_prefetch(std::span<const Resting> resting, std::int64_t free);

}  // namespace falaj::serving::budget
