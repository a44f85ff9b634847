#include "security/access.h"

#include <algorithm>

namespace falaj::security {
namespace {

constexpr std::string_view kLocalDeveloper = "user:dev";

bool is_declared(std::string_view action) {
  return std::ranges::any_of(actions(),
                             [&](const ActionInfo& info) { return info.action == action; });
}

bool is_public(std::string_view action) { return action.starts_with("public."); }

}  // namespace

const std::vector<ActionInfo>& actions() {
  static const std::vector<ActionInfo> kActions{
      {"public.read", "Health, version and other answers that hold nobody's data"},
      {"account.use", "What every known caller may do: ask who they are and what they may do"},
      {"account.manage", "What every known caller may do to their own account: tokens, sessions"},
      {"objects.read", "Read declared objects and their history"},
      {"objects.write", "Apply and delete declared objects"},
      {"data.ingest", "Add rows to a source or feature view"},
      {"features.read", "Read features online and freeze training sets"},
      {"training.run", "Start training jobs"},
      {"models.read", "Read runs, models, versions and aliases"},
      {"models.write", "Register model versions"},
      {"models.promote", "Move aliases: decide which version serves"},
      {"serving.predict", "Ask a deployment or model for predictions"},
      {"monitoring.read", "Read profiles, drift and alarms"},
      {"loop.run", "Start a round of the retraining loop"},
      {"audit.read", "Read the audit log"},
      {"audit.verify", "Recompute the audit log's hashes"},
      {"jobs.read", "Read jobs and their logs"},
      {"jobs.cancel", "Cancel jobs"},
      {"identity.write", "Create, change and revoke users, services and tokens"},
      {"keys.read", "Read the inventory of keys (never the keys)"},
      {"keys.rotate", "Rotate keys and refuse old versions"},
      {"keys.shred", "Destroy the key of an object or a person: its data is gone"},
      {"system.read", "Read settings, metrics and the state of the server"},
  };
  return kActions;
}

Decision decide(const AccessRequest& request) {
  const std::string action(request.action);
  if (!is_declared(request.action)) {
    return {false, "the action \"" + action + "\" is not declared"};
  }
  if (is_public(request.action)) return {true, "\"" + action + "\" is public"};
  const Principal& principal = request.principal;
  if (principal.kind != PrincipalKind::kUser || principal.id != kLocalDeveloper) {
    return {false, (principal.id.empty() ? "an unnamed caller" : principal.id) +
                       " has no grant for \"" + action + "\""};
  }
  if (!request.loopback_peer) {
    return {false, "the local developer may only connect from this machine (loopback)"};
  }
  return {true, "the local developer on loopback may do everything"};
}

}  // namespace falaj::security
