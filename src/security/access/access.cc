#include "security/access/access.h"

#include <algorithm>

#include "storage/objects.h"

namespace falaj::security::access {

using storage::Object;

Access::Access(storage::SqlStore& sql, const Clock& clock, AccessOptions options)
    : sql_(sql), clock_(clock), options_(std::move(options)) {
  published_.replace(std::make_shared<const Policies>(PolicyInput{}));
}

Result<PolicyInput> Access::read_input() const {
  std::vector<Object> objects;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    objects = FALAJ_TRY(storage::list_objects(tx));
    return {};
  }));
  PolicyInput input;
  input.grants = options_.built_in;
  for (const Object& object : objects) {
    if (object.kind == "Grant") input.grants.push_back(FALAJ_TRY(decode_grant(object)));
    if (object.kind == "Group") input.groups.push_back(FALAJ_TRY(decode_group(object)));
    Labels labels = FALAJ_TRY(labels_of(object.labels, object.kind + "/" + object.name));
    if (labels.empty()) continue;
    input.labels.emplace(label_key(object.kind, object.project, object.name), std::move(labels));
  }
  if (!options_.resolve) return input;
  const auto resolve_all = [&](std::vector<std::string>& subjects) {
    for (std::string& subject : subjects) {
      if (auto id = options_.resolve(subject)) subject = std::move(*id);
    }
  };
  for (Grant& grant : input.grants) resolve_all(grant.to);
  for (Group& group : input.groups) resolve_all(group.members);
  return input;
}

Status Access::refresh() {
  MutexLock lock(refreshing_);
  Result<PolicyInput> input = read_input();
  stale_.store(!input.ok());
  published_.replace(
      std::make_shared<const Policies>(input.ok() ? *std::move(input) : PolicyInput{}));
  return input.ok() ? Status() : Status(input.error());
}

Status Access::retry() { return stale_.load() ? refresh() : Status(); }

Status Access::current() const {
  if (!stale_.load()) return {};
  return Error{Code::kUnavailable,
               "the grants could not be read, so nobody may do anything; the server tries again "
               "every second, its log says why"};
}

Grant local_developer() {
  Grant grant;
  grant.name = "(local developer)";  // Not a name that can be declared.
  grant.to = {"user:dev"};
  grant.role = Role::kAdmin;
  grant.actions = actions_of(Role::kAdmin);
  return grant;
}

namespace {

Error not_found(const ObjectRef& object) {
  const std::string project = "project '" + std::string(object.project) + "'";
  if (object.name.empty()) return Error{Code::kNotFound, project + " was not found"};
  return Error{Code::kNotFound, std::string(object.kind) + " '" + std::string(object.name) +
                                    "' was not found in " + project};
}

}  // namespace

Error refusal(const Policies& policies, const AccessRequest& request, const Decision& decision) {
  switch (decision.because) {
    case Because::kNobody:
      return Error{Code::kUnauthenticated,
                   "this needs a known caller: send a token, or run 'falaj login'"};
    case Because::kExpired:
      return Error{ErrorId::kCredentialExpired, "the credential has expired: run 'falaj login'"};
    case Because::kReasonMissing:
      return Error{ErrorId::kReasonMissing,
                   std::string(request.action) + " on " + to_string(request.object) +
                       " is granted for emergencies only: state a reason (X-Falaj-Reason, or "
                       "--reason)"};
    default:
      break;
  }
  if (!request.object.project.empty() && !policies.visible(request)) {
    ObjectRef shown = request.object;
    ObjectRef around{request.object.project, "", "", nullptr};
    AccessRequest in_project = request;
    in_project.object = around;
    // In a project that they cannot see at all, an object's name is beside the point.
    if (!policies.visible(in_project)) shown = around;
    return not_found(shown);
  }
  const std::string what = std::string(request.action) + " on " + to_string(request.object);
  if (decision.because == Because::kForbidden) {
    return Error{Code::kPermissionDenied, what + " is forbidden to you"};
  }
  if (decision.because == Because::kOutOfScope) {
    return Error{Code::kPermissionDenied, "this token's scopes do not cover " + what};
  }
  return Error{Code::kPermissionDenied, "no grant permits you " + what};
}

