// Registered models, their versions and aliases.
#include <charconv>

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"
#include "base/log.h"
#include "crypto/base64.h"

namespace falaj::api {
namespace {

constexpr std::string_view kSignatureHeader = "X-Falaj-Signature";

Result<Value> model_value(Services& services, const ProjectName& project,
                          const std::string& model) {
  Value value;
  value["name"] = model;
  value["versions"] = Value::array();
  std::map<std::int64_t, registry::RetrainMark> due;
  if (services.retrain_due != nullptr) {
    due = FALAJ_TRY(services.retrain_due->of(project, model));
  }
  for (const auto& version : FALAJ_TRY(services.models.versions(project, model))) {
    Value row = to_value(version);
    const auto mark = due.find(version.version);
    if (mark != due.end()) row["retrain_due"] = to_value(mark->second);
    value["versions"].push(std::move(row));
  }
  value["aliases"] = FALAJ_TRY(services.models.aliases(project, model));
  return value;
}

// FJ-5001 for a model that is neither declared nor has a version.
Result<Value> known_model(Services& services, const ProjectName& project,
                          const std::string& model) {
  Value value = FALAJ_TRY(model_value(services, project, model));
  if (value["versions"].as_array().empty()) {
    FALAJ_TRY(services.catalog.get("Model", project.str(), model));
  }
  return value;
}

Result<Value> model_list(Services& services, const net::Request& request) {
  const ProjectName project = project_of(request);
  Value reply;
  reply["models"] = Value::array();
  auto models = FALAJ_TRY(services.models.models(project));
  keep_visible(models, request, "models.read", "Model",
               [](const std::string& name) { return name; });
  for (const std::string& model : models) {
    reply["models"].push(FALAJ_TRY(model_value(services, project, model)));
  }
  return reply;
}

// What the deployments that follow the alias made of it. `ticked` speaks for one that neither took
// the version nor says why.
Value followers(Services& services, const ProjectName& project, const std::string& model,
                const std::string& alias, std::int64_t version, const Status& ticked) {
  Value list = Value::array();
  for (const serving::DeploymentStatus& status : services.deployments.status()) {
    if (status.project != project.str() || status.model != model || status.alias != alias) continue;
    const bool unexplained = status.version != version && status.error.empty() && !ticked.ok();
    Value row;
    row["name"] = status.name;
    row["version"] = status.version;
    row["state"] = unexplained ? "failed" : status.state;
    row["error"] = unexplained ? ticked.error().message : status.error;
    list.push(std::move(row));
  }
  return list;
}

Result<Value> set_alias(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "alias");
  const std::int64_t version = FALAJ_TRY(fields.integer("version", 0, 1, INT64_MAX));
  const std::string reason = FALAJ_TRY(fields.text("reason"));
  FALAJ_TRY(fields.finish());
  Value evidence;
  evidence["reason"] = reason.empty() ? "set by hand" : reason;
  const std::string& model = request.params.find("model")->second;
  const std::string& alias = request.params.find("alias")->second;
  FALAJ_TRY(services.models.set_alias(context, model, alias, version, evidence));
  // The alias is set by now: a deployment that fails is told in the answer, not instead of it.
  const Status ticked = services.deployments.tick();
  if (!ticked.ok()) {
    log::warn("deployments not reconciled",
              {{"code", to_string(ticked.error().id)}, {"why", ticked.error().message}});
  }
  Value reply = FALAJ_TRY(model_value(services, context.project, model));
  reply["deployments"] = followers(services, context.project, model, alias, version, ticked);
  return reply;
}

Result<Value> import_version(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const std::string_view header = net::find_header(request.headers, kSignatureHeader);
  const std::string bundle = FALAJ_TRY(crypto::from_base64(header));
  const std::int64_t from = FALAJ_TRY(query_integer(request, "optimized_from", 0, INT64_MAX));
  return to_value(FALAJ_TRY(services.model_import.add(context, request.params.find("model")->second,
                                                      {request.body, bundle, from})));
}

Result<Value> version_bundle(Services& services, const net::Request& request) {
  const std::string& text = request.params.find("version")->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Error{ErrorId::kOutOfRange, "version '" + text + "' is not a whole number"};
  }
  const auto version = FALAJ_TRY(
      services.models.get(project_of(request), request.params.find("model")->second, number));
  return parse_json(version.bundle);
}

}  // namespace

std::vector<net::Route> model_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(
      value_route(Method::kGet, "/api/v1/models", {"models.read", net::Target::listed("Model")},
                  "Models with their versions (newest first) and aliases.",
                  [&](const net::Request& request) { return model_list(services, request); }));
  routes.push_back(value_route(Method::kGet, "/api/v1/models/{model}",
                               {"models.read", net::Target::object("Model", "model")}, "One model.",
                               [&](const net::Request& request) {
                                 return known_model(services, project_of(request),
                                                    request.params.find("model")->second);
                               }));
  routes.push_back(
      value_route(Method::kPut, "/api/v1/models/{model}/aliases/{alias}",
                  {"models.promote", net::Target::object("Model", "model")},
                  "Points an alias at a version; deployments that follow it swap at once, and the "
                  "reply says under 'deployments' what became of each.",
                  [&](const net::Request& request) { return set_alias(services, request); }));
  net::Route import = value_route(
      Method::kPost, "/api/v1/models/{model}/versions:import",
      {"models.write", net::Target::object("Model", "model")},
      "Registers the body, a model made elsewhere (ONNX, LightGBM's text, XGBoost's JSON), as the "
      "next version: judged by content, opened in a sandbox first and turned into ONNX there. "
      "X-Falaj-Signature carries its OpenSSF signature bundle in "
      "base64; ?optimized_from=N says which version it is a faster or smaller form of.",
      [&](const net::Request& request) { return import_version(services, request); }, 201);
  import.body_bytes_max = serving::kImportBytesMax;
  routes.push_back(std::move(import));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/models/{model}/versions/{version}/signature",
                  {"models.read", net::Target::object("Model", "model")},
                  "The version's OpenSSF signature bundle, made by this server.",
                  [&](const net::Request& request) { return version_bundle(services, request); }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/signing-key", {"public.read", net::Target::nothing()},
                  "The public key (PEM) of this server's signatures on models, for other tools.",
                  [&](const net::Request&) -> Result<Value> {
                    Value value;
                    value["pem"] = services.models.trust().public_key();
                    value["fingerprint"] = services.models.trust().fingerprint();
                    return value;
                  }));
  return routes;
}

}  // namespace falaj::api
