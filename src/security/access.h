// security/access.h — may this principal do this? Its first form: one local developer on loopback.
//
// decide() is pure and is the only place that answers. Default deny: an action outside the table is
// refused whoever asks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "security/context.h"

namespace falaj::security {

struct ActionInfo {
  std::string_view action;   // "objects.write"
  std::string_view meaning;  // For the reference page.
};

// Every action a route may demand.
const std::vector<ActionInfo>& actions();

struct Decision {
  bool allowed = false;
  std::string reason;
};

struct AccessRequest {
  const Principal& principal;
  std::string_view action;
  bool loopback_peer = false;
};

// Public actions are allowed to anyone; the local developer ("user:dev") may do everything from a
// loopback address; all else is denied with the reason.
Decision decide(const AccessRequest& request);

}  // namespace falaj::security
