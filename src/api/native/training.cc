// Train jobs, the runs they make and the queue behind them.
#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

Result<Value> run_job(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "run");
  const std::string manifest = FALAJ_TRY(fields.text("training_set_id"));
  FALAJ_TRY(fields.finish());
  const auto started =
      FALAJ_TRY(services.trainer.run(context, request.params.find("name")->second, manifest));
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

// Holds no thread: those who wait must not keep others from being answered.
void wait_run(Services& services, const net::Request& request, const net::Reply& reply) {
  const auto say = [&request, reply](const Result<Value>& value) { reply(answer(request, value)); };
  const auto seconds = query_integer(request, "seconds", 20, 25);
  if (!seconds.ok()) return say(seconds.error());
  const auto told = [say](const Result<jobs::Job>& job) {
    say(job.ok() ? Result<Value>(to_value(*job)) : job.error());
  };
  const Status waits =
      services.jobs.when_ended(principal_of(request).id, JobId(request.params.find("id")->second),
                               Duration::seconds(*seconds), told);
  if (!waits.ok()) say(waits.error());
}

}  // namespace

std::vector<net::Route> training_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/train-jobs/{name}:run",
      {"training.run", net::Target::object("TrainJob", "name")},
      "Starts the declared job on its newest frozen set, or on training_set_id.",
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
      "One run.", [&](const net::Request& request) -> Result<Value> {
        return to_value(FALAJ_TRY(services.runs.get(RunId(request.params.find("id")->second))));
      }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/runs/{id}/metrics/{metric}",
                  {"models.read", net::Target::record("Run", "id")}, "Every point of one metric.",
                  [&](const net::Request& request) { return metric_history(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs", {"jobs.read", net::Target::listed("Job")},
      "Jobs of a project, newest first.", [&](const net::Request& request) -> Result<Value> {
        auto jobs = FALAJ_TRY(services.jobs.list(project_of(request)));
        keep_visible(jobs, request, "jobs.read", "Job",
                     [](const jobs::Job& job) { return job.id.str(); });
        return list_value("jobs", jobs);
      }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs/{id}", {"jobs.read", net::Target::record("Job", "id")},
      "One job.", [&](const net::Request& request) -> Result<Value> {
        return to_value(FALAJ_TRY(services.jobs.get(JobId(request.params.find("id")->second))));
      }));
  routes.emplace_back(Method::kGet, "/api/v1/jobs/{id}:wait", net::Permission("jobs.read"),
                      net::Target::record("Job", "id"),
                      "The job once it has ended, or as it is after ?seconds= (at most 25).",
                      nullptr);
  routes.back().handler = [&](const net::Request& request, const net::Reply& reply) {
    wait_run(services, request, reply);
  };
  routes.emplace_back(
      Method::kGet, "/api/v1/jobs/{id}/log", net::Permission("jobs.read"),
      net::Target::record("Job", "id"), "The last 64 KiB of what the job's process printed.",
      [&](const net::Request& request) {
        auto text = services.jobs.log_tail(JobId(request.params.find("id")->second));
        if (!text.ok()) return net::problem(text.error(), request);
        return net::Response::text(std::move(text).value());
      });
  routes.back().gives = net::Gives::kFile;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/jobs/{id}:cancel", {"jobs.cancel", net::Target::record("Job", "id")},
      "Stops a job.", [&](const net::Request& request) -> Result<Value> {
        const auto context = FALAJ_TRY(context_of(request, services.catalog));
        const JobId id(request.params.find("id")->second);
        FALAJ_TRY(services.jobs.cancel(context, id));
        return to_value(FALAJ_TRY(services.jobs.get(id)));
      }));
  return routes;
}

}  // namespace falaj::api
