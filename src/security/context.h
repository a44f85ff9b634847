// security/context.h — who asks, for which project, from where and until when: the first argument
// of every service call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/zone.h"

namespace falaj::security {

enum class PrincipalKind : std::uint8_t {
  kNobody,   // No credential was shown: public actions only.
  kUser,     // A person: local or from the identity provider.
  kService,  // A named program of the customer, or a process of this deployment (mutual TLS).
  kJob,      // One job, for as long as it runs: its scopes are all it may do.
  kSystem,   // The platform itself: "service:loop".
};

// A part of what a credential may be used for. Scopes only narrow what grants allow.
//
//   "serving.predict"                            that action, everywhere
//   "objects.*"                                  every action that begins so
//   "*@payments"                                 everything, in one project
//   "features.read@payments/TrainingSet/fraud"   one action on one object
struct Scope {
  std::string action;   // Exact, or a prefix that ends in ".*", or "*".
  std::string project;  // "" for every project.
  std::string object;   // "Kind/name" in that project; "" for every object.

  bool operator==(const Scope&) const = default;
};

// FJ-1006 with the text when it is no scope.
Result<Scope> parse_scope(std::string_view text);
std::string to_string(const Scope& scope);

struct Principal {
  PrincipalKind kind = PrincipalKind::kNobody;
  // Opaque and permanent; what the audit log and grants hold: "user:dev", "user:u_k3f9…",
  // "service:s_…", "job:01J…", "service:loop". A token is no principal: it acts as its user.
  std::string id{};
  std::string name{};  // For people: "alice". Personal: never in the audit log.
  std::vector<std::string>
      groups{};  // From the identity provider, sorted. Group objects add others.
  // What the credential is limited to. Absent: all that the principal's grants allow; empty:
  // nothing.
  std::optional<std::vector<Scope>> scopes{};
  std::string credential{};  // Which one was shown: "token:k3f9…", "session:…", "password", "oidc".
  Timestamp expires = Timestamp::max();  // When that credential ends.
  Zone zone{};  // Where this caller is, as declared for it; unlabelled: nobody said.
};

// Shared, because a snapshot hands the same one to every request of a token.
using PrincipalPtr = std::shared_ptr<const Principal>;

// True unless the principal's credential is limited and no scope covers this. `project` and
// `object` ("Kind/name") are "" when the action has none. Pure; a few comparisons per scope.
bool within_scopes(const Principal& principal, std::string_view action, std::string_view project,
                   std::string_view object);

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
