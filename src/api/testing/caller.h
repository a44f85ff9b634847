// api/testing/caller.h — a caller as the gate would set it, for tests of handlers.
#pragma once

#include <memory>

#include "api/caller.h"

namespace falaj::api::testing {

// The local developer, who may do everything; in the project that the gate found, if it did.
inline std::shared_ptr<const net::Caller> developer(std::optional<std::string> project = {}) {
  security::Principal principal;
  principal.kind = security::PrincipalKind::kUser;
  principal.id = "user:dev";
  CallerParts parts;
  parts.project = std::move(project);
  parts.principal = std::make_shared<const security::Principal>(std::move(principal));
  parts.again = [](net::Request&) { return Status(); };
  parts.policies = std::make_shared<const security::access::Policies>(
      security::access::PolicyInput{{security::access::local_developer()}, {}, {}});
  return make_caller(std::move(parts));
}

}  // namespace falaj::api::testing
