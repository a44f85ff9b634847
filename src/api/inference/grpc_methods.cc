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

// A model's route with and without its version; both demand the same.
struct ModelRoutes {
  const net::Route* latest;
  const net::Route* versioned;
};

std::string param(const Request& request, std::string_view name) {
  const auto found = request.params.find(name);
  return found == request.params.end() ? std::string() : found->second;
}

// What a message of that form names.
std::function<Status(Request&, Message)> names(QueryForm form) {
  return [form](Request& request, Message message) -> Status {
    GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, form));
    request.params["model"] = std::move(query.name);
    if (!query.version.empty()) request.params["version"] = std::move(query.version);
    if (!query.id.empty()) request.params["id"] = std::move(query.id);
    return {};
  };
}

// The method that asks what `route` asks.
GrpcMethod declared(std::string_view path, GrpcMethod::Kind kind, const net::Route& route,
                    GrpcMethod::Answer answer) {
  const std::string same =
      "As `" + std::string(net::method_name(route.method)) + " " + route.path + "`.";
  GrpcMethod method(path, kind, route.permission, route.target, same, std::move(answer));
  method.declared.dialect = "grpc";
  return method;
}

// One that has its answer at once.
GrpcMethod at_once(std::string_view path, const net::Route& route,
                   std::function<Answer(Request&, Message)> answer) {
  return declared(
      path, GrpcMethod::Kind::kUnary, route,
      [answer = std::move(answer)](Request& request, Message message, const net::GrpcReply& reply) {
        reply(answer(request, message));
      });
}

std::string named(std::string_view method) { return std::string(kService) + std::string(method); }

// What the route answers over HTTP, as a document.
Result<Value> ask(const net::Route& route, Request& request) {
  const Response response = route.sync_handler(request);
  const Result<Value> document =
      response.body.empty() ? Result<Value>(Value()) : parse_json(response.body);
  if (response.status == 200) return document;
  return Error(response.error.value_or(ErrorId::kInternal),
               document.ok() ? document->text("error") : "the answer could not be read");
}

Result<Value> ask_model(const ModelRoutes& routes, Request& request) {
  return ask(param(request, "version").empty() ? *routes.latest : *routes.versioned, request);
}

// A request that was read, with everything that its answer needs.
struct Asked : Addressed {
  GrpcInfer infer;
  Within within = Within::kCall;
  Timing timing;
  Sha256 message = {};  // Of the request, for the receipt.
};

Answer render(Asked& asked, const Request& request, Result<serving::Inference> inference) {
  if (!inference.ok()) return inference.error();
  asked.timing.answered(inference->times);
  const std::vector<ChosenOutput> outputs =
      FALAJ_TRY(choose_outputs(asked.infer.infer, std::move(inference->outputs), asked.infer.model,
                               rows_of(*asked.live), asked.live->labels.get()));
  GrpcReplyForm form{asked.within, {}};
  if (inference->cache != serving::Inference::Cache::kNone) {
    form.parameters.emplace_back("falaj_cache", serving::cache_word(inference->cache));
  }
  if (inference->fallback != nullptr) {
    form.parameters.emplace_back("falaj_fallback", fallback_text(*inference));
  }
  if (asked.receipts != nullptr) {
    security::ReceiptFacts facts =
        receipt_facts(answering(*asked.live, *inference), inference->version, request);
    facts.asked_form = security::HashedForm::kMessage;
    facts.asked = asked.message;
    facts.answered_form = security::HashedForm::kRawOutputs;
    Sha256Hasher hasher;
    for (const ChosenOutput& output : outputs) hasher.update(output.tensor.bytes);
    facts.answered = hasher.finish();
    form.parameters.emplace_back(kReceiptParameter, FALAJ_TRY(asked.receipts->issue(facts)));
  }
  // The times stand in the message that is timed: without the little that its bytes still take.
  const std::string told = asked.timing.rendered(*asked.live);
  if (!told.empty()) form.parameters.emplace_back(kTimingParameter, told);
  return write_grpc_infer(asked.infer, std::to_string(inference->version), outputs, form);
}

