// security/access/matrix.h — who may do what, as a table for a reader outside.
//
// Every cell is one answer of Policies::decide(), with the grant that decided. Beside the cells
// stand the declared grants, groups and roles, so that whoever doubts a cell can decide it again:
// falaj-verify does. Pure: the same input, the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "security/access/policies.h"
#include "storage/objects.h"

namespace falaj::security::access {

// All of one moment.
struct MatrixInput {
  std::vector<storage::Object> grants;  // As declared.
  std::vector<storage::Object> groups;
  std::vector<std::string> projects;
  std::vector<Grant> built_in;
  struct Account {
    std::string id;  // "user:u_…"
    enum class State : std::uint8_t { kActive, kDisabled } state = State::kActive;
  };
  std::vector<Account> accounts;
  // As AccessOptions::resolve; asked once for each name.
  std::function<std::optional<std::string>(const std::string& subject)> resolve;
};

// What does not fit is counted under `left_out`, never dropped in silence.
struct MatrixLimits {
  std::size_t places = 1'000;
  std::size_t rows = 100'000;    // Principals times places.
  std::size_t outcomes = 2'000;  // Rows that differ.
};

// {roles: {role: [action]}, grants, groups, built_in, decisions: {at, places, principals: [{id,
// named, state, outcomes: [number of the outcome at each place]}], outcomes: {number: {action:
// "allow permitted GRANT"}}, left_out}}.
//
// Principals are opaque ids, `everyone`, groups, and whoever else a grant names; `named` holds the
// names under which the grants know them, and no others; `state` is active, disabled, or unknown
// for a name that no account has. Places are the platform, each project as a whole, and each
// narrower extent that a grant names. Decided as for a credential without scopes, without a stated
// reason, and without groups that only the identity provider knows: a group's own row says what
// those give. Actions that no grant gives or takes are left out. FJ-1xxx when a grant cannot be
// read.
Result<Value> access_matrix(const MatrixInput& input, Timestamp now,
                            const MatrixLimits& limits = {});

}  // namespace falaj::security::access
