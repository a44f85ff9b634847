#include "api/inference/inference_routes.h"

#include <algorithm>
#include <charconv>

#include "api/inference/infer_codec.h"
#include "api/inference/model_documents.h"
#include "api/native/exchange.h"
#include "base/json.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;
using LivePtr = std::shared_ptr<const serving::LiveModel>;

constexpr std::string_view kLengthHeader = "Inference-Header-Content-Length";
// A text of 16 MiB costs about ten times that while it is read.
constexpr std::int64_t kInferBytesMax = 16 << 20;

Response as_json(const Value& value) { return Response::json(to_json(value)); }

std::string param(const Request& request, std::string_view name) {
  const auto found = request.params.find(name);
  return found == request.params.end() ? std::string() : found->second;
}

// "3", or the alias that the deployment follows.
bool names_version(const std::string& wanted, const serving::LiveModel& live) {
  return wanted == std::to_string(live.version.version) ||
         (!live.alias.empty() && wanted == live.alias);
}

// In the project that the gate found, and in no other: without one there is no such model.
Result<LivePtr> find_live(const serving::Deployments& deployments, const Request& request,
                          const std::string& name) {
  const std::string project = found_project(request).value_or("");
  const std::string prefix = project + ".";
  return deployments.find(ProjectName(project),
                          name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

Result<LivePtr> live_model(const serving::Deployments& deployments, const Request& request) {
  const std::string name = param(request, "model");
  LivePtr live = FALAJ_TRY(find_live(deployments, request, name));
  const std::string version = param(request, "version");
  if (!version.empty() && !names_version(version, *live)) {
    return Error(ErrorId::kModelNotFound, "Request for unknown model: '" + name + "' version " +
                                              version + " is not found; version " +
                                              std::to_string(live->version.version) + " serves");
  }
  return live;
}

Result<std::optional<std::size_t>> json_length(const Request& request) {
  const std::string_view text = net::find_header(request.headers, kLengthHeader);
  if (text.empty()) return std::optional<std::size_t>();
  std::size_t length = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (failure != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorId::kInvalidArgument,
                 std::string(kLengthHeader) + " must be a number of bytes");
  }
  return std::optional<std::size_t>(length);
}

Result<InferRequest> read_request(const Request& request, const serving::LiveModel& live) {
  const std::optional<std::size_t> length = FALAJ_TRY(json_length(request));
  if (length == std::size_t{0}) return parse_raw_infer(request.body, live.session->signature());
  return parse_infer(request.body, length);
}

Result<Response> infer(const serving::Deployments& deployments, const Request& request) {
  const std::string_view coding = net::find_header(request.headers, "Content-Encoding");
  if (!coding.empty() && coding != "identity") {
    return Error(ErrorId::kUnimplemented, "Content-Encoding '" + std::string(coding.substr(0, 32)) +
                                              "' is not supported; send the body as it is");
  }
  const LivePtr live = FALAJ_TRY(live_model(deployments, request));
  const std::string name = param(request, "model");
  const InferRequest parsed = FALAJ_TRY(read_request(request, *live));
  FALAJ_TRY(check_inputs(parsed, live->session->signature(), name));
  InferReply reply;
  const std::string version = std::to_string(live->version.version);
  reply.model = name;
  reply.version = version;
  reply.request = &parsed;
  reply.outputs = FALAJ_TRY(deployments.infer(*live, parsed.inputs, request.request_id));
  EncodedReply encoded = FALAJ_TRY(write_infer_reply(reply));

  Response response = Response::json(std::move(encoded.body));
  if (encoded.json_bytes.has_value()) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kLengthHeader, std::to_string(*encoded.json_bytes));
  }
  return response;
}

using Answer = std::function<Result<Response>(const Request&)>;

// What anyone may ask.
const Demand kAnyone{"public.read", net::Target::nothing()};

net::Route route(Method method, std::string_view path, Demand demand, std::string_view summary,
                 Answer answer) {
  net::Route made(method, path, net::Permission(demand.action), std::move(demand.target), summary,
                  [answer = std::move(answer)](const Request& request) {
                    Result<Response> response = answer(request);
                    return response.ok() ? std::move(response).value()
                                         : inference_error(response.error());
                  });
  made.dialect = "inference";
  made.runs_on = net::RunsOn::kLoop;
  return made;
}

Value server_document(const std::string& version) {
  Value value;
  value["name"] = "falaj";
  value["version"] = version;
  value["extensions"] = Value::array();
  for (const char* extension : {"binary_tensor_data", "model_configuration", "model_repository",
                                "parameters", "statistics"}) {
    value["extensions"].push(extension);
  }
  return value;
}

// Ready unless a deployment should answer and cannot: one that waits for its first version is fine.
Result<Response> server_ready(const serving::Deployments& deployments) {
  // Anyone may ask: which deployments, and whose, is for GET /api/v1/deployments.
  if (const std::size_t unready = deployments.unready().size(); unready > 0) {
    return Error(ErrorId::kInvalidArgument,
                 std::to_string(unready) + " deployment(s) have a version that cannot be loaded");
  }
  Value value;
  value["live"] = true;
  value["ready"] = true;
  return as_json(value);
}

