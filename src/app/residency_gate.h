// app/residency_gate.h — the serve and export exits: asked before a handler runs, counted when the
// socket took the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "net/router.h"
#include "security/context.h"
#include "security/residency/exits.h"

namespace falaj::app {

struct Entrant {
  const net::Route& route;
  const net::Request& request;
  const std::string& project;  // That the gate found; "" for none.
  const security::Principal& principal;
};

// Whether what that project holds may go where the caller is. FJ-7031 and its kin otherwise. What
// comes back counts the reply's bytes in the ledger; it is empty for requests about no project.
// Never blocks.
Result<std::function<void(std::size_t)>> admit(security::residency::Exits& exits,
                                               const Entrant& entrant);

// Whether rows about that project may go to this caller, in a list of several projects' rows.
// Counts nothing: a list of names is no flow of data. Never blocks.
bool may_reach(const security::residency::Exits& exits, const std::string& project,
               const security::Principal& principal, const std::string& peer);

}  // namespace falaj::app
