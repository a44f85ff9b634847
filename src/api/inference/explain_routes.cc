// Why a model answers as it does: the request of an inference, the reply an explanation.
#include "api/explanation.h"
#include "api/inference/internal/routes.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;

struct Asked {
  InferRequest infer;
  serving::ExplainJob job;
};

Result<Asked> read_request(const Request& request, const serving::LiveModel& live) {
  const std::optional<std::size_t> length = FALAJ_TRY(json_length(request));
  std::string unpacked;
  const std::string_view body = FALAJ_TRY(plain_body(request, unpacked));
  Asked asked;
  asked.infer = FALAJ_TRY(parse_infer(body, length));
  serving::explain::Question& question = asked.job.question;
  FALAJ_TRY(
      parse_explain_parameters(body.substr(0, length.value_or(std::string_view::npos)), question));
  if (asked.infer.outputs.size() > 1) {
    return Error(ErrorId::kInvalidArgument, "one output is explained at a time");
  }
  if (!asked.infer.outputs.empty()) question.output = asked.infer.outputs[0].name;
  if (asked.infer.timeout.nanos > 0) {
    question.budget = std::min(question.budget, asked.infer.timeout);
  }
  FALAJ_TRY(check_inputs(asked.infer, live.session->signature(), path_param(request, "model")));
  question.inputs = std::move(asked.infer.inputs);
  asked.job.deadline = request.deadline;
  asked.job.gone = request.gone;
  return asked;
}

Result<Response> explain(const serving::Deployments& deployments, const Request& request) {
  const LivePtr live = FALAJ_TRY(live_model(deployments, request));
  const Asked asked = FALAJ_TRY(read_request(request, *live));
  Value value = to_value(FALAJ_TRY(deployments.explain(*live, asked.job)));
  value["model_name"] = path_param(request, "model");
  value["model_version"] = std::to_string(live->version.version);
  if (asked.infer.id.has_value()) value["id"] = *asked.infer.id;
  Response response = as_json(value);
  FALAJ_TRY(pack_reply(request, response));
  return response;
}

}  // namespace

std::vector<net::Route> explain_routes(InferenceServices services) {
  serving::Deployments& deployments = services.deployments;
  std::vector<net::Route> routes;
  for (const char* path :
       {"/v2/models/{model}/explain", "/v2/models/{model}/versions/{version}/explain"}) {
    net::Route route = inference_route(
        Method::kPost, path, {"serving.predict", net::Target::qualified("Deployment", "model")},
        "What each feature added to a model's answer: exactly for trees, by sampling for others.",
        [&deployments](const Request& request) { return explain(deployments, request); });
    route.runs_on = net::RunsOn::kPool;  // Takes up to its budget.
    route.body_bytes_max = kInferBytesMax;
    routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace falaj::api
