// serving/isolated/lane.h — whole frames over a socket, no later than a moment.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::serving::isolated {

// Of monotonic_nanos(): the moment after which nobody waits.
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Sends all of it. kUnavailable when the other side has gone, kDeadlineExceeded when it does not
// take it in time. The socket must not block.
Status send_frame(int socket, std::string_view frame, std::int64_t until);

// The body of the next frame; as above, and kInvalidArgument when the frame is over the limit.
Result<std::string> receive_frame(int socket, std::int64_t until);

}  // namespace falaj::serving::isolated
