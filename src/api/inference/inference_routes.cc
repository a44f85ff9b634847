#include "api/inference/inference_routes.h"

#include <algorithm>
#include <charconv>

#include "api/inference/internal/routes.h"
#include "api/inference/model_documents.h"
#include "net/compression.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;

constexpr std::string_view kLengthHeader = "Inference-Header-Content-Length";
// Smaller replies are quicker to send than to pack: many clients list codings by themselves.
constexpr std::size_t kPackedBytesMin = 32 << 10;

// "3", or the alias that the deployment follows; null when nothing of that name serves.
LivePtr version_named(const std::string& wanted, const LivePtr& live) {
  if (!live->alias.empty() && wanted == live->alias) return live;
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (failure != std::errc() || end != wanted.data() + wanted.size()) return nullptr;
  return serving::version_of(live, number);
}

// "version 3 serves", or "versions 2, 3 serve".
std::string what_serves(const serving::LiveModel& live) {
  std::string text = std::to_string(live.version.version);
  for (const auto& other : live.others) text += ", " + std::to_string(other->version.version);
  return live.others.empty() ? "version " + text + " serves" : "versions " + text + " serve";
}

Result<InferRequest> read_request(const Request& request, const serving::LiveModel& live) {
  const std::optional<std::size_t> length = FALAJ_TRY(json_length(request));
  std::string unpacked;
  const std::string_view body = FALAJ_TRY(plain_body(request, unpacked));
  if (length == std::size_t{0}) return parse_raw_infer(body, live.session->signature());
  return parse_infer(body, length);
}

// A request that was read, with everything that its answer needs.
struct Asked : Addressed {
  InferRequest infer;
  Timing timing;
};

Result<Response> render(const Request& request, Asked& asked,
                        Result<serving::Inference> inference) {
  if (!inference.ok()) return inference.error();
  asked.timing.answered(inference->times);
  const std::string name = path_param(request, "model");
  const std::string version = std::to_string(inference->version);
  EncodedReply encoded =
      FALAJ_TRY(write_infer_reply({name, version, &asked.infer, std::move(inference->outputs),
                                   rows_of(*asked.live), asked.live->labels.get()}));
  Response response = Response::json(std::move(encoded.body));
  if (encoded.json_bytes.has_value()) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kLengthHeader, std::to_string(*encoded.json_bytes));
  }
  add_cache_header(inference->cache, response);
  add_fallback_header(*inference, response);
  if (asked.receipts != nullptr) {
    FALAJ_TRY(
        add_receipt(*asked.receipts,
                    receipt_facts(answering(*asked.live, *inference), inference->version, request),
                    request, response));
  }
  FALAJ_TRY(pack_reply(request, response));
  asked.timing.rendered(*asked.live, response);
  return response;
}

void infer(const InferenceServices& services, const Request& request, const net::Reply& reply) {
  Result<Addressed> to = addressed(services, request);
  if (!to.ok()) return reply(inference_error(to.error()));
  Result<InferRequest> parsed = read_request(request, *to->live);
  if (!parsed.ok()) return reply(inference_error(parsed.error()));
  const Result<Timing> timing = Timing::begin(request);
  if (!timing.ok()) return reply(inference_error(timing.error()));
  const auto asked = std::make_shared<Asked>(Asked{*to, std::move(parsed).value(), *timing});
  run_infer(
      services.deployments, request, asked->live, asked->infer,
      [&request, asked, reply](Result<serving::Inference> inference) {
        Result<Response> response = render(request, *asked, std::move(inference));
        reply(response.ok() ? std::move(response).value() : inference_error(response.error()));
      });
}

// What anyone may ask, and every known caller.
const Demand kAnyone{"public.read", net::Target::nothing()};
const Demand kKnown{"account.use", net::Target::platform("Server")};

Value server_document(const std::string& version) {
  Value value;
  value["name"] = "falaj";
  value["version"] = version;
  value["extensions"] = Value::array();
  for (const char* extension :
       {"binary_tensor_data", "classification", "model_configuration", "model_repository",
        "parameters", "schedule_policy", "statistics"}) {
    value["extensions"].push(extension);
  }
  return value;
}

// Ready unless a deployment should answer and cannot: one that waits for its first version is fine.
Result<Response> server_ready(const serving::Deployments& deployments) {
  // Anyone may ask: which deployments, how many and whose, is for GET /api/v1/deployments.
  if (!deployments.unready().empty()) {
    return Error(ErrorId::kInvalidArgument, "a version that should serve cannot be loaded");
  }
  Value value;
  value["live"] = true;
  value["ready"] = true;
  return as_json(value);
}

