// api/caller.h — who asks, from the gate to the handlers.
//
// The gate puts a caller into the request once; handlers read it. `net` carries it unread.
#pragma once

#include <memory>

#include "net/http.h"
#include "security/context.h"

namespace falaj::api {

// What the gate puts into net::Request::caller. `principal` is not null.
std::shared_ptr<const net::Caller> make_caller(security::PrincipalPtr principal);

// Who asks; nobody when no gate ran. Valid as long as the request.
const security::Principal& principal_of(const net::Request& request);

}  // namespace falaj::api
