// app/residency_gate.h — the serve and export exits: asked before a handler runs, counted when the
// socket took the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "net/router.h"
#include "security/access/policies.h"
#include "security/context.h"
#include "security/residency/exits.h"

namespace falaj::app {

struct Entrant {
  const net::Route& route;
  const net::Request& request;
  security::access::ObjectRef object;  // That the gate found; its project is "" for none.
  const security::Principal& principal;
};

// Whether what the object's project holds may go where the caller is. FJ-7031 and its kin
// otherwise. What comes back counts the reply's bytes in the ledger; it is empty for requests about
// no project. Never blocks.
Result<std::function<void(std::size_t)>> admit(security::residency::Exits& exits,
                                               const Entrant& entrant);

// One row of a list that is of several projects'.
struct Row {
  const std::string& project;
  const std::string& object;  // "FeatureView/x"; "" for the project as a whole.
};

// Why that row may not go to this caller, in words; "" when it may. Counts nothing: a list of names
// is no flow of data. Never blocks.
std::string out_of_reach(const security::residency::Exits& exits, const Row& row,
                         const security::Principal& principal, const std::string& peer);

}  // namespace falaj::app
