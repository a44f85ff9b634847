// security/audit/request_ids.h — under which id the audit log knows a request.
//
// A caller may choose the id of its request (X-Request-Id): it is answered under it and asks about
// a denial by it. But what a caller chose may be anything, a person's name or number too, and the
// log forgets nothing. So an entry bears an id of ours in its place, and the caller's as a salted
// commitment, "request_id" of its detail, whose text can be opened and erased (security/audit.h).
#pragma once

#include <string>
#include <string_view>

namespace falaj::security {

// What a RequestContext carries for a request whose id its caller chose: ours for it and, behind a
// blank, theirs. Ours is the same for all entries of one request, says nothing of what was chosen,
// and is another after a restart. An id that the server made is carried as it is.
std::string carry_chosen_id(std::string_view principal, std::string_view chosen);

struct RequestIds {
  std::string_view ours;
  std::string_view chosen;  // "" when the server made the id.

  // As the caller knows it.
  std::string_view told() const { return chosen.empty() ? ours : chosen; }
};
// Views into `carried`.
RequestIds request_ids_of(std::string_view carried);

}  // namespace falaj::security
