#include "api/inference/grpc_methods.h"

#include <algorithm>

#include "api/inference/grpc_codec.h"
#include "api/inference/internal/routes.h"
#include "base/check.h"

namespace falaj::api {
namespace {

using net::GrpcMethod;
using net::Method;
using net::Request;
using net::Response;
using Message = std::string_view;
using Answer = Result<std::string>;

constexpr std::string_view kService = "/inference.GRPCInferenceService/";

// A method that has its answer at once.
GrpcMethod at_once(std::string path, std::function<Answer(Request&, Message)> answer) {
  return {std::move(path), GrpcMethod::Kind::kUnary,
          [answer = std::move(answer)](Request& request, Message message, net::GrpcReply reply) {
            reply(answer(request, message));
          }};
}

// A model's route with and without its version.
struct ModelRoutes {
  const net::Route* latest;
  const net::Route* versioned;
};

class Methods {
 public:
  explicit Methods(GrpcParts parts) : parts_(std::move(parts)) {}

  const net::Route* route(Method method, std::string_view path) const {
    const auto& routes = parts_.router.routes();
    const auto found = std::find_if(routes.begin(), routes.end(), [&](const auto& each) {
      return each->method == method && each->path == path;
    });
    FALAJ_CHECK(found != routes.end());
    return found->get();
  }
  ModelRoutes model_routes(Method method, const std::string& suffix) const {
    return {route(method, "/v2/models/{model}" + suffix),
            route(method, "/v2/models/{model}/versions/{version}" + suffix)};
  }

  // Asks the gate as the route would be asked.
  Status pass(const net::Route& route, Request& request) const {
    request.method = route.method;
    if (parts_.gate == nullptr) return {};
    return parts_.gate(route, request);
  }
  static void name(Request& request, const std::string& model, const std::string& version) {
    request.params.clear();
    request.params["model"] = model;
    if (!version.empty()) request.params["version"] = version;
  }
  // What the route answers over HTTP, as a document.
  Result<Value> ask(const net::Route& route, Request& request) const {
    FALAJ_TRY(pass(route, request));
    const Response response = route.sync_handler(request);
    const Result<Value> document =
        response.body.empty() ? Result<Value>(Value()) : parse_json(response.body);
    if (response.status == 200) return document;
    return Error(response.error.value_or(ErrorId::kInternal),
                 document.ok() ? document->text("error") : "the answer could not be read");
  }
  Result<Value> ask_model(const ModelRoutes& routes, Request& request, Message message) const {
    const GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, QueryForm::kModel));
    name(request, query.name, query.version);
    return ask(query.version.empty() ? *routes.latest : *routes.versioned, request);
  }

  // The gate is asked before the tensors are read: they may take eight times their bytes.
  Result<GrpcInfer> admit(const ModelRoutes& routes, Request& request, const GrpcQuery& query,
                          Message message) const {
    name(request, query.name, query.version);
    FALAJ_TRY(pass(query.version.empty() ? *routes.latest : *routes.versioned, request));
    return parse_grpc_infer(message);
  }

  // Answers later, perhaps on another thread; the request lives until then.
  void infer(const ModelRoutes& routes, Request& request, Message message, Within within,
             const net::GrpcReply& reply) const {
    const Result<GrpcQuery> query = parse_grpc_query(message, QueryForm::kModel);
    if (!query.ok()) return reply(query.error());
    Result<GrpcInfer> asked = admit(routes, request, *query, message);
    if (!asked.ok()) return reply(asked.error());
    const Result<Addressed> to = addressed(parts_.services, request);
    if (!to.ok()) return reply(to.error());
    const auto kept = std::make_shared<Asked>(Asked{*to, std::move(asked).value(), within, {}});
    if (kept->receipts != nullptr) kept->message = sha256(message);
    run_infer(parts_.services.deployments, request, kept->live, kept->infer.infer,
              [kept, &request, reply](Result<serving::Inference> inference) {
                reply(render(*kept, request, std::move(inference)));
              });
  }

