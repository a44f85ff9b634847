// net/internal/request_log.h — one line of log for each answered request.
#pragma once

#include <cstdint>

#include "net/router.h"

namespace falaj::net {

// Warns "request failed" of every status from 500 on; says "request answered" of the others at
// level debug. The route is its pattern, never the path: a path may hold an entity's id. Cost: two
// atomic loads when nobody listens to the level.
void log_answer(const Route* route, const Request& request, const Response& response,
                std::int64_t nanos);

}  // namespace falaj::net
