// api/native/proofs.h — routes for those who check: signed heads, proofs, witnesses and evidence.
#pragma once

#include <vector>

#include "net/router.h"
#include "security/audit/heads.h"
#include "security/evidence/evidence.h"

namespace falaj::api {

// Both outlive the router; so does the clock.
struct ProofServices {
  security::Heads& heads;
  security::EvidenceDesk& evidence;
  const Clock& clock;
};
std::vector<net::Route> proof_routes(const ProofServices& services);

}  // namespace falaj::api
