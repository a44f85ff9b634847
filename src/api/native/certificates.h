// api/native/certificates.h — routes for the certificates of a deployment's processes.
#pragma once

#include <vector>

#include "net/router.h"
#include "security/certificates/certificates.h"

namespace falaj::api {

// `certificates` is null in `falaj dev`, where every route answers that there are none; otherwise
// it outlives the router.
std::vector<net::Route> certificate_routes(security::Certificates* certificates);

}  // namespace falaj::api
