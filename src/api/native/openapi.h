// api/native/openapi.h — the routes as an OpenAPI 3.1 document, from their declarations.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "net/grpc_server.h"
#include "net/router.h"

namespace falaj::api {

// Every declared route but the console's files. `x-permission` names what a caller needs,
// `x-target` on what. `x-grpc` lists the gRPC methods, of which OpenAPI knows nothing: once for
// each demand.
Value openapi_document(const net::Router& router, const std::vector<net::GrpcMethod>& methods,
                       const std::string& version);

}  // namespace falaj::api
