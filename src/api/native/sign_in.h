// api/native/sign_in.h — how the console gets and gives back its session, and the first setup.
#pragma once

#include <functional>
#include <vector>

#include "base/value.h"
#include "net/router.h"
#include "security/identity/identity.h"

namespace falaj::api {

// Where somebody is, by his groups too (Policies::zone_of): no gate has said so before these
// routes.
using ZoneOf = std::function<Zone(const security::Principal& principal)>;

std::vector<net::Route> sign_in_routes(security::Identity& identity, const ZoneOf& zone_of);

// Who somebody is, for themselves.
Value principal_value(const security::Principal& principal);

}  // namespace falaj::api