  // An error of one request is told in the stream, unless the client wants the stream to end, or
  // has no right to it.
  void stream(const ModelRoutes& routes, Request& request, Message message,
              const net::GrpcReply& reply) const {
    const Result<GrpcQuery> query = parse_grpc_query(message, QueryForm::kModel);
    const std::string id = query.ok() ? query->id : "";
    const net::GrpcReply wrapped = [&request, id, reply](const Answer& answer) {
      if (answer.ok()) return reply(wrap_stream_response(*answer));
      if (ends_stream(answer.error().code, request)) return reply(answer);
      reply(wrap_stream_error(answer.error().message, id));
    };
    infer(routes, request, message, Within::kStream, wrapped);
  }

 private:
  static bool ends_stream(Code code, const Request& request) {
    return code == Code::kUnauthenticated || code == Code::kPermissionDenied ||
           net::find_header(request.headers, "triton_grpc_error") == "true";
  }
  // A request that was read, with everything that its answer needs.
  struct Asked : Addressed {
    GrpcInfer infer;
    Within within = Within::kCall;
    Sha256 message;  // Of the request, for the receipt.
  };
  static Answer render(const Asked& asked, const Request& request,
                       Result<serving::Inference> inference) {
    if (!inference.ok()) return inference.error();
    const std::vector<ChosenOutput> outputs = FALAJ_TRY(choose_outputs(
        asked.infer.infer, std::move(inference->outputs), asked.infer.model, rows_of(*asked.live)));
    GrpcReplyForm form{asked.within, {}};
    if (inference->cache != serving::Inference::Cache::kNone) {
      form.parameters.emplace_back("falaj_cache", serving::cache_word(inference->cache));
    }
    if (asked.receipts != nullptr) {
      security::ReceiptFacts facts = receipt_facts(*asked.live, inference->version, request);
      facts.asked_form = security::HashedForm::kMessage;
      facts.asked = asked.message;
      facts.answered_form = security::HashedForm::kRawOutputs;
      Sha256Hasher hasher;
      for (const ChosenOutput& output : outputs) hasher.update(output.tensor.bytes);
      facts.answered = hasher.finish();
      form.parameters.emplace_back(kReceiptParameter, FALAJ_TRY(asked.receipts->issue(facts)));
    }
    return write_grpc_infer(asked.infer, std::to_string(inference->version), outputs, form);
  }

  GrpcParts parts_;
};

using MethodsPtr = std::shared_ptr<const Methods>;

void add_server_methods(const MethodsPtr& methods, std::vector<GrpcMethod>& out) {
  const auto add = [&](std::string_view name, std::function<Answer(Request&)> answer) {
    out.push_back(at_once(std::string(kService) + std::string(name),
                          [answer = std::move(answer)](Request& request, Message) {
                            request.params.clear();
                            return answer(request);
                          }));
  };
  const net::Route* live = methods->route(Method::kGet, "/v2/health/live");
  add("ServerLive", [methods, live](Request& request) -> Answer {
    FALAJ_TRY(methods->ask(*live, request));
    return write_grpc_truth(true);
  });
  const net::Route* ready = methods->route(Method::kGet, "/v2/health/ready");
  const auto is_ready = [methods, ready](Request& request) {
    return methods->ask(*ready, request).ok();
  };
  add("ServerReady",
      [is_ready](Request& request) -> Answer { return write_grpc_truth(is_ready(request)); });
  const net::Route* metadata = methods->route(Method::kGet, "/v2");
  add("ServerMetadata", [methods, metadata](Request& request) -> Answer {
    const Value document = FALAJ_TRY(methods->ask(*metadata, request));
    return write_server_metadata(document);
  });
  // 1: serving, 2: not serving. A service of another name is not known here.
  out.push_back(at_once(
      "/grpc.health.v1.Health/Check", [is_ready](Request& request, Message message) -> Answer {
        const GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, QueryForm::kModel));
        if (!query.name.empty() && query.name != "inference.GRPCInferenceService") {
          return Error(Code::kNotFound, "there is no service of that name");
        }
        request.params.clear();
        return is_ready(request) ? std::string("\x08\x01") : std::string("\x08\x02");
      }));
}

