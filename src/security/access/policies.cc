#include "security/access/policies.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "security/access/decision_count.h"

namespace falaj::security::access {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

using RuleList = std::vector<std::uint32_t>;  // Places in grants_, ascending.

// Of one subject: by project, so that a grant in one project costs the others nothing.
struct SubjectRules {
  RuleList anywhere;  // On the platform, or by kind or label in every project.
  TextMap<RuleList> by_project;
};

bool has_all(const Labels* have, const Labels& wanted) {
  if (wanted.empty()) return true;
  if (have == nullptr) return false;
  return std::ranges::includes(*have, wanted);
}

bool covers(const Extent& extent, const ObjectRef& object) {
  return (extent.project.empty() || extent.project == object.project) &&
         (extent.kind.empty() || extent.kind == object.kind) &&
         (extent.name.empty() || extent.name == object.name) &&
         has_all(object.labels, extent.labels);
}

// Could something that `object` names, or that lies inside it, be covered? Labels may turn up on
// anything; "" in `object` stands for any.
bool touches(const Extent& extent, const ObjectRef& object) {
  const auto meets = [](std::string_view a, std::string_view b) {
    return a.empty() || b.empty() || a == b;
  };
  return meets(extent.project, object.project) && meets(extent.kind, object.kind) &&
         meets(extent.name, object.name);
}

std::string object_path(const ObjectRef& object) {
  if (object.name.empty()) return "";
  return std::string(object.kind) + "/" + std::string(object.name);
}

bool scope_touches(const Principal& principal, std::string_view action, const ObjectRef& object) {
  if (!principal.scopes) return true;
  const std::string path = object_path(object);
  return std::ranges::any_of(*principal.scopes, [&](const Scope& scope) {
    // Asked with the scope's own place, so that only the action is compared.
    const bool place =
        (scope.project.empty() || object.project.empty() || scope.project == object.project) &&
        (scope.object.empty() || path.empty() || scope.object == path);
    Principal only;
    only.scopes = std::vector<Scope>{scope};
    return place && within_scopes(only, action, scope.project, scope.object);
  });
}

bool in_scope(const AccessRequest& request) {
  if (!request.principal.scopes) return true;
  return within_scopes(request.principal, request.action, request.object.project,
                       object_path(request.object));
}

// What does not depend on grants; nullopt when they are to be asked.
std::optional<Decision> decide_without_grants(const AccessRequest& request,
                                              std::optional<unsigned> action) {
  if (!action) return Decision{false, Because::kUnknownAction, nullptr};
  if (public_actions().contains(*action)) return Decision{true, Because::kPublic, nullptr};
  if (request.principal.kind == PrincipalKind::kNobody || request.principal.id.empty()) {
    return Decision{false, Because::kNobody, nullptr};
  }
  if (request.principal.expires <= request.now) return Decision{false, Because::kExpired, nullptr};
  return std::nullopt;
}

}  // namespace

struct Policies::Index {
  std::vector<SubjectRules> rules;  // Per subject that a grant names.
  // Of every subject that a grant or group names: whose rules reach it (its own, its groups').
  TextMap<std::vector<std::uint32_t>> reach;
  std::vector<std::uint32_t> everyone;
  TextMap<std::set<std::string>> zones;  // Of every subject that is in a group with a zone.

  const std::vector<std::uint32_t>* find(std::string_view subject) const {
    const auto found = reach.find(subject);
    return found == reach.end() ? nullptr : &found->second;
  }
};

namespace {

// Which groups each subject is in, by however many steps.
std::map<std::string, std::set<std::string>> memberships(const std::vector<Group>& groups) {
  std::map<std::string, std::vector<std::string>> direct;
  for (const Group& group : groups) {
    for (const std::string& member : group.members) direct[member].push_back("group:" + group.name);
  }
  std::map<std::string, std::set<std::string>> all;
  for (const auto& [subject, unused] : direct) {
    std::vector<std::string> open{subject};
    std::set<std::string>& in = all[subject];
    while (!open.empty()) {
      const std::string next = std::move(open.back());
      open.pop_back();
      const auto found = direct.find(next);
      if (found == direct.end()) continue;
      for (const std::string& group : found->second) {
        if (in.insert(group).second) open.push_back(group);
      }
    }
  }
  return all;
}

}  // namespace

