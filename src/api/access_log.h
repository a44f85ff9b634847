// api/access_log.h — one line of log for every answered request, by the setting log.requests.
#pragma once

#include "net/answered.h"

namespace falaj::api {

// Says "request" at level info, with: project, who (the kind of caller: user, service, job, nobody,
// system), method, route, status, code, ms, bytes_in, bytes_out, request_id, trace_id. Nothing of
// what was asked or answered, nor who asked: no path, query, address or principal, and of a request
// id that the caller chose the server's own for it. The project
// makes the line pass the log exit of residency (app/zoned_log.h); it is empty of callers
// who are nobody or were refused: what they name need not be one.
net::OnAnswered access_log();

}  // namespace falaj::api