void add_model_methods(const MethodsPtr& methods, std::vector<GrpcMethod>& out) {
  using Write = std::string (*)(const Value&);
  const auto add = [&](std::string_view name, const std::string& suffix, Write write) {
    out.push_back(at_once(std::string(kService) + std::string(name),
                          [methods, routes = methods->model_routes(Method::kGet, suffix), write](
                              Request& request, Message message) -> Answer {
                            const Value document =
                                FALAJ_TRY(methods->ask_model(routes, request, message));
                            return write(document);
                          }));
  };
  add("ModelMetadata", "", write_model_metadata);
  add("ModelConfig", "/config", write_model_config);
  out.push_back(at_once(std::string(kService) + "ModelReady",
                        [methods, routes = methods->model_routes(Method::kGet, "/ready")](
                            Request& request, Message message) -> Answer {
                          const Result<Value> ready = methods->ask_model(routes, request, message);
                          // As over HTTP: what is not there, or not to be seen, is not ready.
                          const bool no =
                              !ready.ok() && (ready.error().code == Code::kInvalidArgument ||
                                              ready.error().code == Code::kNotFound);
                          if (!ready.ok() && !no) return ready.error();
                          return write_grpc_truth(!no);
                        }));
  out.push_back(at_once(std::string(kService) + "ModelStatistics",
                        [methods, routes = methods->model_routes(Method::kGet, "/stats"),
                         all = methods->route(Method::kGet, "/v2/models/stats")](
                            Request& request, Message message) -> Answer {
                          const GrpcQuery query =
                              FALAJ_TRY(parse_grpc_query(message, QueryForm::kModel));
                          request.params.clear();
                          const Value document =
                              query.name.empty()
                                  ? FALAJ_TRY(methods->ask(*all, request))
                                  : FALAJ_TRY(methods->ask_model(routes, request, message));
                          return write_statistics(document);
                        }));
}

void add_repository_methods(const MethodsPtr& methods, std::vector<GrpcMethod>& out) {
  out.push_back(at_once(std::string(kService) + "RepositoryIndex",
                        [methods, route = methods->route(Method::kPost, "/v2/repository/index")](
                            Request& request, Message message) -> Answer {
                          const GrpcQuery query =
                              FALAJ_TRY(parse_grpc_query(message, QueryForm::kIndex));
                          request.params.clear();
                          request.body = query.ready ? R"({"ready":true})" : "";
                          const Value document = FALAJ_TRY(methods->ask(*route, request));
                          return write_index(document);
                        }));
  for (const auto& [name, path] : std::vector<std::pair<std::string, std::string>>{
           {"RepositoryModelLoad", "/v2/repository/models/{model}/load"},
           {"RepositoryModelUnload", "/v2/repository/models/{model}/unload"}}) {
    out.push_back(at_once(std::string(kService) + name,
                          [methods, route = methods->route(Method::kPost, path)](
                              Request& request, Message message) -> Answer {
                            const GrpcQuery query =
                                FALAJ_TRY(parse_grpc_query(message, QueryForm::kRepositoryModel));
                            Methods::name(request, query.name, "");
                            Value body;
                            body["parameters"] = query.parameters;
                            request.body = to_json(body);
                            FALAJ_TRY(methods->ask(*route, request));
                            return std::string();
                          }));
  }
}

}  // namespace

std::vector<GrpcMethod> grpc_methods(GrpcParts parts) {
  const auto methods = std::make_shared<const Methods>(std::move(parts));
  std::vector<GrpcMethod> out;
  add_server_methods(methods, out);
  add_model_methods(methods, out);
  add_repository_methods(methods, out);
  const ModelRoutes infer = methods->model_routes(Method::kPost, "/infer");
  out.push_back({std::string(kService) + "ModelInfer", GrpcMethod::Kind::kUnary,
                 [methods, infer](Request& request, Message message, net::GrpcReply reply) {
                   methods->infer(infer, request, message, Within::kCall, reply);
                 }});
  out.push_back({std::string(kService) + "ModelStreamInfer", GrpcMethod::Kind::kStream,
                 [methods, infer](Request& request, Message message, net::GrpcReply reply) {
                   methods->stream(infer, request, message, reply);
                 }});
  return out;
}

}  // namespace falaj::api