void add_server_routes(const serving::Deployments& deployments, const std::string& version,
                       std::vector<net::Route>& routes) {
  routes.push_back(inference_route(
      Method::kGet, "/v2", kKnown, "Server name, version and extensions.",
      [version](const Request&) -> Result<Response> { return as_json(server_document(version)); }));
  routes.push_back(inference_route(Method::kGet, "/v2/health/live", kAnyone,
                                   "Whether the server runs.",
                                   [](const Request&) -> Result<Response> {
                                     Value value;
                                     value["live"] = true;
                                     return as_json(value);
                                   }));
  routes.push_back(
      inference_route(Method::kGet, "/v2/health/ready", kAnyone,
                      "Whether every deployment that has a version can answer.",
                      [&deployments](const Request&) { return server_ready(deployments); }));
}

Result<Response> model_statistics(const serving::Deployments& deployments, const Request& request) {
  if (!names_idle(deployments, request)) FALAJ_TRY(live_model(deployments, request));
  const std::string project = found_project(request).value_or("");
  const std::string name = deployment_name(request);
  std::vector<serving::DeploymentStatus> statuses = deployments.status();
  std::erase_if(statuses, [&](const serving::DeploymentStatus& status) {
    return status.project != project || status.name != name;
  });
  return as_json(statistics_document(statuses, path_param(request, "version")));
}

Result<Response> model_ready(const serving::Deployments& deployments, const Request& request) {
  const Result<LivePtr> live =
      names_idle(deployments, request) ? LivePtr() : live_model(deployments, request);
  if (!live.ok()) {
    // Clients read any status but 200 as "no"; the dialect's own is 400.
    return Error(ErrorId::kInvalidArgument, "Model version not ready: " + live.error().message);
  }
  Value value;
  value["name"] = path_param(request, "model");
  value["ready"] = true;
  return as_json(value);
}

// Under "/v2/models/{model}" and under "/v2/models/{model}/versions/{version}" alike.
void add_model_routes(const InferenceServices& services, const std::string& base,
                      std::vector<net::Route>& routes) {
  const serving::Deployments& deployments = services.deployments;
  const Demand read{"models.read", net::Target::qualified("Deployment", "model")};
  routes.push_back(
      inference_route(Method::kGet, base, read, "Names, types and shapes of a model's tensors.",
                      [&deployments](const Request& request) -> Result<Response> {
                        const LivePtr live = FALAJ_TRY(live_model(deployments, request));
                        return as_json(metadata_document(path_param(request, "model"), *live));
                      }));
  routes.push_back(inference_route(
      Method::kGet, base + "/ready", read, "Whether a model can answer.",
      [&deployments](const Request& request) { return model_ready(deployments, request); }));
  routes.push_back(
      inference_route(Method::kGet, base + "/config", read, "How a model is configured.",
                      [&deployments](const Request& request) -> Result<Response> {
                        const LivePtr live = FALAJ_TRY(live_model(deployments, request));
                        return as_json(config_document(path_param(request, "model"), *live));
                      }));
  routes.push_back(inference_route(
      Method::kGet, base + "/stats", read, "Counts and times of a model.",
      [&deployments](const Request& request) { return model_statistics(deployments, request); }));
  net::Route infer_route =
      later_route(Method::kPost, base + "/infer",
                  {"serving.predict", net::Target::qualified("Deployment", "model")},
                  "Tensors in, tensors out: JSON, or JSON followed by binary tensors.",
                  [services](const Request& request, const net::Reply& reply) {
                    infer(services, request, reply);
                  });
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
    case Code::kDeadlineExceeded:
      return 504;
    default:
      return 400;
  }
}

}  // namespace

std::string path_param(const Request& request, std::string_view name) {
  const auto found = request.params.find(name);
  return found == request.params.end() ? std::string() : found->second;
}

