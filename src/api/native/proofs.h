// api/native/proofs.h — routes for those who check: signed heads, proofs, witnesses and evidence.
#pragma once

#include <vector>

#include "net/router.h"
#include "security/audit/heads.h"
#include "security/evidence/evidence.h"
#include "security/residency/exits.h"

namespace falaj::api {

// All of them outlive the router.
struct ProofServices {
  security::Heads& heads;
  security::EvidenceDesk& evidence;
  // A bundle holds what every project did: it leaves only for where each of them may go.
  security::residency::Exits& exits;
  const Clock& clock;
};
std::vector<net::Route> proof_routes(const ProofServices& services);

}  // namespace falaj::api
