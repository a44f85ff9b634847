// Declared objects: apply, get, list, delete.
#include "api/native/exchange.h"
#include "api/native/services.h"

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

Result<Value> apply(Services& services, const net::Request& request) {
  auto objects = FALAJ_TRY(objects_of_body(FALAJ_TRY(body_of(request))));
  for (catalog::Object& object : objects) {
    if (object.project.empty()) object.project = project_for(services, request, object.kind);
  }
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = request.request_id;
  const bool dry_run = request.query_param("dry_run").value_or("") == "true";
  const auto applied = FALAJ_TRY(services.catalog.apply(
      context, objects, dry_run ? catalog::Mode::kDryRun : catalog::Mode::kApply));
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

Result<Value> projects_value(const Services& services) {
  Value::Array list;
  for (const auto& object : FALAJ_TRY(services.catalog.list("Project", ""))) {
    Value row;
    row["name"] = object.name;
    row["zone"] = object.spec.text("zone");
    list.push_back(std::move(row));
  }
  Value reply;
  reply["projects"] = Value(std::move(list));
  return reply;
}

Result<Value> remove(Services& services, const net::Request& request) {
  const std::string& kind = request.params.find("kind")->second;
  const std::string& name = request.params.find("name")->second;
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = request.request_id;
  context.project = ProjectName(project_for(services, request, kind));
  FALAJ_TRY(services.catalog.remove(context, kind, context.project.str(), name));
  Value reply;
  reply["deleted"] = kind + "/" + name;
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
  routes.push_back(value_route(Method::kGet, "/api/v1/projects",
                               {"objects.read", net::Target::across_projects("Project")},
                               "The declared projects and their zones.",
                               [&](const net::Request&) { return projects_value(services); }));
  routes.push_back(value_route(
      Method::kPut, "/api/v1/objects", {"objects.write", net::Target::body()},
      "Applies one object or {\"objects\": […]}, all or nothing; ?dry_run=true only checks. "
      "Objects without metadata.project go to ?project=, or to 'default'.",
      [&](const net::Request& request) { return apply(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/objects", {"objects.read", net::Target::across_projects("Object")},
      "Lists objects by ?kind= and ?project=; empty filters match all.",
      [&](const net::Request& request) -> Result<Value> {
        return list_value("objects", FALAJ_TRY(services.catalog.list(
                                         request.query_param("kind").value_or(""),
                                         request.query_param("project").value_or(""))));
      }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/objects/{kind}/{name}",
      {"objects.read", net::Target::declared("kind", "name")}, "One object as applied.",
      [&](const net::Request& request) -> Result<Value> {
        const std::string& kind = request.params.find("kind")->second;
        return catalog::to_value(FALAJ_TRY(services.catalog.get(
            kind, project_for(services, request, kind), request.params.find("name")->second)));
      }));
  routes.push_back(
      value_route(Method::kDelete, "/api/v1/objects/{kind}/{name}",
                  {"objects.write", net::Target::declared("kind", "name")},
                  "Deletes an object that nothing refers to.",
                  [&](const net::Request& request) { return remove(services, request); }));
  return routes;
}

}  // namespace falaj::api