net::Route inference_route(Method method, std::string_view path, Demand demand,
                           std::string_view summary, InferenceAnswer answer) {
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

std::string deployment_name(const Request& request) {
  const std::string name = path_param(request, "model");
  const std::string prefix = found_project(request).value_or("") + ".";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Result<LivePtr> live_model(const serving::Deployments& deployments, const Request& request) {
  const std::string name = path_param(request, "model");
  LivePtr live = FALAJ_TRY(deployments.find_awake(ProjectName(found_project(request).value_or("")),
                                                  deployment_name(request), request.deadline));
  const std::string version = path_param(request, "version");
  if (version.empty()) return live;
  if (LivePtr named = version_named(version, live); named != nullptr) return named;
  return Error(ErrorId::kModelNotFound, "Request for unknown model: '" + name + "' version " +
                                            version + " is not found; " + what_serves(*live));
}

bool names_idle(const serving::Deployments& deployments, const Request& request) {
  return path_param(request, "version").empty() &&
         deployments.is_idle(ProjectName(found_project(request).value_or("")),
                             deployment_name(request));
}

Result<Addressed> addressed(const InferenceServices& services, const Request& request) {
  Addressed to;
  to.live = FALAJ_TRY(live_model(services.deployments, request));
  to.receipts = FALAJ_TRY(wanted_receipt(request, services.receipts));
  return to;
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

Rows rows_of(const serving::LiveModel& live) {
  return has_batch(live.session->signature()) ? Rows::kFirstDimension : Rows::kNone;
}

net::Route later_route(Method method, std::string_view path, Demand demand,
                       std::string_view summary, net::Handler handler) {
  net::Route made(method, path, net::Permission(demand.action), std::move(demand.target), summary,
                  nullptr);
  made.handler = std::move(handler);
  made.dialect = "inference";
  made.runs_on = net::RunsOn::kPool;  // A request may bring megabytes: never on the event loop.
  return made;
}

void run_infer(const serving::Deployments& deployments, const Request& request, const LivePtr& live,
               InferRequest& parsed, serving::InferDone done) {
  const Status checked =
      check_inputs(parsed, live->session->signature(), path_param(request, "model"));
  if (!checked.ok()) return done(checked.error());
  serving::InferJob job;
  job.inputs = std::move(parsed.inputs);
  job.request_id = request.request_id;
  job.share =
      path_param(request, "version").empty() ? serving::MayShare::kYes : serving::MayShare::kNo;
  job.tenant = principal_of(request).id;
  job.priority = parsed.priority;
  job.timeout = parsed.timeout;
  job.deadline = request.deadline;
  job.gone = request.gone;
  deployments.infer(live, std::move(job), std::move(done));
}

Result<std::string_view> plain_body(const Request& request, std::string& unpacked) {
  const std::string_view named = net::find_header(request.headers, "Content-Encoding");
  const std::optional<net::Coding> coding = net::parse_coding(named);
  if (!coding.has_value()) {
    return Error(ErrorId::kUnimplemented, "Content-Encoding '" + std::string(named.substr(0, 32)) +
                                              "' is not supported; send gzip, deflate or the " +
                                              "body as it is");
  }
  if (*coding == net::Coding::kIdentity) return std::string_view(request.body);
  const std::size_t most = net::inflated_max(request.body.size(), kInferBytesMax);
  unpacked = FALAJ_TRY(net::inflate(request.body, *coding, most));
  return std::string_view(unpacked);
}

void add_cache_header(serving::Inference::Cache cache, Response& response) {
  if (cache == serving::Inference::Cache::kNone) return;
  response.headers.emplace_back("X-Falaj-Cache", serving::cache_word(cache));
}

std::string fallback_text(const serving::Inference& inference) {
  if (inference.fallback == nullptr) return "";
  const registry::ModelVersion& version = inference.fallback->version;
  return version.model + "/" + std::to_string(version.version);
}

void add_fallback_header(const serving::Inference& inference, Response& response) {
  if (inference.fallback == nullptr) return;
  response.headers.emplace_back("X-Falaj-Fallback", fallback_text(inference));
}

Status pack_reply(const Request& request, Response& response) {
  if (response.body.size() < kPackedBytesMin) return {};
  const net::Coding coding =
      net::accepted_coding(net::find_header(request.headers, "Accept-Encoding"));
  if (coding == net::Coding::kIdentity) return {};
  response.body = FALAJ_TRY(net::deflate(response.body, coding));
  response.headers.emplace_back("Content-Encoding", net::coding_name(coding));
  response.headers.emplace_back("Vary", "Accept-Encoding");
  return {};
}

Response inference_error(const Error& error) {
  Value value;
  value["error"] = error.message;
  Response response = Response::json(to_json(value), dialect_status(error));
  response.error = error.id;
  // What a client that packed its request otherwise may send instead.
  if (response.status == 501) response.headers.emplace_back("Accept-Encoding", "gzip, deflate");
  if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::vector<net::Route> inference_routes(InferenceServices services) {
  std::vector<net::Route> routes;
  add_server_routes(services.deployments, services.version, routes);
  add_model_routes(services, "/v2/models/{model}", routes);
  add_model_routes(services, "/v2/models/{model}/versions/{version}", routes);
  for (net::Route& route : explain_routes(services)) routes.push_back(std::move(route));
  for (net::Route& route : repository_routes(services)) routes.push_back(std::move(route));
  for (net::Route& route : v1_routes(services)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace falaj::api
