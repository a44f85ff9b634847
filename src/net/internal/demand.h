// net/internal/demand.h — what every declaration is held to, of a route and of a gRPC method.
#pragma once

#include "net/router.h"

namespace falaj::net {

// Stops the process when the permission is malformed, or is everyone's while the target is
// somebody's, or the other way round: a programming error.
void check_demand(const Route& declared);

}  // namespace falaj::net
