// api/native/identity.h — the routes of who asks: sign-in, setup, users, services, tokens,
// sessions.
#pragma once

#include <vector>

#include "api/native/sign_in.h"
#include "net/router.h"
#include "security/identity/identity.h"

namespace falaj::api {

// `identity` and `clock` outlive the router.
std::vector<net::Route> identity_routes(security::Identity& identity, const Clock& clock,
                                        const ZoneOf& zone_of);

// What a request shows; views into it.
security::Credentials credentials_of(const net::Request& request);

}  // namespace falaj::api