Policies::Policies(PolicyInput input)
    : grants_(std::move(input.grants)),
      groups_(std::move(input.groups)),
      labels_(std::move(input.labels)),
      index_(std::make_unique<Index>()) {
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::ranges::sort(grants_, by_name);
  std::ranges::sort(groups_, by_name);
  std::map<std::string, std::uint32_t> subjects;
  for (std::uint32_t i = 0; i < grants_.size(); ++i) {
    const Grant& grant = grants_[i];
    uses_labels_ = uses_labels_ || !grant.on.labels.empty();
    for (const std::string& subject : grant.to) {
      const auto place = static_cast<std::uint32_t>(index_->rules.size());
      const auto [known, added] = subjects.emplace(subject, place);
      if (added) index_->rules.emplace_back();
      SubjectRules& rules = index_->rules[known->second];
      (grant.on.project.empty() ? rules.anywhere : rules.by_project[grant.on.project]).push_back(i);
    }
  }
  for (const auto& [subject, place] : subjects) index_->reach[subject].push_back(place);
  const auto members = memberships(groups_);
  for (const auto& [subject, in] : members) {
    for (const std::string& group : in) {
      const auto found = subjects.find(group);
      if (found == subjects.end() || group == subject) continue;
      index_->reach[subject].push_back(found->second);
    }
  }
  if (const auto* all = index_->find(kEveryone)) index_->everyone = *all;
  for (const Group& group : groups_) {
    if (!group.zone.labelled()) continue;
    const std::string own = "group:" + group.name;
    index_->zones[own].insert(group.zone.name());
    for (const auto& [subject, in] : members) {
      if (in.contains(own)) index_->zones[subject].insert(group.zone.name());
    }
  }
}

Policies::~Policies() = default;

Zone Policies::zone_of(const Principal& principal) const {
  if (principal.zone.labelled() || index_->zones.empty()) return principal.zone;
  std::set<std::string> zones;
  const auto add = [&](std::string_view subject) {
    const auto found = index_->zones.find(subject);
    if (found != index_->zones.end()) zones.insert(found->second.begin(), found->second.end());
  };
  add(principal.id);
  for (const std::string& group : principal.groups) add("group:" + group);
  std::string name;
  for (const std::string& zone : zones) name += (name.empty() ? "" : "+") + zone;
  return Zone(std::move(name));
}

template <class Visit>
void Policies::each_rule(const AccessRequest& request, Rules which, Visit&& visit) const {
  const auto each = [&](const RuleList& list) {
    for (const std::uint32_t place : list) {
      if (grants_[place].expires > request.now) visit(place, grants_[place]);
    }
  };
  const auto of_subject = [&](const std::vector<std::uint32_t>* reach) {
    if (reach == nullptr) return;
    for (const std::uint32_t subject : *reach) {
      const SubjectRules& rules = index_->rules[subject];
      each(rules.anywhere);
      if (which == Rules::kAll) {
        for (const auto& [project, list] : rules.by_project) each(list);
      } else if (!request.object.project.empty()) {
        const auto found = rules.by_project.find(request.object.project);
        if (found != rules.by_project.end()) each(found->second);
      }
    }
  };
  of_subject(index_->find(request.principal.id));
  std::string subject;
  for (const std::string& group : request.principal.groups) {
    subject.assign("group:").append(group);
    of_subject(index_->find(subject));
  }
  of_subject(&index_->everyone);
}

namespace {
thread_local std::uint64_t decided = 0;
}  // namespace

std::uint64_t decisions_made() { return decided; }

Decision Policies::decide(const AccessRequest& request) const {
  ++decided;
  const std::optional<unsigned> action = action_index(request.action);
  if (const auto early = decide_without_grants(request, action)) return *early;
  constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t forbid = kNone;  // The first by name each, so that the answer is one.
  std::uint32_t permit = kNone;
  std::uint32_t glass = kNone;
  each_rule(request, Rules::kOfProject, [&](std::uint32_t place, const Grant& rule) {
    if (!rule.actions.contains(*action) || !covers(rule.on, request.object)) return;
    std::uint32_t& slot = rule.effect == Effect::kForbid ? forbid
                          : rule.breaks_glass()          ? glass
                                                         : permit;
    slot = std::min(slot, place);
  });
  const auto by = [&](bool allowed, Because because, std::uint32_t place) {
    return Decision{allowed, because, place == kNone ? nullptr : &grants_[place]};
  };
  if (forbid != kNone) return by(false, Because::kForbidden, forbid);
  if (request.action == "account.use") return by(true, Because::kOwn, kNone);
  if (!in_scope(request)) return by(false, Because::kOutOfScope, kNone);
  if (own_actions().contains(*action)) return by(true, Because::kOwn, kNone);
  if (permit != kNone) return by(true, Because::kPermitted, permit);
  if (request.principal.kind == PrincipalKind::kJob && request.principal.scopes &&
      job_actions().contains(*action)) {
    return by(true, Because::kJobScope, kNone);
  }
  if (glass == kNone) return by(false, Because::kNoPermit, kNone);
  if (request.reason.empty()) return by(false, Because::kReasonMissing, glass);
  return by(true, Because::kBrokeGlass, glass);
}

