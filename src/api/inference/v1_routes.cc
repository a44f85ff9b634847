// KServe's V1 protocol as a thin extra: lists in, lists out.
#include "api/inference/internal/routes.h"
#include "api/inference/v1_codec.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;

Result<V1Request> read_request(const Request& request, const serving::LiveModel& live) {
  std::string unpacked;
  const std::string_view body = FALAJ_TRY(plain_body(request, unpacked));
  return parse_v1(body, live.session->signature());
}

// A request that was read, with everything that its answer needs.
struct Asked : Addressed {
  V1Request request;
  Timing timing;
};

Result<Response> render(const Request& request, Asked& asked,
                        const Result<serving::Inference>& inference) {
  if (!inference.ok()) return inference.error();
  asked.timing.answered(inference->times);
  std::string text = FALAJ_TRY(write_v1(asked.request.form, inference->outputs));
  Response response = Response::json(std::move(text));
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

void predict(const InferenceServices& services, const Request& request, const net::Reply& reply) {
  Result<Addressed> to = addressed(services, request);
  if (!to.ok()) return reply(inference_error(to.error()));
  Result<V1Request> parsed = read_request(request, *to->live);
  if (!parsed.ok()) return reply(inference_error(parsed.error()));
  const Result<Timing> timing = Timing::begin(request);
  if (!timing.ok()) return reply(inference_error(timing.error()));
  const auto asked = std::make_shared<Asked>(Asked{*to, std::move(parsed).value(), *timing});
  run_infer(
      services.deployments, request, asked->live, asked->request.infer,
      [&request, asked, reply](const Result<serving::Inference>& inference) {
        Result<Response> response = render(request, *asked, inference);
        reply(response.ok() ? std::move(response).value() : inference_error(response.error()));
      });
}

}  // namespace

std::vector<net::Route> v1_routes(InferenceServices services) {
  serving::Deployments& deployments = services.deployments;
  std::vector<net::Route> routes;
  routes.push_back(inference_route(Method::kGet, "/v1/models/{model}",
                                   {"models.read", net::Target::qualified("Deployment", "model")},
                                   "Whether a model can answer, in KServe's V1 protocol.",
                                   [&deployments](const Request& request) -> Result<Response> {
                                     if (!names_idle(deployments, request)) {
                                       FALAJ_TRY(live_model(deployments, request));
                                     }
                                     Value value;
                                     value["name"] = path_param(request, "model");
                                     value["ready"] = true;
                                     return as_json(value);
                                   }));
  for (const char* path :
       {"/v1/models/{model}:predict", "/v1/models/{model}/versions/{version}:predict",
        "/v1/models/{model}/labels/{version}:predict"}) {
    routes.push_back(later_route(Method::kPost, path,
                                 {"serving.predict", net::Target::qualified("Deployment", "model")},
                                 "Lists in, lists out: KServe's V1 protocol.",
                                 [services](const Request& request, const net::Reply& reply) {
                                   predict(services, request, reply);
                                 }));
    routes.back().body_bytes_max = 16 << 20;
  }
  return routes;
}

}  // namespace falaj::api
