// security/access/roles.h — what can be done (actions), and the named bundles of it (roles).
//
// An action is what a route demands; the table below is the only list of them. Sets of actions are
// one machine word, so that a decision costs a few comparisons and no allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::security::access {

struct ActionInfo {
  std::string_view action;   // "objects.write"
  std::string_view meaning;  // For the reference page.
};

// Every action a route may demand; at most 64. The order is stable within one build only.
const std::vector<ActionInfo>& actions();
// Its place in the table; nullopt when there is no such action.
std::optional<unsigned> action_index(std::string_view action);

// Some of the actions.
class ActionSet {
 public:
  constexpr ActionSet() = default;
  static ActionSet all();
  static ActionSet one(unsigned index) { return ActionSet(std::uint64_t{1} << index); }
  // Of a name, or of a prefix that ends in ".*"; "*" is all but the public ones. FJ-1006 with the
  // nearest action when none is meant.
  static Result<ActionSet> matching(std::string_view pattern);
  // The same of what a scope may name: also the own actions, which no grant gives.
  static Result<ActionSet> scoped(std::string_view pattern);

  bool contains(unsigned index) const { return (bits_ >> index & 1) != 0; }
  bool contains_all(ActionSet other) const { return (other.bits_ & ~bits_) == 0; }
  bool empty() const { return bits_ == 0; }
  ActionSet operator|(ActionSet other) const { return ActionSet(bits_ | other.bits_); }
  ActionSet operator&(ActionSet other) const { return ActionSet(bits_ & other.bits_); }
  ActionSet without(ActionSet other) const { return ActionSet(bits_ & ~other.bits_); }
  ActionSet& operator|=(ActionSet other) { return *this = *this | other; }
  bool operator==(const ActionSet&) const = default;
  std::vector<std::string_view> names() const;

 private:
  explicit constexpr ActionSet(std::uint64_t bits) : bits_(bits) {}
  static Result<ActionSet> among(ActionSet all, std::string_view pattern);
  std::uint64_t bits_ = 0;
};

enum class Role : std::uint8_t {
  kViewer,      // Reads declarations, runs, models, monitors.
  kEditor,      // Builds: declares, ingests, trains, registers, predicts.
  kApprover,    // Decides what serves and what may cross a border; builds nothing.
  kOperator,    // Keeps it running: jobs, loop, metrics.
  kAuditor,     // Reads evidence, and no data.
  kAdmin,       // Everything, grants and users included.
  kBreakGlass,  // Everything, in an emergency: each use needs a reason and alerts.
};

struct RoleInfo {
  Role role;
  std::string_view name;     // "break-glass"
  std::string_view meaning;  // For the reference page.
};
const std::vector<RoleInfo>& roles();
std::string_view role_name(Role role);
// FJ-1006 with the nearest role when there is none.
Result<Role> parse_role(std::string_view name);
ActionSet actions_of(Role role);

// Allowed to everybody, and to every known caller: no grant is needed, and none can give them.
// "account.use" is not narrowed by a credential's scopes; the other own actions are.
ActionSet public_actions();
ActionSet own_actions();
// All that a job's own identity can be scoped to: work on data, nothing that governs.
ActionSet job_actions();

}  // namespace falaj::security::access