bool Policies::may_some(const AccessRequest& request) const {
  const std::optional<unsigned> action = action_index(request.action);
  if (const auto early = decide_without_grants(request, action)) return early->allowed;
  if (own_actions().contains(*action)) return decide(request).allowed;
  if (!scope_touches(request.principal, request.action, request.object)) return false;
  bool permit = request.principal.kind == PrincipalKind::kJob && request.principal.scopes &&
                job_actions().contains(*action);
  bool forbid = false;
  const auto look = [&](std::uint32_t, const Grant& rule) {
    if (!rule.actions.contains(*action)) return;
    if (rule.effect == Effect::kForbid) {
      forbid = forbid || covers(rule.on, request.object);
    } else if (!rule.breaks_glass() || !request.reason.empty()) {
      permit = permit || touches(rule.on, request.object);
    }
  };
  each_rule(request, request.object.project.empty() ? Rules::kAll : Rules::kOfProject, look);
  return permit && !forbid;
}

ActionSet Policies::allowed_actions(const AccessRequest& request) const {
  ActionSet set;
  for (unsigned i = 0; i < actions().size(); ++i) {
    AccessRequest one = request;
    one.action = actions()[i].action;
    if (decide(one).allowed) set |= ActionSet::one(i);
  }
  return set;
}

bool Policies::visible(const AccessRequest& request) const {
  const ActionSet no_grant_needed = public_actions() | own_actions();
  for (unsigned i = 0; i < actions().size(); ++i) {
    if (no_grant_needed.contains(i)) continue;
    AccessRequest one = request;
    one.action = actions()[i].action;
    if (one.object.name.empty() ? may_some(one) : decide(one).allowed) return true;
  }
  return false;
}

bool Policies::may_break_glass(const AccessRequest& request) const {
  bool found = false;
  each_rule(request, Rules::kAll, [&](std::uint32_t, const Grant& rule) {
    found = found || (rule.effect == Effect::kPermit && rule.breaks_glass());
  });
  return found;
}

namespace {

// A forbid of everyone binds whoever is given something too: it keeps nobody from giving, nor from
// taking it back, or nobody could.
bool binds_everyone(const Grant& rule) {
  return std::find(rule.to.begin(), rule.to.end(), kEveryone) != rule.to.end();
}

}  // namespace

// Every action of the grant, on all that it covers, with nothing inside forbidden.
Status Policies::may_hold(const AccessRequest& request, const Grant& grant) const {
  AccessRequest one = request;
  one.object = {grant.on.project, grant.on.kind, grant.on.name, &grant.on.labels};
  ActionSet permitted;
  ActionSet forbidden_inside;
  each_rule(one, one.object.project.empty() ? Rules::kAll : Rules::kOfProject,
            [&](std::uint32_t, const Grant& rule) {
              if (rule.effect == Effect::kPermit) {
                if (!rule.breaks_glass() && covers(rule.on, one.object)) permitted |= rule.actions;
              } else if (touches(rule.on, one.object) && !binds_everyone(rule)) {
                forbidden_inside |= rule.actions;
              }
            });
  for (const std::string_view action : grant.actions.names()) {
    one.action = action;
    const unsigned index = *action_index(action);
    const Decision decision = decide(one);
    const bool but_for_everyone =
        decision.because == Because::kForbidden && in_scope(one) && permitted.contains(index);
    if ((decision.allowed || but_for_everyone) && !forbidden_inside.contains(index)) continue;
    return Error{Code::kPermissionDenied, "Grant '" + grant.name + "' covers " +
                                              std::string(action) + " on " + to_string(grant.on) +
                                              ", which you are not allowed yourself"};
  }
  return {};
}

Status Policies::may_change(const AccessRequest& request, const Grant& grant, Change change) const {
  const bool forbid = grant.effect == Effect::kForbid;
  AccessRequest write = request;
  write.action = "access.write";
  write.object = {};
  if (!forbid) write.object = {grant.on.project, grant.on.kind, grant.on.name, &grant.on.labels};
  if (!decide(write).allowed) {
    return Error{Code::kPermissionDenied,
                 "Grant '" + grant.name + "' needs access.write on " +
                     (forbid ? "the platform, as every forbid does" : to_string(grant.on))};
  }
  if (forbid == (change == Change::kTake)) return may_hold(request, grant);
  return {};
}