// Answers later, perhaps on another thread; the request lives until then.
void infer(const InferenceServices& services, Request& request, Message message, Within within,
           const net::GrpcReply& reply) {
  // Only now: tensors may take eight times their bytes.
  Result<GrpcInfer> asked = parse_grpc_infer(message);
  if (!asked.ok()) return reply(asked.error());
  const Result<Addressed> to = addressed(services, request);
  if (!to.ok()) return reply(to.error());
  const Result<Timing> timing = Timing::begin(request);
  if (!timing.ok()) return reply(timing.error());
  const auto kept = std::make_shared<Asked>(Asked{*to, std::move(asked).value(), within, *timing});
  if (kept->receipts != nullptr) kept->message = sha256(message);
  run_infer(services.deployments, request, kept->live, kept->infer.infer,
            [kept, &request, reply](Result<serving::Inference> inference) {
              reply(render(*kept, request, std::move(inference)));
            });
}

// An error of one request is told in the stream, unless the client wants the stream to end, or has
// no right to it.
Answer tell_in_stream(const Request& request, const Error& error) {
  const bool ends = error.code == Code::kUnauthenticated || error.code == Code::kPermissionDenied ||
                    net::find_header(request.headers, "triton_grpc_error") == "true";
  if (ends) return error;
  return wrap_stream_error(error.message, param(request, "id"));
}

class Routes {
 public:
  explicit Routes(const net::Router& router) : router_(router) {}

  const net::Route& find(Method method, std::string_view path) const {
    const auto& routes = router_.routes();
    const auto found = std::find_if(routes.begin(), routes.end(), [&](const auto& each) {
      return each->method == method && each->path == path;
    });
    FALAJ_CHECK(found != routes.end());
    return **found;
  }
  ModelRoutes of_model(Method method, const std::string& suffix) const {
    const net::Route& latest = find(method, "/v2/models/{model}" + suffix);
    const net::Route& versioned = find(method, "/v2/models/{model}/versions/{version}" + suffix);
    FALAJ_CHECK(latest.permission.action() == versioned.permission.action() &&
                latest.target.text() == versioned.target.text());
    return {&latest, &versioned};
  }

 private:
  const net::Router& router_;
};

void add_server_methods(const Routes& routes, std::vector<GrpcMethod>& out) {
  const net::Route& live = routes.find(Method::kGet, "/v2/health/live");
  out.push_back(at_once(named("ServerLive"), live, [&live](Request& request, Message) -> Answer {
    FALAJ_TRY(ask(live, request));
    return write_grpc_truth(true);
  }));
  const net::Route& ready = routes.find(Method::kGet, "/v2/health/ready");
  out.push_back(at_once(named("ServerReady"), ready, [&ready](Request& request, Message) -> Answer {
    return write_grpc_truth(ask(ready, request).ok());
  }));
  const net::Route& metadata = routes.find(Method::kGet, "/v2");
  out.push_back(
      at_once(named("ServerMetadata"), metadata, [&metadata](Request& request, Message) -> Answer {
        const Value document = FALAJ_TRY(ask(metadata, request));
        return write_server_metadata(document);
      }));
  // 1: serving, 2: not serving. A service of another name is not known here.
  out.push_back(at_once(
      "/grpc.health.v1.Health/Check", ready, [&ready](Request& request, Message message) -> Answer {
        const GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, QueryForm::kModel));
        if (!query.name.empty() && query.name != "inference.GRPCInferenceService") {
          return Error(Code::kNotFound, "there is no service of that name");
        }
        return ask(ready, request).ok() ? std::string("\x08\x01") : std::string("\x08\x02");
      }));
}

// As over HTTP: what is not there, or not to be seen, is not ready.
Answer not_ready(const Request&, const Error& error) {
  const bool no = error.code == Code::kInvalidArgument || error.code == Code::kNotFound;
  if (!no) return error;
  return write_grpc_truth(false);
}

