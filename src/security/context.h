// security/context.h — who asks, for which project, from where and until when: the first argument
// of every service call.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "base/zone.h"

namespace falaj::security {

enum class PrincipalKind : std::uint8_t { kUser, kService, kSystem };

struct Principal {
  PrincipalKind kind = PrincipalKind::kUser;
  std::string name;  // "user:dev", "service:loop"
};

struct RequestContext {
  Principal principal;
  ProjectName project;
  Zone zone;
  Timestamp deadline = Timestamp::max();
  std::string request_id;
  std::string traceparent;
};

// For work the platform starts by itself: `actor` such as "service:loop".
RequestContext system_context(std::string actor, ProjectName project, Zone zone);

}  // namespace falaj::security
