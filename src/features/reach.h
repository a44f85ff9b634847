// features/reach.h — what the rows of a commit are for.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace falaj::features {

// kOnline rows are never in training sets, kOffline ones are never read online.
enum class Reach : std::uint8_t { kBoth, kOnline, kOffline };
std::string_view reach_name(Reach reach);  // "both", "online", "offline"
// Takes "online_and_offline" for both too. FJ-1006 otherwise.
Result<Reach> parse_reach(std::string_view name);

}  // namespace falaj::features
