#include "api/request_id.h"

#include "security/audit/request_ids.h"

namespace falaj::api {

std::string carried_id(const net::Request& request) {
  // Messages of a stream are numbered behind the id of their call. What the server made in the
  // place of an id that it did not take over begins otherwise: that one is longer than any, or has
  // a character that none has.
  const std::string_view sent = net::find_header(request.headers, "X-Request-Id");
  if (sent.empty() || !request.request_id.starts_with(sent)) return request.request_id;
  return security::carry_chosen_id(request.principal, request.request_id);
}

}  // namespace falaj::api
