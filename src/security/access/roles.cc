#include "security/access/roles.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/check.h"
#include "base/decode.h"

namespace falaj::security::access {
namespace {

constexpr std::size_t kActionsMax = 64;

// By name only: a typo here stops the program at its first decision, in every test.
ActionSet named(std::initializer_list<std::string_view> names) {
  ActionSet set;
  for (const std::string_view name : names) {
    const std::optional<unsigned> index = action_index(name);
    FALAJ_CHECK(index.has_value());
    set |= ActionSet::one(*index);
  }
  return set;
}

ActionSet everything_granted() {
  return ActionSet::all().without(public_actions() | own_actions());
}

std::array<ActionSet, 7> role_table() {
  const ActionSet read = named({"objects.read", "features.read", "models.read", "monitoring.read",
                                "jobs.read", "residency.read"});
  std::array<ActionSet, 7> table;
  const auto at = [&](Role role) -> ActionSet& { return table[static_cast<std::size_t>(role)]; };
  at(Role::kViewer) = read;
  at(Role::kEditor) =
      read | named({"objects.write", "data.ingest", "data.read", "training.run", "models.write",
                    "serving.predict", "jobs.submit", "jobs.cancel"});
  at(Role::kApprover) = read | named({"models.promote", "transfers.approve", "access.read"});
  at(Role::kOperator) = read | named({"jobs.cancel", "system.read", "models.promote",
                                      "serving.predict", "keys.read", "keys.rotate"});
  at(Role::kAuditor) = named({"objects.read", "models.read", "monitoring.read", "jobs.read",
                              "residency.read", "audit.read", "audit.verify", "audit.export",
                              "access.read", "identity.read", "keys.read"});
  at(Role::kAdmin) = everything_granted();
  at(Role::kBreakGlass) = everything_granted();
  return table;
}

}  // namespace

const std::vector<ActionInfo>& actions() {
  static const std::vector<ActionInfo> kActions{
      {"public.read",
       "Health, sign-in, public keys and the console's files: answers that hold nobody's data"},
      {"account.use",
       "What every known caller may do: ask who they are, what they may do and what the server is"},
      {"account.manage", "What every known caller may do to their own account: tokens, sessions"},
      {"objects.read", "Read declared objects and their history"},
      {"objects.write", "Apply and delete declared objects"},
      {"data.ingest", "Add rows to a source or feature view"},
      {"data.read", "Read rows: quarantined, exported, downloaded"},
      {"data.export", "Take frozen training sets and model files out of the server"},
      {"features.read", "Read statistics of features and manifests of training sets"},
      {"training.run", "Freeze training sets and start training jobs"},
      {"models.read", "Read runs, models, versions and aliases"},
      {"models.write", "Register model versions"},
      {"models.promote", "Move aliases: decide which version serves"},
      {"serving.predict", "Ask a deployment or model for predictions"},
      {"monitoring.read", "Read profiles, drift and alarms"},
      {"jobs.read", "Read jobs and their logs"},
      {"jobs.submit", "Submit commands that run as jobs on this machine"},
      {"jobs.cancel", "Cancel jobs"},
      {"residency.read", "Read zones, transfers and the byte ledger"},
      {"transfers.approve", "Approve that bytes cross from one zone to another"},
      {"audit.read", "Read the audit log"},
      {"audit.verify", "Recompute the audit log's hashes and decisions"},
      {"audit.export", "Export evidence for a reader outside"},
      {"audit.witness", "Have another log's heads cosigned here"},
      {"access.read", "Read who may do what, and why something was denied"},
      {"access.write", "Declare grants and groups"},
      {"identity.read", "Read users, services, tokens and sessions"},
      {"identity.write", "Create, change and revoke users, services and tokens"},
      {"keys.read", "Read the inventory of keys (never the keys)"},
      {"keys.rotate", "Rotate keys and refuse old versions"},
      {"keys.shred", "Destroy the key of an object or a person: its data is gone"},
      {"system.read", "Read settings, metrics and the state of the server"},
  };
  return kActions;
}

std::optional<unsigned> action_index(std::string_view action) {
  static const auto kIndex = [] {
    FALAJ_CHECK(actions().size() <= kActionsMax);
    std::unordered_map<std::string_view, unsigned> index;
    for (const ActionInfo& info : actions()) {
      index.emplace(info.action, static_cast<unsigned>(index.size()));
    }
    FALAJ_CHECK(index.size() == actions().size());
    return index;
  }();
  const auto found = kIndex.find(action);
  if (found == kIndex.end()) return std::nullopt;
  return found->second;
}

ActionSet ActionSet::all() {
  return ActionSet(~std::uint64_t{0} >> (kActionsMax - actions().size()));
}

Result<ActionSet> ActionSet::matching(std::string_view pattern) {
  return among(everything_granted(), pattern);
}

Result<ActionSet> ActionSet::scoped(std::string_view pattern) {
  return among(everything_granted() | own_actions(), pattern);
}

Result<ActionSet> ActionSet::among(ActionSet all, std::string_view pattern) {
  if (pattern == "*") return all;
  ActionSet set;
  const bool prefix = pattern.ends_with(".*");
  const std::string_view stem = pattern.substr(0, pattern.size() - (prefix ? 1 : 0));
  std::vector<std::string> names;
  for (unsigned i = 0; i < actions().size(); ++i) {
    const std::string_view name = actions()[i].action;
    if (prefix ? name.starts_with(stem) : name == stem) set |= one(i);
    names.emplace_back(name);
  }
  set = set & all;
  if (!set.empty()) return set;
  const std::string near = nearest_name(pattern, names);
  return Error{ErrorId::kOutOfRange, "there is no action '" + std::string(pattern) + "' to grant" +
                                         (near.empty() ? "" : "; did you mean " + near + "?")};
}

std::vector<std::string_view> ActionSet::names() const {
  std::vector<std::string_view> names;
  for (unsigned i = 0; i < actions().size(); ++i) {
    if (contains(i)) names.push_back(actions()[i].action);
  }
  return names;
}

const std::vector<RoleInfo>& roles() {
  static const std::vector<RoleInfo> kRoles{
      {Role::kViewer, "viewer", "Reads declarations, runs, models and monitors"},
      {Role::kEditor, "editor", "Builds: declares, ingests, trains, registers, predicts"},
      {Role::kApprover, "approver",
       "Decides which version serves and what may cross a border; builds nothing"},
      {Role::kOperator, "operator", "Keeps it running: jobs, the loop, promotions, metrics, keys"},
      {Role::kAuditor, "auditor", "Reads evidence: audit, grants, users, keys; no data"},
      {Role::kAdmin, "admin", "Everything, grants and users included"},
      {Role::kBreakGlass, "break-glass",
       "Everything, in an emergency: each use needs a reason and alerts"},
  };
  return kRoles;
}

std::string_view role_name(Role role) {
  for (const RoleInfo& info : roles()) {
    if (info.role == role) return info.name;
  }
  return "";
}

Result<Role> parse_role(std::string_view name) {
  std::vector<std::string> names;
  for (const RoleInfo& info : roles()) {
    if (info.name == name) return info.role;
    names.emplace_back(info.name);
  }
  const std::string near = nearest_name(name, names);
  return Error{ErrorId::kOutOfRange, "there is no role '" + std::string(name) + "'" +
                                         (near.empty() ? "" : "; did you mean " + near + "?")};
}

ActionSet actions_of(Role role) {
  static const std::array<ActionSet, 7> kTable = role_table();
  return kTable[static_cast<std::size_t>(role)];
}

ActionSet public_actions() {
  static const ActionSet kSet = named({"public.read"});
  return kSet;
}

ActionSet own_actions() {
  static const ActionSet kSet = named({"account.use", "account.manage"});
  return kSet;
}

ActionSet job_actions() { return actions_of(Role::kEditor); }

}  // namespace falaj::security::access
