// api/native/sign_in.h — how the console gets and gives back its session, and the first setup.
#pragma once

#include <vector>

#include "base/value.h"
#include "net/router.h"
#include "security/identity/identity.h"

namespace falaj::api {

std::vector<net::Route> sign_in_routes(security::Identity& identity);

// Who somebody is, for themselves.
Value principal_value(const security::Principal& principal);

}  // namespace falaj::api
