// Keys: the inventory, rotation, and destruction with a receipt. Never a key itself.
#include "api/native/exchange.h"
#include "api/native/services.h"
#include "api/request_id.h"
#include "base/decode.h"
#include "security/keys/key_admin.h"

namespace falaj::api {
namespace {

namespace keys = security::keys;

// Of the project in the query, or of the platform when it names none.
Result<security::RequestContext> key_context(Services& services, const net::Request& request) {
  if (!request.query_param("project").value_or("").empty())
    return context_of(request, services.catalog);
  security::RequestContext context;
  context.principal = principal_of(request);
  context.deadline = request.deadline;
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

Result<keys::KeyScope> scope_of(const net::Request& request, Fields& fields) {
  keys::KeyScope scope;
  const std::string zone = FALAJ_TRY(fields.text("zone"));
  scope.project = request.query_param("project").value_or("");
  scope.zone = Zone(zone);
  scope.object = FALAJ_TRY(fields.text("object"));
  if (scope.project.empty() && !scope.object.empty()) {
    return Error{ErrorId::kMissingField, "an object's key needs ?project="};
  }
  return scope;
}

Result<Value> rotate(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(key_context(services, request));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "rotation");
  const keys::KeyScope scope = FALAJ_TRY(scope_of(request, fields));
  FALAJ_TRY(fields.finish());
  const keys::RotateReport report = FALAJ_TRY(services.keys->rotate(context, scope));
  Value reply;
  reply["key"] = report.ring;
  reply["version"] = report.version;
  reply["rewrapped"] = report.rewrapped;
  return reply;
}

Result<Value> raise(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(key_context(services, request));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "min_version");
  const keys::KeyScope scope = FALAJ_TRY(scope_of(request, fields));
  const std::int64_t version = FALAJ_TRY(fields.integer("min_version", 0, 1, INT64_MAX));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(services.keys->raise_min_version(context, scope, version));
  Value reply;
  reply["min_version"] = version;
  return reply;
}

Result<Value> shred(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "shredding");
  keys::KeyScope scope = FALAJ_TRY(scope_of(request, fields));
  scope.project = context.project.str();
  const std::string ground = FALAJ_TRY(fields.required_text("ground"));
  const bool whole = FALAJ_TRY(fields.boolean("whole_project", false));
  FALAJ_TRY(fields.finish());
  if (scope.object.empty() != whole) {
    return Error{ErrorId::kMissingField,
                 "name the object whose keys are to be destroyed, or say whole_project"};
  }
  const keys::ShredGround why = FALAJ_TRY(keys::ground_from_name(ground));
  return to_value(FALAJ_TRY(services.keys->shred(context, scope, why)));
}

Result<Value> erase(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "erasure");
  const std::string entity = FALAJ_TRY(fields.required_text("entity"));
  const Value key = FALAJ_TRY(fields.object("key"));
  const std::string ground = FALAJ_TRY(fields.required_text("ground"));
  FALAJ_TRY(fields.finish());
  const keys::ShredGround why = FALAJ_TRY(keys::ground_from_name(ground));
  return services.erase(context, entity, key, why);
}

// Without the projects whose data may not go where the caller is.
Result<Value> inventory(const Services& services, const net::Request& request) {
  Value reply = FALAJ_TRY(services.keys->inventory(request.query_param("project").value_or("")));
  if (!reply["keys"].is_array()) return reply;
  std::erase_if(reply["keys"].as_array(),
                [&](const Value& key) { return !reaches(request, key.text("project")); });
  return reply;
}

}  // namespace

std::vector<net::Route> key_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  if (services.keys == nullptr) return routes;
  const net::Target of_either = net::Target::platform_or_project("Key");
  routes.push_back(
      value_route(Method::kGet, "/api/v1/keys", {"keys.read", of_either},
                  "The inventory of keys: ids, versions, counts, ages; of ?project= "
                  "or of everything.",
                  [&](const net::Request& request) { return inventory(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/keys:rotate", {"keys.rotate", of_either},
      "A new version of a key {zone, object}; what it protects is wrapped anew, no data "
      "is rewritten. Without ?project=: the root of the zone, or the machine's key.",
      [&](const net::Request& request) { return rotate(services, request); }));
  routes.push_back(
      value_route(Method::kPost, "/api/v1/keys:raise", {"keys.rotate", of_either},
                  "Destroys versions of a key before {min_version}; old copies are refused.",
                  [&](const net::Request& request) { return raise(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/keys:shred", {"keys.shred", net::Target::in_project("Key")},
      "Destroys the keys of {object} on a {ground}: its data can never be read again, and is gone "
      "from memory at once. The receipt is in the audit log.",
      [&](const net::Request& request) { return shred(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/subjects:erase", {"keys.shred", net::Target::in_project("Key")},
      "Takes one person, {entity, key}, out of every feature view, and shreds the frozen training "
      "sets that hold them and the checkpoints of TrainJobs that learned from those; models that "
      "did are retrain-due.",
      [&](const net::Request& request) { return erase(services, request); }));
  return routes;
}

}  // namespace falaj::api
