// Deployments and the hot path: entity ids in, prediction out.
#include <limits>
#include <tuple>

#include "api/explanation.h"
#include "api/native/exchange.h"
#include "api/native/predict_codec.h"
#include "api/native/services.h"
#include "api/receipt.h"
#include "api/timing.h"

namespace falaj::api {
namespace {

// What the requests of one thread use in turn, so that a small one costs no memory.
struct Scratch {
  PredictRequest parsed;
  std::vector<serving::EntityPrediction> predictions;

  // What a large request needed is given back.
  void bound() {
    if (parsed.entities.size() > 16) *this = Scratch{};
  }
};

// Of which features, too. Those of one request may be of several commits.
security::ReceiptFacts facts_of(const serving::LiveModel& live,
                                const std::vector<serving::EntityPrediction>& predictions,
                                const net::Request& request) {
  const serving::EntityPrediction& first = predictions.front();
  security::ReceiptFacts facts = receipt_facts(live, first.version, request);
  for (const auto& view : first.live->plan->views) {
    facts.features += (facts.features.empty() ? "" : ",") + view.view;
  }
  std::tie(facts.first_commit, facts.last_commit) = commits_of(predictions);
  return facts;
}

using LivePtr = std::shared_ptr<const serving::LiveModel>;

// The version that the request insists on, alone even while a rollout shares the traffic: its
// caller asks again and again, and wants every answer of one model.
Result<LivePtr> insisted_on(const net::Request& request, LivePtr live) {
  if (!request.query_param("version")) return live;
  const std::int64_t wanted =
      FALAJ_TRY(query_integer(request, "version", 1, std::numeric_limits<std::int64_t>::max()));
  LivePtr named = serving::version_of(live, wanted);
  if (named == nullptr) {
    return Error{ErrorId::kModelNotFound, "version " + std::to_string(wanted) + " of deployment '" +
                                              live->deployment + "' does not serve; version " +
                                              std::to_string(live->version.version) + " does"};
  }
  if (named->split == nullptr) return named;
  auto alone = std::make_shared<serving::LiveModel>(*named);
  alone->split = nullptr;
  return LivePtr(std::move(alone));
}

PredictAnswer answer_for(const net::Request& request) {
  const auto asks = [&](std::string_view name) {
    return request.query_param(name).value_or("") == "true";
  };
  return {asks("explain") ? Explain::kYes : Explain::kNo,
          asks("commits") ? Commits::kYes : Commits::kNo};
}

// Runs on the event loop: no disk and no tree of values; the locks below (the published table, the
// online features) are held for a copy or a look-up, never while anything is loaded; for a model
// that is idle or apart, and where online rows are bounded, the server takes it to the pool
// (app/wire_http.cc), where it waits. One model
// answers the whole request, so that the version named is the version of every prediction.
Result<net::Response> predict(Services& services, const net::Request& request) {
  thread_local Scratch scratch;
  scratch.bound();
  const security::Receipts* receipts = FALAJ_TRY(wanted_receipt(request, services.receipts));
  FALAJ_TRY(parse_predict(request.body, scratch.parsed));
  Timing timing = FALAJ_TRY(Timing::begin(request));
  const ProjectName project = project_of(request);
  const std::string& name = request.params.find("name")->second;
  const LivePtr live = FALAJ_TRY(insisted_on(
      request, FALAJ_TRY(services.deployments.find_awake(project, name, request.deadline))));
  serving::PhaseTimes times;
  FALAJ_TRY(services.deployments.predict_all(live, scratch.parsed.entities, request.request_id,
                                             scratch.predictions, &times));
  timing.answered(times);
  net::Response response = net::Response::json(
      write_predictions(name, scratch.parsed, scratch.predictions, answer_for(request)));
  if (receipts != nullptr) {
    FALAJ_TRY(
        add_receipt(*receipts, facts_of(*live, scratch.predictions, request), request, response));
  }
  timing.rendered(*live, response);
  return response;
}

net::Route predict_route(Services& services) {
  net::Route route(net::Method::kPost, "/api/v1/deployments/{name}:predict",
                   net::Permission("serving.predict"), net::Target::object("Deployment", "name"),
                   "Entity ids in, predictions out; features are read in the same process. "
                   "?explain=true adds the feature values and their statuses, ?commits=true what "
                   "commits they were read at; ?version=N insists on a version.",
                   [&services](const net::Request& request) {
                     Result<net::Response> reply = predict(services, request);
                     if (!reply.ok()) return net::problem(reply.error(), request);
                     return std::move(reply).value();
                   });
  route.runs_on = net::RunsOn::kLoop;
  route.body_bytes_max = 1 << 20;
  return route;
}

Value entity_value(const EntityKeys& keys) {
  Value value = Value::object();
  for (const auto& [name, part] : keys) {
    if (const auto* text = std::get_if<std::string>(&part)) {
      value[name] = *text;
    } else {
      value[name] = std::get<std::int64_t>(part);
    }
  }
  return value;
}

Result<Value> explain(Services& services, const net::Request& request) {
  PredictRequest parsed;
  FALAJ_TRY(parse_predict(request.body, parsed));
  serving::ExplainJob job;
  for (const ExplainParameter& parameter : explain_parameters()) {
    if (!request.query_param(parameter.name)) continue;
    const std::int64_t number = FALAJ_TRY(
        query_integer(request, parameter.name, 0, static_cast<std::int64_t>(parameter.most)));
    FALAJ_TRY(set_parameter(parameter, static_cast<std::uint64_t>(number), job.question));
  }
  job.deadline = request.deadline;
  job.gone = request.gone;
  const std::string& name = request.params.find("name")->second;
  const auto live =
      FALAJ_TRY(services.deployments.find_awake(project_of(request), name, request.deadline));
  Value reply =
      to_value(FALAJ_TRY(services.deployments.explain(*live, parsed.entities, std::move(job))));
  reply["deployment"] = name;
  reply["model"] = live->version.model;
  reply["version"] = live->version.version;
  Value::Array& rows = reply["explanations"].as_array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]["entity"] = entity_value(parsed.entities[i]);
  }
  return reply;
}

net::Route explain_route(Services& services) {
  net::Route route = value_route(
      net::Method::kPost, "/api/v1/deployments/{name}:explain",
      {"serving.predict", net::Target::object("Deployment", "name")},
      "What each feature of an entity added to its score. The last ?background_rows entities are "
      "compared with; ?budget_ms, ?samples and ?seed bound the work.",
      [&services](const net::Request& request) { return explain(services, request); });
  route.body_bytes_max = 1 << 20;
  return route;
}

}  // namespace

std::vector<net::Route> deployment_routes(Services& services) {
  std::vector<net::Route> routes;
  routes.push_back(predict_route(services));
  routes.push_back(explain_route(services));
  routes.push_back(value_route(
      net::Method::kGet, "/api/v1/deployments", {"models.read", net::Target::listed("Deployment")},
      "State, version and latency of every deployment.",
      [&](const net::Request& request) -> Result<Value> {
        const std::string project = project_of(request).str();
        Value reply;
        reply["deployments"] = Value::array();
        for (const auto& status : services.deployments.status()) {
          if (status.project != project) continue;
          if (may(request, "models.read", {project, "Deployment", status.name, nullptr}))
            reply["deployments"].push(to_value(status));
        }
        return reply;
      }));
  return routes;
}

}  // namespace falaj::api
