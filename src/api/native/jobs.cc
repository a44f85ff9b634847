// Jobs: submitted, looked at, followed, cancelled.
#include <algorithm>
#include <optional>

#include "api/native/exchange.h"
#include "api/native/log_feed.h"
#include "api/native/services.h"
#include "jobs/capture.h"
#include "jobs/exit_error.h"
#include "jobs/reach.h"
#include "jobs/request.h"

namespace falaj::api {
namespace {

JobId id_of(const net::Request& request) { return JobId(request.params.find("id")->second); }

constexpr std::size_t kErrorShown = 512;

// For lists: the queue has left out the long parts of payloads. The job alone shows all.
void shorten(jobs::Job& job) {
  job.error = jobs::without_log(job.error);
  jobs::cut(job.error, kErrorShown);
  if (job.result.is_object()) job.result.as_object().erase("post_mortem");
}

// What the caller says of the code, and what only the server knows.
Result<Value> capture_of(Services& services, const security::RequestContext& context,
                         const Value& said) {
  Value out = FALAJ_TRY(jobs::decode_capture(said));
  if (out.is_null()) return out;
  if (out["data"].is_object()) {
    const auto manifest =
        FALAJ_TRY(services.training_sets.latest(context.project, out["data"].text("training_set")));
    out["data"]["fingerprint"] = manifest.data_sha256;
  }
  out["machine"] = jobs::machine_facts();
  return out;
}

// Nobody gets through a job what he may not do himself. A reason that would break a glass is not
// handed on to a job.
Status check_reach(const net::Request& request, const jobs::JobSpec& spec) {
  for (const security::Scope& scope : jobs::scopes_of(spec)) {
    const std::size_t slash = scope.object.find('/');
    const std::string kind = scope.object.substr(0, slash);
    const std::string name = scope.object.substr(slash + 1);
    const security::access::ObjectRef object{scope.project, kind, name, nullptr};
    security::access::AccessRequest asked = asking(request, scope.action, object);
    asked.reason = "";
    FALAJ_TRY(note_denied(request, scope.action, object,
                          security::access::check(policies_of(request), asked)));
  }
  return {};
}

Result<jobs::JobSpec> spec_of(Services& services, const net::Request& request,
                              const security::RequestContext& context, const Value& body) {
  const jobs::Submission submission = FALAJ_TRY(jobs::decode_submission(body));
  jobs::JobSpec spec;
  spec.type = jobs::kCommandType;
  spec.project = context.project.str();
  spec.payload = jobs::payload_of(submission);
  FALAJ_TRY(check_reach(request, spec));
  spec.payload["submitter"] = jobs::submitter_value(context.principal);
  Value captured = FALAJ_TRY(capture_of(services, context, body["capture"]));
  if (!captured.is_null()) spec.payload["capture"] = std::move(captured);
  spec.attempts_max = submission.attempts_max;
  spec.request = submission.request;
  return spec;
}

Result<Value> submit(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  jobs::JobSpec spec = FALAJ_TRY(spec_of(services, request, context, body));
  if (spec.request.running_max > 0) {
    return Error(ErrorId::kOutOfRange, "job: 'running_max' is for the members of an array");
  }
  const JobId id = FALAJ_TRY(services.jobs.submit(context, std::move(spec)));
  return to_value(FALAJ_TRY(services.jobs.get(id)));
}

Result<Value> submit_array(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  Value body = FALAJ_TRY(body_of(request));
  const Value count = body["count"];
  if (body.is_object()) body.as_object().erase("count");
  jobs::JobSpec spec = FALAJ_TRY(spec_of(services, request, context, body));
  const std::string bounds = "from 1 to " + std::to_string(jobs::kArrayMax);
  if (count.is_null()) {
    return Error(ErrorId::kMissingField, "job array: 'count' is needed: how many jobs, " + bounds);
  }
  if (!count.is_int() || count.as_int() < 1) {
    return Error(ErrorId::kOutOfRange, "job array: 'count' is a whole number " + bounds);
  }
  const auto ids = FALAJ_TRY(services.jobs.submit_array(context, std::move(spec),
                                                        static_cast<std::size_t>(count.as_int())));
  Value value;
  value["count"] = count;
  value["jobs"] = Value::array();
  for (const JobId& id : ids) value["jobs"].push(id.str());
  return value;
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

Result<Value> why(Services& services, const net::Request& request) {
  const JobId id = id_of(request);
  const jobs::Job job = FALAJ_TRY(services.jobs.get(id));
  const jobs::Why reason = FALAJ_TRY(services.jobs.why(id));
  Value value = to_value(reason);
  value["id"] = id.str();
  value["status"] = jobs::status_name(job.status);
  return value;
}

Result<Value> usage(Services& services, const net::Request& request) {
  auto rows = FALAJ_TRY(services.jobs.usage(project_of(request)));
  keep_visible(rows, request, "jobs.read", "Job",
               [](const jobs::Usage& row) { return row.id.str(); });
  Value value = list_value("jobs", rows);
  const jobs::Machine& machine = services.jobs.machine();
  value["machine"]["cpus"] = static_cast<double>(machine.cpu_milli) / 1000;
  value["machine"]["memory"] = machine.memory_bytes;
  value["machine"]["gpus"] = machine.gpus;
  return value;
}

net::Response follow(LogFeed& logs, const net::Request& request) {
  const Status room = logs.room(principal_of(request).id);
  if (!room.ok()) return net::problem(room.error(), request);
  net::Response response;
  response.content_type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-store");
  response.on_stream = [&logs, kept = kept_of(request),
                        id = id_of(request)](std::shared_ptr<net::Stream> stream) {
    logs.follow(kept, id, std::move(stream));
  };
  return response;
}

Status check_group(const jobs::Job& job, const std::string& name) {
  const jobs::Request& request = job.spec.request;
  std::vector<std::string> names;
  if (request.workers && !request.groups.empty()) names.push_back(request.workers->group);
  for (const jobs::Group& group : request.groups) names.push_back(group.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  std::string all;
  for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
  return Error(ErrorId::kOutOfRange, "job " + job.id.str() + " has no group '" + name + "'" +
                                         (all.empty() ? "" : ": it has " + all));
}

Result<std::string> log_of(Services& services, const net::Request& request) {
  const std::int64_t attempt = FALAJ_TRY(query_integer(request, "attempt", 0, 1'000'000));
  std::string log = FALAJ_TRY(services.jobs.log_tail(id_of(request), static_cast<int>(attempt)));
  const std::optional<std::string> group = request.query_param("group");
  if (!group) return log;
  FALAJ_TRY(check_group(FALAJ_TRY(services.jobs.get(id_of(request))), *group));
  return jobs::lines_of_group(log, *group);
}

Result<Value> list(Services& services, const net::Request& request) {
  auto jobs = FALAJ_TRY(services.jobs.list(project_of(request)));
  keep_visible(jobs, request, "jobs.read", "Job",
               [](const jobs::Job& job) { return job.id.str(); });
  for (jobs::Job& job : jobs) shorten(job);
  return list_value("jobs", jobs);
}

Result<Value> one(Services& services, const net::Request& request) {
  return to_value(FALAJ_TRY(services.jobs.get(id_of(request))));
}

void add_usage_routes(Services& services, std::vector<net::Route>& routes) {
  using net::Method;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs/{id}/usage", {"jobs.read", net::Target::record("Job", "id")},
      "How a command's newest attempt used processors, memory, disks and GPUs, over its time.",
      [&](const net::Request& request) { return services.jobs.curve(id_of(request)); }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/job-usage", {"jobs.read", net::Target::listed("Job")},
                  "Jobs that run now and what they take, and the machine they share.",
                  [&](const net::Request& request) { return usage(services, request); }));
}

}  // namespace

std::vector<net::Route> job_routes(Services& services, LogFeed& logs) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/jobs", {"jobs.submit", net::Target::in_project("Job")},
      "Submits a command: {command[], env, resources{cpus, memory, gpus, disk, bound}, queue, "
      "priority, time_max, deadline, cost_cap, placement{labels, not_labels, data[], gpu, numa, "
      "together, prefer, tags, avoid, near}, checkpoint{every, restart}, attempts_max, "
      "after[] (ids, or {job, end}), "
      "name, runtime, inputs[], outputs[], network, array{index, count}, capture}.",
      [&](const net::Request& request) { return submit(services, request); }, 202));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/job-arrays", {"jobs.submit", net::Target::in_project("Job")},
      "Submits a command `count` times, all or none; as a job, and {count, running_max}. Answers "
      "{count, jobs[]}.",
      [&](const net::Request& request) { return submit_array(services, request); }, 202));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/jobs", {"jobs.read", net::Target::listed("Job")},
                  "Jobs of a project, newest first, shortened.",
                  [&](const net::Request& request) { return list(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs/{id}", {"jobs.read", net::Target::record("Job", "id")},
      "One job.", [&](const net::Request& request) { return one(services, request); }));
  routes.emplace_back(Method::kGet, "/api/v1/jobs/{id}:wait", net::Permission("jobs.read"),
                      net::Target::record("Job", "id"),
                      "The job once it has ended, or as it is after ?seconds= (at most 25).",
                      nullptr);
  routes.back().handler = [&](const net::Request& request, const net::Reply& reply) {
    wait_run(services, request, reply);
  };
  routes.emplace_back(
      Method::kGet, "/api/v1/jobs/{id}/log", net::Permission("jobs.read"),
      net::Target::record("Job", "id"),
      "The last 64 KiB of what the job's process printed; ?attempt= of an earlier one, ?group= of "
      "one role of a TrainJob.",
      [&](const net::Request& request) {
        auto text = log_of(services, request);
        if (!text.ok()) return net::problem(text.error(), request);
        return net::Response::text(std::move(text).value());
      });
  routes.back().gives = net::Gives::kFile;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/jobs/{id}:cancel", {"jobs.cancel", net::Target::record("Job", "id")},
      "Stops a job.", [&](const net::Request& request) -> Result<Value> {
        const auto context = FALAJ_TRY(context_of(request, services.catalog));
        const JobId id = id_of(request);
        FALAJ_TRY(services.jobs.cancel(context, id));
        return to_value(FALAJ_TRY(services.jobs.get(id)));
      }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs/{id}/why", {"jobs.read", net::Target::record("Job", "id")},
      "Why a job waits: reason code, what binds, the smallest change that would admit it, and when "
      "it probably starts.",
      [&](const net::Request& request) { return why(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/jobs/{id}/events", {"jobs.read", net::Target::record("Job", "id")},
      "Everything that happened to a job, oldest first.",
      [&](const net::Request& request) -> Result<Value> {
        return list_value("events", FALAJ_TRY(services.jobs.events(id_of(request))));
      }));
  routes.emplace_back(
      Method::kGet, "/api/v1/jobs/{id}/log:follow", net::Permission("jobs.read"),
      net::Target::record("Job", "id"),
      "What the job prints, as server-sent events {attempt, offset, text}, until it "
      "ends with {status}.",
      [&](const net::Request& request) { return follow(logs, request); });
  routes.back().gives = net::Gives::kFile;
  add_usage_routes(services, routes);
  return routes;
}

}  // namespace falaj::api
