// jobs: submit, list, get, why, cancel, logs, top.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/json.h"
#include "base/units.h"
#include "cli/code_capture.h"
#include "cli/job_commands.h"
#include "jobs/exit_error.h"

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

std::vector<double> column(const Value& usage, std::string_view name) {
  std::vector<double> out;
  for (const Value& each : items(usage[name])) {
    out.push_back(each.is_number() ? each.as_double() : 0);
  }
  return out;
}

constexpr std::size_t kPictureWidth = 60;
constexpr std::size_t kSmallWidth = 16;
constexpr std::size_t kPicturesMax = 20;

// Two lines under a job, "" when there were no samples.
std::string pictures(const Value& usage) {
  const std::vector<double> memory = column(usage, "memory_bytes");
  const std::vector<double> cpus = column(usage, "cpus");
  if (memory.empty() || cpus.empty()) return "";
  const double most = *std::max_element(memory.begin(), memory.end());
  const double used = std::accumulate(cpus.begin(), cpus.end(), 0.0);
  const double limit = usage.number("memory_max");
  const double cpus_max = usage.number("cpus_max");
  return "# memory " + sparkline(memory, limit, kPictureWidth) + " at most " +
         format_bytes(static_cast<std::int64_t>(most)) + " of " +
         format_bytes(static_cast<std::int64_t>(limit)) + "\n# cpus   " +
         sparkline(cpus, cpus_max, kPictureWidth) + " " +
         cell(Value(used / static_cast<double>(cpus.size()))) + " of " + cell(Value(cpus_max)) +
         "\n";
}

Result<Value> body_of(const JobChoice& choice) {
  Value body;
  body["command"] = Value::array();
  for (const std::string& word : choice.command) body["command"].push(word);
  body["resources"]["cpus"] = choice.cpus;
  body["resources"]["memory"] = choice.memory;
  body["resources"]["gpus"] = choice.gpus;
  if (!choice.disk.empty()) body["resources"]["disk"] = choice.disk;
  if (choice.bound) body["resources"]["bound"] = true;
  body["priority"] = choice.priority;
  body["attempts_max"] = choice.attempts_max;
  if (!choice.name.empty()) body["name"] = choice.name;
  if (!choice.queue.empty()) body["queue"] = choice.queue;
  if (!choice.runtime.empty()) body["runtime"] = choice.runtime;
  if (!choice.time_max.empty()) body["time_max"] = choice.time_max;
  if (!choice.deadline.empty()) body["deadline"] = choice.deadline;
  if (Value capture = capture_of(choice.capture); !capture.is_null()) body["capture"] = capture;
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
  return Error{
      info == nullptr ? ErrorId::kJobFailed : info->id,
      "job " + id + " " + job.text("status") + ": " + jobs::without_log(job.text("error"))};
}

Status submit_array(const Session& session, const JobChoice& choice, Value body, Wait wait) {
  if (wait == Wait::kWait) {
    return Error{ErrorId::kUsage, "--wait is for one job: leave it out, and list the array's jobs"};
  }
  body["count"] = choice.array;
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/job-arrays", body));
  const auto ids = items(reply["jobs"]);
  std::string text = "submitted " + std::to_string(ids.size()) + " jobs";
  if (!ids.empty()) text += ": " + cell(ids.front()) + " to " + cell(ids.back());
  print(session.format, reply, text + "\n");
  return {};
}

}  // namespace

Status submit_job(const Session& session, const JobChoice& choice, Wait wait) {
  Value body = FALAJ_TRY(body_of(choice));
  if (choice.array != 0) return submit_array(session, choice, std::move(body), wait);
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

Status show_jobs(const Session& session, const std::string& id, JobView view,
                 std::int64_t attempt) {
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
    const std::string which = attempt == 0 ? "" : "?attempt=" + std::to_string(attempt);
    const std::string text = FALAJ_TRY(connection->raw(path_of(id) + "/log" + which));
    Value value;
    value["id"] = id;
    value["log"] = text;
    print(session.format, value, text);
    return {};
  }
  Value job = FALAJ_TRY(connection->get(path_of(id)));
  job["usage"] = FALAJ_TRY(connection->get(path_of(id) + "/usage"));
  if (session.format != OutputFormat::kTable) {
    print(session.format, job, "");
    return {};
  }
  const std::string drawn = pictures(job["usage"]);
  job.as_object().erase("usage");
  print(OutputFormat::kYaml, job, "");
  print(OutputFormat::kTable, {}, drawn);
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
  Table table({"JOB", "NAME", "QUEUE", "CPUS", "MEMORY", "GPUS", "CPU S", "USED", "SINCE",
               "CPUS OVER TIME", "MEMORY OVER TIME"});
  std::size_t drawn = 0;
  for (const Value& job : items(reply["jobs"])) {
    const Value& request = job["request"];
    // One more call each, and a screen has only so many lines.
    Value usage;
    if (session.format == OutputFormat::kTable && drawn++ < kPicturesMax) {
      usage = connection->get(path_of(job.text("id")) + "/usage").value_or(Value());
    }
    const Value& used = job["memory_bytes"];
    table.add({job.text("id"), request.text("name"), request.text("queue", "default"),
               cell(request["cpus"]), format_bytes(request.integer("memory")),
               cell(request["gpus"]), cell(job["cpu_seconds"]),
               used.is_null() ? "-" : format_bytes(used.as_int()), job.text("started_at"),
               sparkline(column(usage, "cpus"), request.number("cpus"), kSmallWidth),
               sparkline(column(usage, "memory_bytes"), request.number("memory"), kSmallWidth)});
  }
  print(session.format, reply,
        table.empty() ? "no job runs in project '" + session.target.project + "'\n" : table.str());
  return {};
}

}  // namespace falaj::cli
