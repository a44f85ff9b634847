// Train jobs and the runs they make.
#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"
#include "jobs/capture.h"

namespace falaj::api {
namespace {

Result<Value> run_job(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "run");
  const std::string manifest = FALAJ_TRY(fields.text("training_set_id"));
  const Value capture = FALAJ_TRY(jobs::decode_capture(fields.any("capture")));
  FALAJ_TRY(fields.finish());
  const std::string& name = request.params.find("name")->second;
  const std::string engine = FALAJ_TRY(services.trainer.engine_of(context.project, name));
  if (engine == "command") {
    FALAJ_TRY(check(request, "jobs.submit", {context.project.str(), "Job", "", nullptr}));
  }
  const auto started = FALAJ_TRY(services.trainer.run(context, name, manifest, capture));
  Value reply;
  reply["run"] = started.run.str();
  reply["job"] = started.job.str();
  reply["warnings"] = Value::array();
  for (const std::string& warning : started.warnings) reply["warnings"].push(warning);
  return reply;
}

Result<Value> metric_history(Services& services, const net::Request& request) {
  const RunId id(request.params.find("id")->second);
  const std::string& metric = request.params.find("metric")->second;
  Value reply;
  reply["points"] = Value::array();
  for (const auto& point : FALAJ_TRY(services.runs.history(id, metric))) {
    Value row;
    row["step"] = point.step;
    row["value"] = point.value;
    row["at"] = to_rfc3339(point.at);
    reply["points"].push(std::move(row));
  }
  return reply;
}

}  // namespace

std::vector<net::Route> training_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/train-jobs/{name}:run",
      {"training.run", net::Target::object("TrainJob", "name")},
      "Starts the declared job on its newest frozen set, or on training_set_id; of a command, "
      "capture is kept.",
      [&](const net::Request& request) { return run_job(services, request); }, 202));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/runs", {"models.read", net::Target::listed("Run")},
      "Runs, newest first.", [&](const net::Request& request) -> Result<Value> {
        const std::int64_t limit = FALAJ_TRY(query_integer(request, "limit", 100, 1000));
        auto runs = FALAJ_TRY(services.runs.list(project_of(request), limit));
        keep_visible(runs, request, "models.read", "Run",
                     [](const tracking::Run& run) { return run.id.str(); });
        return list_value("runs", runs);
      }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/runs/{id}", {"models.read", net::Target::record("Run", "id")},
      "One run, and the job that makes it.", [&](const net::Request& request) -> Result<Value> {
        const RunId id(request.params.find("id")->second);
        Value value = to_value(FALAJ_TRY(services.runs.get(id)));
        const auto job = FALAJ_TRY(services.jobs.of_run(id));
        value["job"] = job ? Value(job->id.str()) : Value();
        return value;
      }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/runs/{id}/metrics/{metric}",
                  {"models.read", net::Target::record("Run", "id")}, "Every point of one metric.",
                  [&](const net::Request& request) { return metric_history(services, request); }));
  return routes;
}

}  // namespace falaj::api
