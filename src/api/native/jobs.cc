// Jobs: submitted, looked at, followed, cancelled.
#include "api/native/exchange.h"
#include "api/native/log_feed.h"
#include "api/native/services.h"
#include "jobs/request.h"

namespace falaj::api {
namespace {

JobId id_of(const net::Request& request) { return JobId(request.params.find("id")->second); }

constexpr std::size_t kCommandShown = 256;
constexpr std::size_t kErrorShown = 512;

// Never within a character.
void cut(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  while (bytes_max > 0 && (text[bytes_max] & 0xC0) == 0x80) --bytes_max;
  text.resize(bytes_max);
}

// For lists: many jobs at once would be hundreds of megabytes. The job alone shows all.
void shorten(jobs::Job& job) {
  cut(job.error, kErrorShown);
  Value& payload = job.spec.payload;
  if (job.spec.type != jobs::kCommandType || !payload.is_object()) return;
  payload.as_object().erase("env");
  Value shown = Value::array();
  std::size_t left = kCommandShown;
  for (std::string& word : jobs::command_of(payload)) {
    if (left == 0) break;
    const bool whole = word.size() <= left;
    cut(word, left);
    left = whole ? left - word.size() : 0;
    shown.push(std::move(word));
  }
  payload["command"] = std::move(shown);
}

Result<Value> submit(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const Value body = FALAJ_TRY(body_of(request));
  const jobs::Submission submission = FALAJ_TRY(jobs::decode_submission(body));
  jobs::JobSpec spec;
  spec.type = jobs::kCommandType;
  spec.payload = jobs::payload_of(submission);
  spec.attempts_max = submission.attempts_max;
  spec.request = submission.request;
  const JobId id = FALAJ_TRY(services.jobs.submit(context, std::move(spec)));
  return to_value(FALAJ_TRY(services.jobs.get(id)));
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

Result<Value> one(Services& services, const net::Request& request) {
  return to_value(FALAJ_TRY(services.jobs.get(id_of(request))));
}

}  // namespace

std::vector<net::Route> job_routes(Services& services, LogFeed& logs) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kPost, "/api/v1/jobs", {"jobs.submit", net::Target::in_project("Job")},
      "Submits a command: {command[], env, resources{cpus, memory, gpus}, queue, priority, "
      "time_max, attempts_max, after[], name}.",
      [&](const net::Request& request) { return submit(services, request); }, 202));
  routes.push_back(value_route(Method::kGet, "/api/v1/jobs",
                               {"jobs.read", net::Target::listed("Job")},
                               "Jobs of a project, newest first, shortened.",
                               [&](const net::Request& request) -> Result<Value> {
                                 auto jobs = FALAJ_TRY(services.jobs.list(project_of(request)));
                                 keep_visible(jobs, request, "jobs.read", "Job",
                                              [](const jobs::Job& job) { return job.id.str(); });
                                 for (jobs::Job& job : jobs) shorten(job);
                                 return list_value("jobs", jobs);
                               }));
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
  routes.emplace_back(Method::kGet, "/api/v1/jobs/{id}/log", net::Permission("jobs.read"),
                      net::Target::record("Job", "id"),
                      "The last 64 KiB of what the job's process printed.",
                      [&](const net::Request& request) {
                        auto text = services.jobs.log_tail(id_of(request));
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
  routes.push_back(
      value_route(Method::kGet, "/api/v1/job-usage", {"jobs.read", net::Target::listed("Job")},
                  "Jobs that run now and what they take, and the machine they share.",
                  [&](const net::Request& request) { return usage(services, request); }));
  return routes;
}

}  // namespace falaj::api
