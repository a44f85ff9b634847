// What the routes of this folder share: how a model is found, how an answer is written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/inference/infer_codec.h"
#include "api/inference/inference_routes.h"
#include "api/native/exchange.h"
#include "api/receipt.h"
#include "api/timing.h"
#include "base/json.h"
#include "net/router.h"
#include "serving/deployments.h"

namespace falaj::api {

using LivePtr = std::shared_ptr<const serving::LiveModel>;
using InferenceAnswer = std::function<Result<net::Response>(const net::Request&)>;

// The largest body of a request with tensors.
inline constexpr std::int64_t kInferBytesMax = 64 << 20;

inline net::Response as_json(const Value& value) { return net::Response::json(to_json(value)); }
// A placeholder of the path; "" when it has none of that name.
std::string path_param(const net::Request& request, std::string_view name);

// A route whose errors are written as this dialect writes them.
net::Route inference_route(net::Method method, std::string_view path, Demand demand,
                           std::string_view summary, InferenceAnswer answer);

// The model that the request names, in the project that the gate found and in no other, and the
// version if it names one (a number, or the alias that the deployment follows). FJ-5001 / FJ-5003.
Result<LivePtr> live_model(const serving::Deployments& deployments, const net::Request& request);
// Whether the request names a model, and no version of it, that is idle: it would answer, and is
// not to be loaded for being looked at.
bool names_idle(const serving::Deployments& deployments, const net::Request& request);
// With the receipts, if the caller wants one: FJ-7053 when it cannot be had.
struct Addressed {
  LivePtr live;
  const security::Receipts* receipts = nullptr;  // Null: none is wanted.
};
Result<Addressed> addressed(const InferenceServices& services, const net::Request& request);
// The deployment's name without the project before it.
std::string deployment_name(const net::Request& request);
Rows rows_of(const serving::LiveModel& live);

// A route that answers later, perhaps on another thread.
net::Route later_route(net::Method method, std::string_view path, Demand demand,
                       std::string_view summary, net::Handler handler);

// Checks what was parsed against the model and runs it; takes the tensors out of `parsed`. `done`
// is called once, now or later, on any thread; the request lives until then.
void run_infer(const serving::Deployments& deployments, const net::Request& request,
               const LivePtr& live, InferRequest& parsed, serving::InferDone done);

// How many bytes of the body are JSON, as Inference-Header-Content-Length says; nothing without it.
Result<std::optional<std::size_t>> json_length(const net::Request& request);
// The body, unpacked when its Content-Encoding says so: `unpacked` then holds it. 501 for a coding
// that is not known here.
Result<std::string_view> plain_body(const net::Request& request, std::string& unpacked);
// X-Falaj-Cache says whether the model ran; nothing of a deployment without a cache.
void add_cache_header(serving::Inference::Cache cache, net::Response& response);
// "small/3", the model and version that answered instead of the deployment's; "" when none did.
std::string fallback_text(const serving::Inference& inference);
// What answered: the deployment's own, or its fallback.
inline const serving::LiveModel& answering(const serving::LiveModel& live,
                                           const serving::Inference& inference) {
  return inference.fallback == nullptr ? live : *inference.fallback;
}
// X-Falaj-Fallback says who answered instead, if somebody did.
void add_fallback_header(const serving::Inference& inference, net::Response& response);
// Packs a large answer for a client that takes it so.
Status pack_reply(const net::Request& request, net::Response& response);

std::vector<net::Route> explain_routes(InferenceServices services);
std::vector<net::Route> repository_routes(InferenceServices services);
std::vector<net::Route> v1_routes(InferenceServices services);

}  // namespace falaj::api