Status check(const Policies& policies, const AccessRequest& request) {
  const Decision decision = policies.decide(request);
  if (decision.allowed) return {};
  return refusal(policies, request, decision);
}

namespace {

AccessRequest asking(const AccessRequest& request, std::string_view action, ObjectRef object) {
  AccessRequest other = request;
  other.action = action;
  other.object = object;
  return other;
}

// A Project's own declaration is part of the project for readers.
ObjectRef place_of(const Object& object, const Labels* labels) {
  if (object.kind == "Project") return {object.name, "Project", object.name, labels};
  return {object.project, object.kind, object.name, labels};
}

bool allows(const Policies& policies, const AccessRequest& request, std::string_view action,
            ObjectRef object) {
  return policies.decide(asking(request, action, object)).allowed;
}

// What binds those inside a project is written by the platform alone. A queue's share is taken from
// the others; a runtime opens folders of the machine to commands; a project's zone, purpose, quota
// and hold are what its own people are judged by.
bool is_of_platform(const Object& object) {
  return object.project.empty() || object.kind == "Queue" || object.kind == "Runtime" ||
         object.kind == "Project";
}

Status check_write(const Policies& policies, const AccessRequest& request, const Object& object) {
  const Labels labels =
      FALAJ_TRY(labels_of(object.labels, object.kind + "/" + object.name + " labels"));
  const bool above = is_of_platform(object);
  const std::string project = above ? "" : object.project;
  FALAJ_TRY(check(policies,
                  asking(request, "objects.write", {project, object.kind, object.name, &labels})));
  if (!above) return {};
  // The writer chooses the labels: a grant that goes by them opens nothing here.
  return check(policies, asking(request, "objects.write", {"", object.kind, object.name, nullptr}));
}

bool covers(const Extent& extent, const Object& object, const Labels& labels) {
  const ObjectRef place = place_of(object, &labels);
  return (extent.project.empty() || extent.project == place.project) &&
         (extent.kind.empty() || extent.kind == place.kind) &&
         (extent.name.empty() || extent.name == place.name) &&
         std::ranges::includes(labels, extent.labels);
}

Error binds_by_label(const Policies& policies, const AccessRequest& request, const Object& object,
                     const Grant& rule) {
  std::string labels;
  for (const auto& [key, value] : rule.on.labels) {
    labels += (labels.empty() ? "" : ", ") + key + "=" + value;
  }
  // Names of grants are told to who may read them.
  const bool known = allows(policies, request, "access.read",
                            {rule.on.project, rule.on.kind, rule.on.name, &rule.on.labels});
  const std::string whose = known ? "Grant '" + rule.name + "' forbids by" : "a grant forbids by";
  return Error{Code::kPermissionDenied,
               object.kind + " '" + object.name + "' bears " + labels + ", which " + whose +
                   ": taking that off, or deleting what bears it, needs access.write on it; keep "
                   "the labels as they are, or ask who has access.write"};
}

// A forbid that goes by labels would bind nobody if whoever may write the object could take its
// label off, or delete the object and declare it again without. So that is as taking the forbid
// itself back is: for who grants. Whom it forbids is not asked: an editor who is not bound could
// free one who is. `after` is null for a deletion.
Status keeps_forbids(const Policies& policies, const AccessRequest& request, const Object& before,
                     const Object* after) {
  const Labels had = FALAJ_TRY(labels_of(before.labels, before.kind + "/" + before.name));
  if (had.empty()) return {};
  Labels has;
  if (after != nullptr) has = FALAJ_TRY(labels_of(after->labels, after->kind + "/" + after->name));
  const std::string project = is_of_platform(before) ? "" : before.project;
  for (const Grant& rule : policies.grants()) {
    const bool binds = rule.effect == Effect::kForbid && !rule.on.labels.empty() &&
                       rule.expires > request.now && covers(rule.on, before, had);
    if (!binds || (after != nullptr && covers(rule.on, *after, has))) continue;
    if (allows(policies, request, "access.write", {project, before.kind, before.name, &had})) {
      continue;
    }
    return binds_by_label(policies, request, before, rule);
  }
  return {};
}

// Would anyone be left who may grant on the platform, without `name`?
bool is_last_granter(const Policies& policies, std::string_view name) {
  const unsigned write = *action_index("access.write");
  const auto lets_grant = [&](const Grant& grant) {
    return grant.effect == Effect::kPermit && grant.on == Extent{} && !grant.breaks_glass() &&
           grant.expires == Timestamp::max() && grant.actions.contains(write);
  };
  const auto own = std::ranges::find(policies.grants(), name, &Grant::name);
  if (own == policies.grants().end() || !lets_grant(*own)) return false;
  return std::ranges::none_of(policies.grants(), [&](const Grant& grant) {
    return grant.name != name && lets_grant(grant);
  });
}

Error last_granter(std::string_view name) {
  return Error{Code::kConflict, "Grant '" + std::string(name) +
                                    "' is the last that lets anyone grant on the platform: "
                                    "declare another administrator first"};
}

// Of a grant that stands already. Names of grants are one space for all tenants, so that one is
// taken shows; what it covers is told only to who may read it.
Status may_take(const Policies& policies, const AccessRequest& request, const Object& stored,
                const Grant& grant) {
  Status outcome = policies.may_change(request, grant, Policies::Change::kTake);
  if (outcome.ok() || may_read(policies, request, stored)) return outcome;
  return Error{Code::kPermissionDenied,
               "the name of Grant '" + grant.name + "' is not yours to use: choose another"};
}

}  // namespace

