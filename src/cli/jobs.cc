// jobs: submit, list, get, why, cancel, logs, top.
#include <cstdio>

#include "base/json.h"
#include "base/units.h"
#include "cli/job_commands.h"

namespace falaj::cli {
namespace {

std::string path_of(const std::string& id) { return "/api/v1/jobs/" + url_encode(id); }

// An error may quote a log; the table shows its first line, the job itself all of it.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string what_of(const Value& job) {
  const std::string name = job["request"].text("name");
  if (!name.empty()) return name;
  std::string words;
  for (const Value& word : items(job["payload"]["command"])) {
    words += (words.empty() ? "" : " ") + cell(word);
  }
  return words.empty() ? job.text("type") : words.substr(0, 40);
}

Result<Value> body_of(const JobChoice& choice) {
  Value body;
  body["command"] = Value::array();
  for (const std::string& word : choice.command) body["command"].push(word);
  body["resources"]["cpus"] = choice.cpus;
  body["resources"]["memory"] = choice.memory;
  body["resources"]["gpus"] = choice.gpus;
  body["priority"] = choice.priority;
  body["attempts_max"] = choice.attempts_max;
  if (!choice.name.empty()) body["name"] = choice.name;
  if (!choice.queue.empty()) body["queue"] = choice.queue;
  if (!choice.time_max.empty()) body["time_max"] = choice.time_max;
  body["after"] = Value::array();
  for (const std::string& id : choice.after) body["after"].push(id);
  for (const std::string& variable : choice.env) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorId::kUsage, "--env '" + variable + "': write NAME=value"};
    }
    body["env"][variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return body;
}

// Prints what comes; the status in which the job ended, "" when the server closed before.
Result<std::string> follow_log(Connection& connection, const std::string& id) {
  std::string status;
  FALAJ_TRY(connection.stream(path_of(id) + "/log:follow", [&](std::string_view data) {
    const auto event = parse_json(data);
    if (!event.ok()) return true;
    const std::string text = event->text("text");
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    status = event->text("status");
    return status.empty();
  }));
  return status;
}

// Follows to the end, however often the connection ends before.
Status follow_to_end(Connection& connection, const std::string& id) {
  const std::string status = FALAJ_TRY(follow_log(connection, id));
  if (status == "succeeded") return {};
  const Value job = FALAJ_TRY(connection.get(path_of(id)));
  if (status.empty()) {
    return Error{Code::kUnavailable, "the server closed the log of job " + id + ", which is " +
                                         job.text("status") + ": follow it again"};
  }
  const ErrorInfo* info = find_error(job.text("code"));
  return Error{info == nullptr ? ErrorId::kJobFailed : info->id,
               "job " + id + " " + job.text("status") + ": " + job.text("error")};
}

}  // namespace

Status submit_job(const Session& session, const JobChoice& choice, Wait wait) {
  const Value body = FALAJ_TRY(body_of(choice));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value job = FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/jobs", body));
  const std::string id = job.text("id");
  if (wait == Wait::kNo) {
    print(session.format, job, "submitted " + id + "\n");
    return {};
  }
  std::fprintf(stderr, "submitted %s\n", id.c_str());
  return follow_to_end(*connection, id);
}

Status show_jobs(const Session& session, const std::string& id, JobView view) {
  if (id.empty() && view == JobView::kLog) {
    return Error{ErrorId::kUsage, "--log needs the id of a job: falaj jobs lists them"};
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  if (id.empty()) {
    const Value reply = FALAJ_TRY(connection->get("/api/v1/jobs"));
    Table table({"JOB", "WHAT", "STATUS", "ATTEMPTS", "CREATED", "ENDED", "ERROR"});
    for (const Value& job : items(reply["jobs"])) {
      table.add({job.text("id"), what_of(job), job.text("status"), cell(job["attempts"]),
                 cell(job["created_at"]), cell(job["ended_at"]), first_line(cell(job["error"]))});
    }
    print(session.format, reply,
          table.empty() ? "no job in project '" + session.target.project + "'\n" : table.str());
    return {};
  }
  if (view == JobView::kLog) {
    const std::string text = FALAJ_TRY(connection->raw(path_of(id) + "/log"));
    Value value;
    value["id"] = id;
    value["log"] = text;
    print(session.format, value, text);
    return {};
  }
  const Value job = FALAJ_TRY(connection->get(path_of(id)));
  print(session.format == OutputFormat::kTable ? OutputFormat::kYaml : session.format, job, "");
  return {};
}

Status explain_job(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value why = FALAJ_TRY(connection->get(path_of(id) + "/why"));
  const std::string change = first_line(why.text("change"));
  print(session.format, why,
        id + " " + first_line(why.text("reason")) +
            (change.empty() ? std::string() : "; would help: " + change) + "\n");
  return {};
}

Status cancel_job(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value job =
      FALAJ_TRY(connection->call(net::Method::kPost, path_of(id) + ":cancel", Value::object()));
  print(session.format, job, id + " is " + job.text("status") + "\n");
  return {};
}

Status follow_job(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  return follow_to_end(*connection, id);
}

Status show_job_usage(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/job-usage"));
  Table table({"JOB", "NAME", "QUEUE", "CPUS", "MEMORY", "GPUS", "CPU S", "USED", "SINCE"});
  for (const Value& job : items(reply["jobs"])) {
    const Value& request = job["request"];
    const Value& used = job["memory_bytes"];
    table.add({job.text("id"), request.text("name"), request.text("queue", "default"),
               cell(request["cpus"]), format_bytes(request.integer("memory")),
               cell(request["gpus"]), cell(job["cpu_seconds"]),
               used.is_null() ? "-" : format_bytes(used.as_int()), job.text("started_at")});
  }
  print(session.format, reply,
        table.empty() ? "no job runs in project '" + session.target.project + "'\n" : table.str());
  return {};
}

}  // namespace falaj::cli