void add_model_methods(const Routes& routes, std::vector<GrpcMethod>& out) {
  const auto add = [&](std::string_view name, const std::string& suffix,
                       std::string (*write)(const Value&)) -> GrpcMethod& {
    const ModelRoutes model = routes.of_model(Method::kGet, suffix);
    out.push_back(
        at_once(named(name), *model.latest, [model, write](Request& request, Message) -> Answer {
          const Value document = FALAJ_TRY(ask_model(model, request));
          return write(document);
        }));
    out.back().name = names(QueryForm::kModel);
    return out.back();
  };
  add("ModelMetadata", "", write_model_metadata);
  add("ModelConfig", "/config", write_model_config);
  GrpcMethod& ready =
      add("ModelReady", "/ready", [](const Value&) { return write_grpc_truth(true); });
  ready.refused = not_ready;
  ready.answer = [inner = ready.answer](Request& request, Message message,
                                        const net::GrpcReply& reply) {
    inner(request, message, [&request, reply](const Answer& answer) {
      reply(answer.ok() ? answer : not_ready(request, answer.error()));
    });
  };
  GrpcMethod& statistics = add("ModelStatistics", "/stats", write_statistics);
  const net::Route& all = routes.find(Method::kGet, "/v2/models/stats");
  statistics.unnamed = declared(named("ModelStatistics"), statistics.kind, all, nullptr).declared;
  statistics.answer = [inner = statistics.answer, &all](Request& request, Message message,
                                                        const net::GrpcReply& reply) {
    if (!param(request, "model").empty()) return inner(request, message, reply);
    const Result<Value> document = ask(all, request);
    reply(document.ok() ? Answer(write_statistics(*document)) : Answer(document.error()));
  };
}

void add_repository_methods(const Routes& routes, std::vector<GrpcMethod>& out) {
  const net::Route& index = routes.find(Method::kPost, "/v2/repository/index");
  out.push_back(at_once(
      named("RepositoryIndex"), index, [&index](Request& request, Message message) -> Answer {
        const GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, QueryForm::kIndex));
        request.body = query.ready ? R"({"ready":true})" : "";
        const Value document = FALAJ_TRY(ask(index, request));
        return write_index(document);
      }));
  for (const auto& [name, path] : std::vector<std::pair<std::string, std::string>>{
           {"RepositoryModelLoad", "/v2/repository/models/{model}/load"},
           {"RepositoryModelUnload", "/v2/repository/models/{model}/unload"}}) {
    const net::Route& route = routes.find(Method::kPost, path);
    out.push_back(
        at_once(named(name), route, [&route](Request& request, Message message) -> Answer {
          const GrpcQuery query = FALAJ_TRY(parse_grpc_query(message, QueryForm::kRepositoryModel));
          Value body;
          body["parameters"] = query.parameters;
          request.body = to_json(body);
          FALAJ_TRY(ask(route, request));
          return std::string();
        }));
    out.back().name = names(QueryForm::kRepositoryModel);
  }
}

void add_infer_methods(const InferenceServices& given, const Routes& routes,
                       std::vector<GrpcMethod>& out) {
  const auto services = std::make_shared<const InferenceServices>(given);
  const net::Route& route = *routes.of_model(Method::kPost, "/infer").latest;
  out.push_back(
      declared(named("ModelInfer"), GrpcMethod::Kind::kUnary, route,
               [services](Request& request, Message message, const net::GrpcReply& reply) {
                 infer(*services, request, message, Within::kCall, reply);
               }));
  out.back().name = names(QueryForm::kModel);
  out.push_back(
      declared(named("ModelStreamInfer"), GrpcMethod::Kind::kStream, route,
               [services](Request& request, Message message, const net::GrpcReply& reply) {
                 infer(*services, request, message, Within::kStream,
                       [&request, reply](const Answer& answer) {
                         reply(answer.ok() ? Answer(wrap_stream_response(*answer))
                                           : tell_in_stream(request, answer.error()));
                       });
               }));
  out.back().name = names(QueryForm::kModel);
  out.back().refused = tell_in_stream;
}

}  // namespace

std::vector<GrpcMethod> grpc_methods(const GrpcParts& parts) {
  const Routes routes(parts.router);
  std::vector<GrpcMethod> out;
  add_server_methods(routes, out);
  add_model_methods(routes, out);
  add_repository_methods(routes, out);
  add_infer_methods(parts.services, routes, out);
  return out;
}

}  // namespace falaj::api
