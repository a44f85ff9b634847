// security/access/grants.h — Grant and Group as people declare them.
//
//   kind: Grant
//   metadata: {name: risk-editors}
//   spec:
//     to: [group:risk, user:alice, service:scorer]   # or everyone
//     role: editor                  # or actions: [serving.predict, "jobs.*"]
//     on: {project: payments}       # or platform; kind, name and labels narrow it
//     effect: permit                # or forbid, which beats every permit
//     expires: 2026-12-31T00:00:00Z
//
//   kind: Group
//   metadata: {name: risk}
//   spec: {members: [user:alice, service:scorer, group:risk-leads], zone: ae-fin}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/zone.h"
#include "security/access/roles.h"
#include "storage/objects.h"

namespace falaj::security::access {

using Labels = std::vector<std::pair<std::string, std::string>>;  // Sorted by key.
// FJ-1005 when a label is no text.
Result<Labels> labels_of(const Value& labels, const std::string& where);

// What a rule covers: every part that is given must agree. All empty: the platform and all in it.
struct Extent {
  std::string project;  // "": every project, and what stands above them.
  std::string kind;     // "": every kind.
  std::string name;     // "": every name; needs a kind.
  Labels labels;        // All of them must stand on the object.
  bool operator==(const Extent&) const = default;
};
std::string to_string(const Extent& extent);  // "project payments, kind Deployment"

enum class Effect : std::uint8_t { kPermit, kForbid };

struct Grant {
  std::string name;
  Effect effect = Effect::kPermit;
  std::vector<std::string> to;  // "user:alice", "user:u_…", "group:risk", "service:…", "everyone"
  std::optional<Role> role;     // Of `role:`; absent with `actions:`.
  ActionSet actions;
  Extent on;
  Timestamp expires = Timestamp::max();
  // A use of it needs a stated reason and alerts.
  bool breaks_glass() const { return role == Role::kBreakGlass; }
};

struct Group {
  std::string name;
  std::vector<std::string> members;  // "user:…", "service:…", "group:…"
  // Where its members are, unless they have a zone of their own; may be unlabelled.
  Zone zone = {};
};

inline constexpr std::string_view kEveryone = "everyone";  // Every known caller.

// Strict. FJ-1004 without `to`, `on`, or one of `role` and `actions`; FJ-1006 for an unknown role,
// action or subject.
Result<Grant> decode_grant(const storage::Object& object);
Result<Group> decode_group(const storage::Object& object);

// Whether a declared Grant or Group names this subject, in these very words. One that cannot be
// read counts as if it did.
Result<bool> names_subject(storage::SqlTransaction& tx, const std::string& subject);

// Grant and Group, for the catalog. Both stand above projects.
std::vector<storage::KindInfo> kinds();

// The grant that makes `subject` an administrator of everything.
storage::Object administrator_grant(std::string_view name, std::string_view subject);

}  // namespace falaj::security::access
