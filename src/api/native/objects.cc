// Declared objects: apply, get, list, delete.
#include <algorithm>

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "api/request_id.h"
#include "scheduler/simulate/plan.h"
#include "scheduler/simulate/report.h"
#include "security/access/access.h"

namespace falaj::api {
namespace {

Result<std::vector<catalog::Object>> objects_of_body(const Value& body) {
  std::vector<catalog::Object> objects;
  if (!body.has("objects")) {
    objects.push_back(FALAJ_TRY(catalog::object_from_value(body)));
    return objects;
  }
  if (!body["objects"].is_array()) {
    return Error{ErrorId::kWrongType, "objects: expected a list of objects"};
  }
  for (const Value& item : body["objects"].as_array()) {
    objects.push_back(FALAJ_TRY(catalog::object_from_value(item)));
  }
  return objects;
}

// Objects above projects have none, whatever the query says.
std::string project_for(const Services& services, const net::Request& request,
                        const std::string& kind) {
  for (const auto& info : services.catalog.kinds()) {
    if (info.kind == kind && info.scope == storage::Scope::kPlatform) return "";
  }
  return project_of(request).str();
}

// Who may change a grant or a group is decided by what it covers; the others by where they are.
Status note_change_denied(const net::Request& request, const catalog::Object& object,
                          Status outcome) {
  const bool governs = object.kind == "Grant" || object.kind == "Group";
  return note_denied(request, governs ? "access.write" : "objects.write",
                     {object.project, object.kind, object.name, nullptr}, std::move(outcome));
}

// A Project's declaration is of the project: its zone, purpose and quota go where its data may.
const std::string& project_of_object(const catalog::Object& object) {
  return object.kind == "Project" ? object.name : object.project;
}

// Whether the caller is where what the object's project holds may be: who may not read it may not
// change it either, nor learn by trying what it is like.
Status check_reach(const net::Request& request, const catalog::Object& object) {
  return admit(request, {project_of_object(object), object.kind, object.name, nullptr});
}

// Each object is decided by itself, as it is and as it shall be: one that may not be changed stops
// the whole call before anything is written.
Status check_objects(Services& services, const net::Request& request,
                     const std::vector<catalog::Object>& objects) {
  for (const catalog::Object& object : objects) {
    std::optional<catalog::Object> before;
    Result<catalog::Object> stored = services.catalog.get(object.kind, object.project, object.name);
    if (stored.ok()) {
      before = std::move(stored).value();
    } else if (stored.error().code != Code::kNotFound) {
      return stored.error();
    }
    Status may_apply =
        security::access::check_apply(policies_of(request), asking(request, ""), object, before);
    FALAJ_TRY(note_change_denied(request, object, std::move(may_apply)));
    FALAJ_TRY(check_reach(request, object));
  }
  return {};
}

security::RequestContext caller_context(const net::Request& request) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = carried_id(request);
  return context;
}

Result<std::vector<catalog::Object>> objects_of(const Services& services,
                                                const net::Request& request) {
  auto objects = FALAJ_TRY(objects_of_body(FALAJ_TRY(body_of(request))));
  for (catalog::Object& object : objects) {
    if (object.project.empty()) object.project = project_for(services, request, object.kind);
  }
  return objects;
}

// What goes past a guard-rail: the policy, or the first of the Queues.
std::string changed_name(const std::vector<catalog::Object>& changes) {
  const auto policy = std::find_if(changes.begin(), changes.end(), jobs::is_in_force);
  if (policy != changes.end()) return "SchedulingPolicy/" + std::string(jobs::kPolicyInForce);
  return "Queue/" + changes.front().project + "/" + changes.front().name;
}

// Who goes past a guard-rail breaks glass: an entry with the reason, and an open alarm.
Status record_override(Services& services, const net::Request& request,
                       const std::vector<catalog::Object>& changes,
                       const scheduler::simulate::Plan& plan, std::string_view reason) {
  security::AuditEvent event;
  event.action = "scheduling.override";
  event.object = changed_name(changes);
  event.detail["action"] = "objects.write";
  event.detail["broken"] = Value::array();
  for (const std::string& broken : plan.broken) event.detail["broken"].push(broken);
  event.personal.push_back({"reason", std::string(reason)});
  const auto context = caller_context(request);
  if (services.emergencies != nullptr) return services.emergencies->record(context, event);
  FALAJ_TRY(services.audit.record(context, event));
  return {};
}

// A change of how jobs share the machine is replayed before it is made.
Status check_guard_rails(Services& services, const net::Request& request,
                         const std::vector<catalog::Object>& objects, catalog::Mode mode) {
  std::vector<catalog::Object> changes;
  for (const catalog::Object& object : objects) {
    if (object.kind == "Queue" || jobs::is_in_force(object)) changes.push_back(object);
  }
  if (changes.empty() || !FALAJ_TRY(services.jobs.guarded(changes))) return {};
  FALAJ_TRY(services.catalog.apply(caller_context(request), objects, catalog::Mode::kDryRun));
  const auto plan = FALAJ_TRY(services.jobs.plan(changes));
  if (plan.broken.empty()) return {};
  const std::string_view reason = net::find_header(request.headers, kReasonHeader);
  if (reason.empty()) {
    return Error{Code::kFailedPrecondition,
                 "this breaks a guard-rail of the scheduling policy: " + plan.broken.front() +
                     "; 'falaj policy plan' shows what it would do; to apply it all the same, "
                     "state a reason (X-Falaj-Reason, or --reason)"};
  }
  if (mode == catalog::Mode::kDryRun) return {};
  return record_override(services, request, changes, plan, reason);
}

Result<Value> plan(Services& services, const net::Request& request) {
  const auto objects = FALAJ_TRY(objects_of(services, request));
  const auto plan = FALAJ_TRY(services.jobs.plan(objects));
  Value value = to_value(plan);
  if (request.query_param("report").value_or("") != "true") return value;
  const scheduler::simulate::ReportText text{"A change of the scheduling rules",
                                             "The newest jobs of this server and those that wait."};
  value["report"] = scheduler::simulate::html_report(text, {plan.current, plan.next}, "next");
  return value;
}

Result<Value> apply(Services& services, const net::Request& request) {
  const auto objects = FALAJ_TRY(objects_of(services, request));
  FALAJ_TRY(check_objects(services, request, objects));
  const bool dry_run = request.query_param("dry_run").value_or("") == "true";
  FALAJ_TRY(check_guard_rails(services, request, objects,
                              dry_run ? catalog::Mode::kDryRun : catalog::Mode::kApply));
  const auto applied = FALAJ_TRY(services.catalog.apply(
      caller_context(request), objects, dry_run ? catalog::Mode::kDryRun : catalog::Mode::kApply));
  Value::Array list;
  for (const catalog::Applied& item : applied) {
    Value row;
    row["kind"] = item.object.kind;
    row["project"] = item.object.project;
    row["name"] = item.object.name;
    row["outcome"] = catalog::outcome_name(item.outcome);
    row["generation"] = item.object.generation;
    list.push_back(std::move(row));
  }
  Value reply;
  reply["applied"] = Value(std::move(list));
  return reply;
}

// The stored object, if the caller may read it. Grants and groups are known by what they cover, so
// the gate left them to us: one that may not be read is answered like one that is not there.
Result<catalog::Object> visible_object(Services& services, const net::Request& request) {
  const std::string& kind = request.params.find("kind")->second;
  const std::string& name = request.params.find("name")->second;
  Result<catalog::Object> object =
      services.catalog.get(kind, project_for(services, request, kind), name);
  if (kind != "Grant" && kind != "Group") return object;
  if (object.ok() &&
      security::access::may_read(policies_of(request), asking(request, ""), *object)) {
    return object;
  }
  if (!object.ok() && object.error().code != Code::kNotFound) return object;
  const Error hidden{Code::kNotFound, kind + " '" + name + "' was not found"};
  // Whether it is there or not, to who cannot see all of them it is one and the same denial.
  if (may(request, "access.read", {})) return hidden;
  return note_denied(request, "access.read", {"", kind, name, nullptr}, hidden).error();
}

Value kinds_value(const Services& services) {
  Value::Array list;
  for (const auto& info : services.catalog.kinds()) {
    Value row;
    row["kind"] = info.kind;
    row["scope"] = info.scope == storage::Scope::kPlatform ? "platform" : "project";
    row["summary"] = info.summary;
    list.push_back(std::move(row));
  }
  Value reply;
  reply["kinds"] = Value(std::move(list));
  return reply;
}

Result<Value> projects_value(const Services& services, const net::Request& request) {
  Value::Array list;
  for (const auto& object : FALAJ_TRY(services.catalog.list("Project", ""))) {
    // Listed for who may do anything in it, be it to one object.
    if (!policies_of(request).visible(asking(request, "", {object.name, "", "", nullptr})) ||
        !reaches(request, object.name)) {
      continue;
    }
    Value row;
    row["name"] = object.name;
    row["zone"] = object.spec.text("zone");
    list.push_back(std::move(row));
  }
  Value reply;
  reply["projects"] = Value(std::move(list));
  return reply;
}

Value limit_value(const std::optional<std::int64_t>& limit) {
  return limit ? Value(*limit) : Value();
}

// What a project holds beside what it may hold.
Result<Value> usage(Services& services, const net::Request& request) {
  const ProjectName project = project_of(request);
  FALAJ_TRY(services.catalog.zone_of(project.str()));  // It is there.
  const security::Quota quota =
      services.quotas == nullptr ? security::Quota{} : services.quotas->of(project.str());
  Value reply;
  reply["project"] = project.str();
  reply["usage"] = Value::array();
  const auto add = [&](std::string_view resource, Value used,
                       const std::optional<std::int64_t>& limit) {
    Value row;
    row["resource"] = resource;
    row["used"] = std::move(used);
    row["quota"] = limit_value(limit);
    reply["usage"].push(std::move(row));
  };
  add("objects", Value(FALAJ_TRY(services.catalog.list("", project.str())).size()), quota.objects);
  const bool counted = services.quotas != nullptr;
  add("storage", counted ? Value(services.quotas->stored_bytes(project.str())) : Value(),
      quota.storage_bytes);
  add("jobs", Value(FALAJ_TRY(services.jobs.in_flight(project))), quota.jobs);
  add("predictions_per_second", Value(), quota.predictions_per_second);
  return reply;
}

Result<Value> remove(Services& services, const net::Request& request) {
  const catalog::Object object = FALAJ_TRY(visible_object(services, request));
  Status may_remove =
      security::access::check_remove(policies_of(request), asking(request, ""), object);
  FALAJ_TRY(note_change_denied(request, object, std::move(may_remove)));
  FALAJ_TRY(check_reach(request, object));
  security::RequestContext context = caller_context(request);
  context.project = ProjectName(object.project);
  FALAJ_TRY(services.catalog.remove(context, object.kind, object.project, object.name));
  Value reply;
  reply["deleted"] = object.kind + "/" + object.name;
  return reply;
}

// How many of the projects that the caller has a grant in are out of reach from where they are.
Result<std::int64_t> projects_out_of_reach(const Services& services, const net::Request& request) {
  std::int64_t count = 0;
  for (const auto& object : FALAJ_TRY(services.catalog.list("Project", ""))) {
    const bool known =
        policies_of(request).visible(asking(request, "", {object.name, "", "", nullptr}));
    if (known && !reaches(request, object.name)) ++count;
  }
  return count;
}

// Of every kind and project: what the caller may read. Who has a grant in the project that is asked
// for, but is where none of it may go, is told so.
Result<Value> object_list(Services& services, const net::Request& request) {
  const std::string kind = request.query_param("kind").value_or("");
  const std::string project = request.query_param("project").value_or("");
  auto objects = FALAJ_TRY(services.catalog.list(kind, project));
  std::erase_if(objects, [&](const catalog::Object& object) {
    return !security::access::may_read(policies_of(request), asking(request, ""), object) ||
           !reaches(request, project_of_object(object), object.kind + "/" + object.name);
  });
  if (objects.empty() && !project.empty() &&
      policies_of(request).visible(asking(request, "", {project, "", "", nullptr}))) {
    FALAJ_TRY(admit(request, {project, kind, "", nullptr}));
  }
  Value reply = list_value("objects", objects);
  if (project.empty()) {
    reply["projects_out_of_reach"] = FALAJ_TRY(projects_out_of_reach(services, request));
  }
  return reply;
}

}  // namespace

