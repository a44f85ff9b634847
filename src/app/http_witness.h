// app/http_witness.h — another Falaj as the witness of this one's audit log.
#pragma once

#include <memory>

#include "app/peer.h"
#include "security/audit/heads.h"

namespace falaj::app {

// Asks `peer` over its routes /api/v1/witness; each call makes a connection and waits five seconds
// at most. Refusals are FJ-7054 with the witness's words. `peer` outlives it.
std::unique_ptr<security::Witness> make_http_witness(const Peer& peer);

}  // namespace falaj::app
