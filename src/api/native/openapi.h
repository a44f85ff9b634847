// api/native/openapi.h — the routes as an OpenAPI 3.1 document, from their declarations.
#pragma once

#include <string>

#include "base/value.h"
#include "net/router.h"

namespace falaj::api {

// Every declared route but the console's files. `x-permission` names what a caller needs.
Value openapi_document(const net::Router& router, const std::string& version);

}  // namespace falaj::api