bool may_read(const Policies& policies, const AccessRequest& request, const Object& object) {
  if (object.kind == "Group") return allows(policies, request, "access.read", {});
  if (object.kind == "Grant") {
    const Result<Grant> grant = decode_grant(object);
    if (!grant.ok()) return allows(policies, request, "access.read", {});
    return allows(policies, request, "access.read",
                  {grant->on.project, grant->on.kind, grant->on.name, &grant->on.labels});
  }
  const Result<Labels> labels = labels_of(object.labels, object.kind);
  return allows(policies, request, "objects.read",
                place_of(object, labels.ok() ? &labels.value() : nullptr));
}

Status check_apply(const Policies& policies, const AccessRequest& request, const Object& object,
                   const std::optional<Object>& before) {
  if (object.kind == "Group") return policies.may_regroup(request, object.name);
  if (object.kind != "Grant") {
    if (before) FALAJ_TRY(check_write(policies, request, *before));
    FALAJ_TRY(check_write(policies, request, object));
    if (before) FALAJ_TRY(keeps_forbids(policies, request, *before, &object));
    // It says of a host outside which zone that is in: whoever says so decides what crosses.
    if (object.kind != "Webhook") return {};
    return check(policies, asking(request, "transfers.approve",
                                  {object.project, object.kind, object.name, nullptr}));
  }
  const Grant grant = FALAJ_TRY(decode_grant(object));
  // First what shall be: who may not declare it learns nothing of what stands under that name.
  FALAJ_TRY(policies.may_change(request, grant, Policies::Change::kGive));
  if (!before) return {};
  const Grant old = FALAJ_TRY(decode_grant(*before));
  FALAJ_TRY(may_take(policies, request, *before, old));
  if (is_last_granter(policies, old.name) &&
      (grant.effect == Effect::kForbid || grant.on != Extent{} || grant.breaks_glass() ||
       grant.expires != Timestamp::max() ||
       !grant.actions.contains(*action_index("access.write")))) {
    return last_granter(old.name);
  }
  return {};
}

Status check_remove(const Policies& policies, const AccessRequest& request, const Object& object) {
  if (object.kind == "Group") return policies.may_regroup(request, object.name);
  if (object.kind != "Grant") {
    FALAJ_TRY(check_write(policies, request, object));
    return keeps_forbids(policies, request, object, nullptr);
  }
  const Grant grant = FALAJ_TRY(decode_grant(object));
  FALAJ_TRY(may_take(policies, request, object, grant));
  if (is_last_granter(policies, grant.name)) return last_granter(grant.name);
  return {};
}

}  // namespace falaj::security::access