std::vector<net::Route> object_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(Method::kGet, "/api/v1/kinds",
                               {"account.use", net::Target::platform("Account")},
                               "The kinds of objects that can be applied.",
                               [&](const net::Request&) { return kinds_value(services); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/projects", {"objects.read", net::Target::across_projects("Project")},
      "The declared projects and their zones.",
      [&](const net::Request& request) { return projects_value(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/usage", {"objects.read", net::Target::in_project("Project")},
      "What a project uses of its quota: objects, storage (bytes), jobs; a rate has no sum.",
      [&](const net::Request& request) { return usage(services, request); }));
  routes.push_back(value_route(
      Method::kPut, "/api/v1/objects", {"objects.write", net::Target::body()},
      "Applies one object or {\"objects\": […]}, all or nothing; ?dry_run=true only checks. "
      "Objects without metadata.project go to ?project=, or to 'default'.",
      [&](const net::Request& request) { return apply(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/objects", {"objects.read", net::Target::across_projects("Object")},
      "Lists objects by ?kind= and ?project=; empty filters match all.",
      [&](const net::Request& request) { return object_list(services, request); }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/objects/{kind}/{name}",
                  {"objects.read", net::Target::declared("kind", "name")}, "One object as applied.",
                  [&](const net::Request& request) -> Result<Value> {
                    return catalog::to_value(FALAJ_TRY(visible_object(services, request)));
                  }));
  routes.push_back(
      value_route(Method::kDelete, "/api/v1/objects/{kind}/{name}",
                  {"objects.write", net::Target::declared("kind", "name")},
                  "Deletes an object that nothing refers to.",
                  [&](const net::Request& request) { return remove(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/scheduling:plan",
      {"objects.read", net::Target::platform("SchedulingPolicy")},
      "What Queues and a SchedulingPolicy would do: past and waiting jobs, replayed under the "
      "current rules and these; ?report=true adds an HTML page.",
      [&](const net::Request& request) { return plan(services, request); }));
  return routes;
}

}  // namespace falaj::api
