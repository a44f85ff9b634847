// api/request_id.h — the id of a request as its context and its denials carry it to the audit log.
#pragma once

#include <string>

#include "net/http.h"

namespace falaj::api {

// request.request_id, unless the caller chose it: then as security/audit/request_ids.h says. After
// the gate, which knows who asks.
std::string carried_id(const net::Request& request);

}  // namespace falaj::api