Status Policies::may_regroup(const AccessRequest& request, std::string_view group) const {
  AccessRequest write = request;
  write.action = "access.write";
  write.object = {};
  const std::string subject = "group:" + std::string(group);
  if (!decide(write).allowed) {
    return Error{Code::kPermissionDenied,
                 "Group '" + std::string(group) + "' needs access.write on the platform"};
  }
  for (const Grant* grant : reaching(subject)) {
    FALAJ_TRY(may_change(request, *grant,
                         grant->effect == Effect::kForbid ? Change::kTake : Change::kGive));
  }
  return {};
}

Status Policies::may_act_for(const AccessRequest& request, std::string_view subject) const {
  for (const Grant* grant : reaching(subject)) {
    if (grant->effect == Effect::kForbid || grant->expires <= request.now) continue;
    if (may_hold(request, *grant).ok()) continue;
    // Which grant it was is told to who may read grants, not here.
    return Error{Code::kPermissionDenied, "'" + std::string(subject) +
                                              "' may do more than you: only who may do all of it "
                                              "can give out what speaks for it"};
  }
  return {};
}

std::vector<const Grant*> Policies::reaching(std::string_view subject) const {
  std::vector<const Grant*> rules;
  const std::vector<std::uint32_t>* reach = index_->find(subject);
  if (reach == nullptr) return rules;
  const auto add = [&](const RuleList& list) {
    for (const std::uint32_t place : list) rules.push_back(&grants_[place]);
  };
  for (const std::uint32_t one : *reach) {
    const SubjectRules& of = index_->rules[one];
    add(of.anywhere);
    for (const auto& [project, list] : of.by_project) add(list);
  }
  return rules;
}

const Labels* Policies::labels(std::string_view kind, std::string_view project,
                               std::string_view name) const {
  if (!uses_labels_ || name.empty()) return nullptr;
  const auto found = labels_.find(label_key(kind, project, name));
  return found == labels_.end() ? nullptr : &found->second;
}

std::string label_key(std::string_view kind, std::string_view project, std::string_view name) {
  std::string key(kind);
  return key.append("/").append(project).append("/").append(name);
}

std::string to_string(const ObjectRef& object) {
  const auto quoted = [](std::string_view text) { return "'" + std::string(text) + "'"; };
  std::string text;
  if (!object.kind.empty()) {
    text =
        std::string(object.kind) + (object.name.empty() ? "" : " " + quoted(object.name)) + " of ";
  }
  return text + (object.project.empty() ? "the platform" : "project " + quoted(object.project));
}

std::string_view because_name(Because because) {
  switch (because) {
    case Because::kPublic:
      return "public";
    case Because::kOwn:
      return "own";
    case Because::kPermitted:
      return "permitted";
    case Because::kJobScope:
      return "job_scope";
    case Because::kBrokeGlass:
      return "broke_glass";
    case Because::kUnknownAction:
      return "unknown_action";
    case Because::kNobody:
      return "nobody";
    case Because::kExpired:
      return "expired";
    case Because::kForbidden:
      return "forbidden";
    case Because::kOutOfScope:
      return "out_of_scope";
    case Because::kReasonMissing:
      return "reason_missing";
    case Because::kNoPermit:
      return "no_permit";
    case Because::kNotTheirs:
      return "not_theirs";
    case Because::kOtherZone:
      return "other_zone";
  }
  return "no_permit";
}

std::string explain(const AccessRequest& request, const Decision& decision) {
  const std::string action(request.action);
  const std::string what = action + " on " + to_string(request.object);
  const std::string rule = decision.rule == nullptr ? "" : "Grant '" + decision.rule->name + "'";
  switch (decision.because) {
    case Because::kPublic:
      return action + " is allowed to anyone";
    case Because::kOwn:
      return action + " is allowed to every known caller";
    case Because::kPermitted:
      return rule + " permits " + what;
    case Because::kJobScope:
      return "the job's own scopes name " + what;
    case Because::kBrokeGlass:
      return rule + " permits " + what + " as an emergency, with the reason stated";
    case Because::kUnknownAction:
      return "the action '" + action + "' is not declared";
    case Because::kNobody:
      return what + " needs a known caller; none was shown";
    case Because::kExpired:
      return "the credential has expired";
    case Because::kForbidden:
      return rule + " forbids " + what;
    case Because::kOutOfScope:
      return "the credential's scopes do not cover " + what;
    case Because::kReasonMissing:
      return rule + " permits " + what + " only with a stated reason";
    case Because::kNoPermit:
      return "no grant permits " + what;
    case Because::kNotTheirs:
      return what + " would give, or take back, more than the caller holds";
    case Because::kOtherZone:
      return what + " may not go where the caller is";
  }
  return what;
}

}  // namespace falaj::security::access
