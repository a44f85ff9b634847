// security/access/policies.h — the one decision: may this principal do this to that?
//
// Policies is everything that the answer depends on, besides the question: grants, groups and the
// labels of objects, compiled. It is immutable; the service (access.h) publishes a new one when
// something was applied. The semantics, in the order in which they are asked:
//
//   1. a public action is allowed to anyone; whoever is not known may do nothing else
//   2. a matching forbid denies, whatever else permits
//   3. what the credential's scopes leave out is denied
//   4. a matching permit allows; for a job, its scopes are the permit
//   5. a matching break-glass permit allows when a reason is stated
//   6. everything else is denied
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "security/access/grants.h"
#include "security/context.h"

namespace falaj::security::access {

// What an action is done to. Views: the caller's texts outlive the call.
struct ObjectRef {
  std::string_view project;        // "": what stands above projects.
  std::string_view kind;           // "": the project (or platform) as a whole.
  std::string_view name;           // "": that kind as a whole.
  const Labels* labels = nullptr;  // null: none, or see Policies::labels().
};
std::string to_string(const ObjectRef& object);  // "FeatureView 'a' of project 'payments'"

struct AccessRequest {
  const Principal& principal;
  std::string_view action;
  ObjectRef object;
  Timestamp now;
  std::string_view reason;  // Why a break-glass grant is used; "" when none was stated.
};

enum class Because : std::uint8_t {
  kPublic,         // Anyone may.
  kOwn,            // Every known caller may.
  kPermitted,      // `rule` permits it.
  kJobScope,       // One of the job's scopes names it.
  kBrokeGlass,     // `rule` permits it, as an emergency.
  kUnknownAction,  // No such action is declared.
  kNobody,         // The caller is not known.
  kExpired,        // The credential has ended.
  kForbidden,      // `rule` forbids it.
  kOutOfScope,     // The credential is limited to other things.
  kReasonMissing,  // `rule` would permit it with a reason.
  kNoPermit,       // Nothing permits it.
  // Never of decide(): the action is allowed, but not to this end (may_change, may_regroup, what a
  // limited credential may make).
  kNotTheirs,
  // Never of decide(): the action is allowed, but the bytes may not go where the caller is.
  kOtherZone,
};
std::string_view because_name(Because because);  // "no_permit"

struct Decision {
  bool allowed = false;
  Because because = Because::kNoPermit;
  const Grant* rule = nullptr;  // Lives as long as the Policies.
};
// One sentence for a person who may know all of it.
std::string explain(const AccessRequest& request, const Decision& decision);

// "Kind/project/name" → its labels; objects without labels need not be in it.
using ObjectLabels = std::unordered_map<std::string, Labels>;
std::string label_key(std::string_view kind, std::string_view project, std::string_view name);

struct PolicyInput {
  std::vector<Grant> grants;
  std::vector<Group> groups;
  ObjectLabels labels;
};

// Immutable; any number of threads.
class Policies {
 public:
  // Groups may hold groups; a cycle makes all of its groups equal.
  explicit Policies(PolicyInput input);
  ~Policies();
  Policies(const Policies&) = delete;
  Policies& operator=(const Policies&) = delete;

  // Pure. Cost: the grants of the principal and its groups in that project or above all projects;
  // no allocation besides one short text per group that the identity provider named.
  Decision decide(const AccessRequest& request) const;

  // May `principal` do `action` to anything of `kind` ("" for any) in `project` ("" for any)? True
  // when a list of them can have a row; each row is still decided by itself.
  bool may_some(const AccessRequest& request) const;
  // All the actions that decide() would allow on this object; `request.action` is not looked at.
  ActionSet allowed_actions(const AccessRequest& request) const;
  // May it do anything at all there? What is not visible is answered like what does not exist.
  // For an object without a name: to anything inside.
  bool visible(const AccessRequest& request) const;

  // Has it any break-glass grant, wherever? Then a stated reason is a use of it.
  bool may_break_glass(const AccessRequest& request) const;

  // May it give, or take back, `grant`? Nobody hands out, or is freed from, what they are not
  // allowed themselves: giving a permit needs access.write on all that it covers and every action
  // of it there, with no forbid inside; taking it back needs access.write alone. A forbid is given
  // with access.write on the platform, and taken back with its actions besides. FJ-0003 with the
  // reason when not.
  enum class Change : std::uint8_t { kGive, kTake };
  Status may_change(const AccessRequest& request, const Grant& grant, Change change) const;
  // May it change who is in `group`? Needs access.write on the platform, and to be able to give
  // every permit and take every forbid that reaches the group.
  Status may_regroup(const AccessRequest& request, std::string_view group) const;

  // May it hand out what speaks for `subject` (a principal's id, or a name that nobody has yet): a
  // token, a password, a certificate? Needs all that permits to the subject, by itself or by its
  // declared groups, allow. FJ-0003 when not.
  Status may_act_for(const AccessRequest& request, std::string_view subject) const;

  // Where this caller is: its own zone, else the one that its groups (the provider's too) declare.
  // Groups that disagree make "ae+eu": no zone has such a name, so nothing may go there.
  Zone zone_of(const Principal& principal) const;

  // Of a declared object; null when it has none, or no rule asks for labels.
  const Labels* labels(std::string_view kind, std::string_view project,
                       std::string_view name) const;
  const std::vector<Grant>& grants() const { return grants_; }  // By name.
  const std::vector<Group>& groups() const { return groups_; }  // By name.

 private:
  struct Index;
  // Calls `visit` with each unexpired rule of the principal's: those that could cover something of
  // `project` (or, for "", above projects), or all of them.
  enum class Rules : std::uint8_t { kOfProject, kAll };
  template <class Visit>
  void each_rule(const AccessRequest& request, Rules which, Visit&& visit) const;
  Status may_hold(const AccessRequest& request, const Grant& grant) const;
  // The grants to the subject and to its groups, without those to everyone.
  std::vector<const Grant*> reaching(std::string_view subject) const;

  std::vector<Grant> grants_;
  std::vector<Group> groups_;
  ObjectLabels labels_;
  bool uses_labels_ = false;
  std::unique_ptr<Index> index_;
};

}  // namespace falaj::security::access
