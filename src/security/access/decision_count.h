// security/access/decision_count.h — how much was decided: what a stranger asks must cost the same
// whether it is somebody's or nobody's, and tests count that.
#pragma once

#include <cstdint>

namespace falaj::security::access {

// Calls of Policies::decide() on this thread since it began. Costs an addition each.
std::uint64_t decisions_made();

}  // namespace falaj::security::access