std::vector<serving::DeploymentStatus> visible_status(const serving::Deployments& deployments,
                                                      const Request& request) {
  std::vector<serving::DeploymentStatus> statuses = deployments.status();
  std::erase_if(statuses, [&](const serving::DeploymentStatus& status) {
    return !may(request, "models.read", {status.project, "Deployment", status.name, nullptr}) ||
           !reaches(request, status.project);
  });
  return statuses;
}

void add_server_routes(const serving::Deployments& deployments, const std::string& version,
                       std::vector<net::Route>& routes) {
  routes.push_back(route(
      Method::kGet, "/v2", kAnyone, "Server name, version and extensions.",
      [version](const Request&) -> Result<Response> { return as_json(server_document(version)); }));
  routes.push_back(route(Method::kGet, "/v2/health/live", kAnyone, "Whether the server runs.",
                         [](const Request&) -> Result<Response> {
                           Value value;
                           value["live"] = true;
                           return as_json(value);
                         }));
  routes.push_back(route(Method::kGet, "/v2/health/ready", kAnyone,
                         "Whether every deployment that has a version can answer.",
                         [&deployments](const Request&) { return server_ready(deployments); }));
  routes.push_back(route(Method::kPost, "/v2/repository/index",
                         {"models.read", net::Target::across_projects("Deployment")},
                         "Every model and its state.",
                         [&deployments](const Request& request) -> Result<Response> {
                           return as_json(index_document(visible_status(deployments, request)));
                         }));
  routes.push_back(route(
      Method::kGet, "/v2/models/stats", {"models.read", net::Target::across_projects("Deployment")},
      "Counts and times of every model.",
      [&deployments](const Request& request) -> Result<Response> {
        return as_json(statistics_document(visible_status(deployments, request)));
      }));
}

Result<Response> model_statistics(const serving::Deployments& deployments, const Request& request) {
  const LivePtr live = FALAJ_TRY(live_model(deployments, request));
  std::vector<serving::DeploymentStatus> statuses = deployments.status();
  std::erase_if(statuses, [&](const serving::DeploymentStatus& status) {
    return status.project != live->project || status.name != live->deployment;
  });
  return as_json(statistics_document(statuses));
}

Result<Response> model_ready(const serving::Deployments& deployments, const Request& request) {
  const Result<LivePtr> live = live_model(deployments, request);
  if (!live.ok()) {
    // Clients read any status but 200 as "no"; the dialect's own is 400.
    return Error(ErrorId::kInvalidArgument, "Model version not ready: " + live.error().message);
  }
  Value value;
  value["name"] = param(request, "model");
  value["ready"] = true;
  return as_json(value);
}

// Under "/v2/models/{model}" and under "/v2/models/{model}/versions/{version}" alike.
void add_model_routes(const serving::Deployments& deployments, const std::string& base,
                      std::vector<net::Route>& routes) {
  const Demand read{"models.read", net::Target::qualified("Deployment", "model")};
  routes.push_back(route(Method::kGet, base, read, "Names, types and shapes of a model's tensors.",
                         [&deployments](const Request& request) -> Result<Response> {
                           const LivePtr live = FALAJ_TRY(live_model(deployments, request));
                           return as_json(metadata_document(param(request, "model"), live->version,
                                                            live->session->signature()));
                         }));
  routes.push_back(
      route(Method::kGet, base + "/ready", read, "Whether a model can answer.",
            [&deployments](const Request& request) { return model_ready(deployments, request); }));
  routes.push_back(
      route(Method::kGet, base + "/config", read, "How a model is configured.",
            [&deployments](const Request& request) -> Result<Response> {
              const LivePtr live = FALAJ_TRY(live_model(deployments, request));
              return as_json(config_document(param(request, "model"), live->session->signature()));
            }));
  routes.push_back(route(
      Method::kGet, base + "/stats", read, "Counts and times of a model.",
      [&deployments](const Request& request) { return model_statistics(deployments, request); }));
  net::Route infer_route =
      route(Method::kPost, base + "/infer",
            {"serving.predict", net::Target::qualified("Deployment", "model")},
            "Tensors in, tensors out: JSON, or JSON followed by binary tensors.",
            [&deployments](const Request& request) { return infer(deployments, request); });
  // A request may bring megabytes of rows: never on the event loop.
  infer_route.runs_on = net::RunsOn::kPool;
  infer_route.body_bytes_max = kInferBytesMax;
  routes.push_back(std::move(infer_route));
}

int dialect_status(const Error& error) {
  if (error.id == ErrorId::kBodyTooLarge) return 413;
  switch (error.code) {
    case Code::kNotFound:
      return 404;
    case Code::kUnavailable:
      return 503;
    case Code::kUnimplemented:
      return 501;
    case Code::kInternal:
    case Code::kDataLoss:
      return 500;
    case Code::kPermissionDenied:
      return 403;
    case Code::kUnauthenticated:
      return 401;
    case Code::kResourceExhausted:
      return 429;
    default:
      return 400;
  }
}

}  // namespace

Response inference_error(const Error& error) {
  Value value;
  value["error"] = error.message;
  Response response = Response::json(to_json(value), dialect_status(error));
  response.error = error.id;
  return response;
}

std::vector<net::Route> inference_routes(InferenceServices services) {
  std::vector<net::Route> routes;
  add_server_routes(services.deployments, services.version, routes);
  add_model_routes(services.deployments, "/v2/models/{model}", routes);
  add_model_routes(services.deployments, "/v2/models/{model}/versions/{version}", routes);
  return routes;
}

}  // namespace falaj::api
