// The model repository's routes: what there is, load and unload.
#include "api/inference/internal/routes.h"
#include "api/inference/model_documents.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;

std::vector<serving::DeploymentStatus> visible_status(const serving::Deployments& deployments,
                                                      const Request& request) {
  std::vector<serving::DeploymentStatus> statuses = deployments.status();
  std::erase_if(statuses, [&](const serving::DeploymentStatus& status) {
    return !may(request, "models.read", {status.project, "Deployment", status.name, nullptr}) ||
           !reaches(request, status.project);
  });
  return statuses;
}

Result<Response> index(const serving::Deployments& deployments, const Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  const Value& ready = body["ready"];
  if (!ready.is_null() && !ready.is_bool()) {
    return Error(ErrorId::kInvalidArgument, "member 'ready' must be true or false");
  }
  const Listed listed = ready.is_bool() && ready.as_bool() ? Listed::kReady : Listed::kAll;
  return as_json(index_document(visible_status(deployments, request), listed));
}

// Where a model comes from and how it runs is declared, versioned and signed here: a request that
// brings its own configuration or files would go past all that.
Status check_load_parameters(const Value& parameters) {
  if (parameters.is_null()) return {};
  if (!parameters.is_object()) {
    return Error(ErrorId::kInvalidArgument, "member 'parameters' must be an object");
  }
  for (const auto& [key, value] : parameters.as_object()) {
    if (key == "config" || key.starts_with("file:")) {
      return Error(ErrorId::kUnimplemented,
                   "parameter '" + key.substr(0, 64) +
                       "' is not taken: import the model ('falaj models import') and declare a "
                       "Deployment instead");
    }
  }
  return {};
}

Result<Response> load(const InferenceServices& services, const Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  FALAJ_TRY(check_load_parameters(body["parameters"]));
  const security::RequestContext context = FALAJ_TRY(context_of(request, services.catalog));
  FALAJ_TRY(services.deployments.load(context, deployment_name(request)));
  return Response::json("");
}

Result<Response> unload(const InferenceServices& services, const Request& request) {
  FALAJ_TRY(body_of(request));  // Nothing here depends on another model.
  const security::RequestContext context = FALAJ_TRY(context_of(request, services.catalog));
  FALAJ_TRY(services.deployments.unload(context, deployment_name(request)));
  return Response::json("");
}

}  // namespace

std::vector<net::Route> repository_routes(InferenceServices services) {
  const Demand read{"models.read", net::Target::across_projects("Deployment")};
  const Demand promote{"models.promote", net::Target::qualified("Deployment", "model")};
  std::vector<net::Route> routes;
  routes.push_back(inference_route(Method::kPost, "/v2/repository/index", read,
                                   "Every model and its state.",
                                   [&deployments = services.deployments](const Request& request) {
                                     return index(deployments, request);
                                   }));
  routes.push_back(inference_route(
      Method::kGet, "/v2/models/stats", read, "Counts and times of every model.",
      [&deployments = services.deployments](const Request& request) -> Result<Response> {
        return as_json(statistics_document(visible_status(deployments, request)));
      }));
  routes.push_back(
      inference_route(Method::kPost, "/v2/repository/models/{model}/load", promote,
                      "Serves an unloaded deployment again, or tries at once what failed to load.",
                      [services](const Request& request) { return load(services, request); }));
  routes.back().runs_on = net::RunsOn::kPool;  // Reads the model from disk.
  routes.push_back(inference_route(
      Method::kPost, "/v2/repository/models/{model}/unload", promote,
      "Stops serving a deployment until it is loaded again or the server starts anew.",
      [services](const Request& request) { return unload(services, request); }));
  routes.back().runs_on = net::RunsOn::kPool;  // Waits for a load that runs.
  return routes;
}

}  // namespace falaj::api
