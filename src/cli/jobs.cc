// jobs: submit, list, get, why, cancel, logs, top.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>

#include "base/json.h"
#include "base/units.h"
#include "cli/code_capture.h"
#include "cli/job_commands.h"
#include "jobs/exit_error.h"
#include "jobs/queue.h"

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

// Of a job's GPUs, if their driver told something: a line each. What is not known counts as 0 in
// the picture and not at all in the mean.
std::string gpu_pictures(const Value& usage) {
  std::string out;
  if (const std::vector<double> busy = column(usage, "gpus"); !busy.empty()) {
    const double used = std::accumulate(busy.begin(), busy.end(), 0.0);
    const Value::Array& told = items(usage["gpus"]);
    const auto known =
        std::count_if(told.begin(), told.end(), [](const Value& each) { return each.is_number(); });
    const double most = usage.number("gpus_max");
    out += "# gpus   " + sparkline(busy, most, kPictureWidth) + " " +
           cell(Value(used / static_cast<double>(std::max<std::ptrdiff_t>(known, 1)))) + " of " +
           cell(Value(most)) + "\n";
  }
  if (const std::vector<double> held = column(usage, "gpu_memory_bytes"); !held.empty()) {
    const double most = *std::max_element(held.begin(), held.end());
    out += "# gpumem " + sparkline(held, most, kPictureWidth) + " at most " +
           format_bytes(static_cast<std::int64_t>(most)) + "\n";
  }
  return out;
}

}  // namespace

std::string usage_pictures(const Value& usage) {
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
         "\n" + gpu_pictures(usage);
}

namespace {

// "disk=ssd" as {disk: ssd}.
Status add_pairs(const char* option, const std::vector<std::string>& pairs, Value& place,
                 const char* member) {
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorId::kUsage,
                   std::string(option) + " '" + pair + "': write NAME=value, as in disk=ssd"};
    }
    place[member][pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return {};
}

// "ledger=ae-fin,ae-health" as {name: ledger, zones: […]}.
Status add_data(const std::vector<std::string>& data, Value& place) {
  for (const std::string& each : data) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorId::kUsage, "--data '" + each + "': write NAME=zone, or NAME=zone,zone"};
    }
    Value reference;
    reference["name"] = each.substr(0, equals);
    for (std::size_t at = equals; at != std::string::npos;) {
      const std::size_t next = each.find(',', at + 1);
      reference["zones"].push(each.substr(at + 1, next - at - 1));
      at = next;
    }
    place["data"].push(std::move(reference));
  }
  return {};
}

Status add_place(const PlaceChoice& choice, Value& body) {
  Value place;
  FALAJ_TRY(add_pairs("--label", choice.labels, place, "labels"));
  FALAJ_TRY(add_pairs("--not-label", choice.not_labels, place, "not_labels"));
  FALAJ_TRY(add_data(choice.data, place));
  for (const std::string& model : choice.gpu_models) place["gpu"]["models"].push(model);
  if (!choice.gpu_memory.empty()) place["gpu"]["memory"] = choice.gpu_memory;
  if (choice.gpu_fraction != 1) place["gpu"]["fraction"] = choice.gpu_fraction;
  if (!choice.mig.empty()) place["gpu"]["mig"] = choice.mig;
  if (choice.numa) place["numa"] = true;
  if (!choice.together.empty()) place["together"] = choice.together;
  if (!choice.prefer.empty()) place["prefer"] = choice.prefer;
  for (const auto& [member, tags] :
       {std::pair{"tags", &choice.tags}, std::pair{"avoid", &choice.avoid},
        std::pair{"near", &choice.near}}) {
    for (const std::string& tag : *tags) place[member].push(tag);
  }
  if (!place.is_null()) body["placement"] = std::move(place);
  if (!choice.checkpoint_every.empty()) body["checkpoint"]["every"] = choice.checkpoint_every;
  if (!choice.restart.empty()) body["checkpoint"]["restart"] = choice.restart;
  return {};
}

// ID, or any:ID, failed:ID, ok:ID.
Value after_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  Value value;
  value["end"] = text.substr(0, colon);
  value["job"] = text.substr(colon + 1);
  return value;
}

// A number, or the name of a class.
Value priority_value(const std::string& text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool all = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return all ? Value(number) : Value(text);
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
  body["priority"] = priority_value(choice.priority);
  body["attempts_max"] = choice.attempts_max;
  if (!choice.name.empty()) body["name"] = choice.name;
  if (!choice.queue.empty()) body["queue"] = choice.queue;
  if (!choice.runtime.empty()) body["runtime"] = choice.runtime;
  if (!choice.time_max.empty()) body["time_max"] = choice.time_max;
  if (!choice.deadline.empty()) body["deadline"] = choice.deadline;
  if (choice.cost_cap) body["cost_cap"] = *choice.cost_cap;
  if (choice.running_max != 0) body["running_max"] = choice.running_max;
  FALAJ_TRY(add_place(choice.place, body));
  if (Value capture = capture_of(choice.capture); !capture.is_null()) body["capture"] = capture;
  for (const std::string& name : choice.inputs) body["inputs"].push(name);
  for (const std::string& name : choice.outputs) body["outputs"].push(name);
  if (choice.network) body["network"] = true;
  body["after"] = Value::array();
  for (const std::string& text : choice.after) body["after"].push(after_of(text));
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
Result<std::string> follow_log(Connection& connection, const std::string& id,
                               const std::string& group) {
  std::string status;
  FALAJ_TRY(connection.stream(path_of(id) + "/log:follow", [&](std::string_view data) {
    const auto event = parse_json(data);
    if (!event.ok()) return true;
    std::string text = event->text("text");
    if (!group.empty()) text = jobs::lines_of_group(text, group);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    status = event->text("status");
    return status.empty();
  }));
  return status;
}

// Only the newest attempt's log is followed: whoever wonders about the others is told the command.
void tell_attempts(const std::string& id, const Value& job) {
  const std::int64_t before = job.integer("attempt") - 1;
  if (before < 1) return;
  std::fprintf(stderr, "attempt %lld ended before: falaj jobs logs %s --attempt %lld\n",
               static_cast<long long>(before), id.c_str(), static_cast<long long>(before));
}

// The line in the log that says so stands between its beginning and its end, of which only the last
// part is shown. Nothing is said while the attempt runs, when it is not known.
void tell_cut(const Value& job) {
  const std::int64_t cut = job["result"].integer("log_bytes_cut");
  if (cut <= 0) return;
  std::fprintf(stderr,
               "%s of this log (%lld bytes) were left out: of a long one only the beginning "
               "and the end are kept\n",
               format_bytes(cut).c_str(), static_cast<long long>(cut));
}

// What the job's own error says of itself; one that never ran left no log to read.
ErrorId error_of(const Value& job) {
  if (job.text("status") == "cancelled") return ErrorId::kCancelled;
  const ErrorInfo* info = find_error(job.text("code"));
  return info == nullptr ? ErrorId::kJobFailed : info->id;
}

// Follows to the end, however often the connection ends before.
Status follow_to_end(Connection& connection, const std::string& id, const std::string& group = "") {
  const std::string status = FALAJ_TRY(follow_log(connection, id, group));
  Result<Value> now = connection.get(path_of(id));
  if (now.ok()) {
    tell_attempts(id, *now);
    tell_cut(*now);
  }
  if (status == "succeeded") return {};
  const Value job = FALAJ_TRY(std::move(now));
  if (status.empty()) {
    return Error{Code::kUnavailable, "the server closed the log of job " + id + ", which is " +
                                         job.text("status") + ": follow it again"};
  }
  return Error{error_of(job), "job " + id + " " + job.text("status") + ": " +
                                  jobs::without_log(job.text("error"))};
}

// 100, 0-99, each with %10: how many, and of them how many at a time.
Status add_array(const JobChoice& choice, Value& body) {
  const std::string_view all = choice.array;
  const auto number = [](std::string_view text, std::int64_t& out) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
    return read.ec == std::errc{} && read.ptr == text.data() + text.size() && out >= 0 &&
           out <= std::int64_t{jobs::kArrayMax};
  };
  const std::size_t percent = all.find('%');
  const std::string_view members = all.substr(0, percent);
  std::int64_t count = 0;
  std::int64_t at_a_time = choice.running_max;
  const bool ranged = members.starts_with("0-");
  bool fine = number(ranged ? members.substr(2) : members, count);
  if (percent != std::string_view::npos) {
    fine = fine && choice.running_max == 0 && number(all.substr(percent + 1), at_a_time) &&
           at_a_time > 0;
  }
  count += ranged ? 1 : 0;
  if (!fine || count < 1 || count > std::int64_t{jobs::kArrayMax}) {
    return Error{ErrorId::kUsage, "--array '" + choice.array +
                                      "': write COUNT or 0-LAST, members being numbered "
                                      "from 0 and at most " +
                                      std::to_string(jobs::kArrayMax) +
                                      ", and %N (or --running-max N) for N at a time"};
  }
  body["count"] = count;
  if (at_a_time != 0) body["running_max"] = at_a_time;
  return {};
}

Status submit_array(const Session& session, const JobChoice& choice, Value body, Wait wait) {
  if (wait == Wait::kWait) {
    return Error{ErrorId::kUsage, "--wait is for one job: leave it out, and list the array's jobs"};
  }
  FALAJ_TRY(add_array(choice, body));
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
  if (!choice.array.empty()) return submit_array(session, choice, std::move(body), wait);
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

Status show_jobs(const Session& session, const std::string& id, JobView view, std::int64_t attempt,
                 const std::string& group) {
  if (id.empty() && view == JobView::kLog) {
    return Error{ErrorId::kUsage, "--log needs the id of a job: falaj jobs lists them"};
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  if (id.empty()) {
    const Value reply = FALAJ_TRY(connection->get("/api/v1/jobs"));
    Table table({"JOB", "WHAT", "STATUS", "ATTEMPTS", "CREATED", "ENDED", "ERROR"});
    for (const Value& job : items(reply["jobs"])) {
      gpus_measured = gpus_measured || usage["gpus"].is_array();
      rows.push_back({job.text("id"), what_of(job), job.text("status"), cell(job["attempts"]),
                      cell(job["created_at"]), cell(job["ended_at"]),
                      first_line(cell(job["error"]))});
    }
    print(session.format, reply,
          table.empty() ? "no job in project '" + session.target.project + "'\n" : table.str());
    return {};
  }
  if (view == JobView::kLog) {
    std::string which = "?attempt=" + std::to_string(attempt);
    if (!group.empty()) which += "&group=" + url_encode(group);
    const std::string text = FALAJ_TRY(connection->raw(path_of(id) + "/log" + which));
    const Value job = FALAJ_TRY(connection->get(path_of(id)));
    const bool newest = attempt == 0 || attempt == job.integer("attempt");
    Value value;
    value["id"] = id;
    value["log"] = text;
    if (newest) value["log_bytes_cut"] = job["result"]["log_bytes_cut"];
    print(session.format, value, text);
    if (newest) tell_cut(job);
    return {};
  }
  Value job = FALAJ_TRY(connection->get(path_of(id)));
  job["usage"] = FALAJ_TRY(connection->get(path_of(id) + "/usage"));
  if (session.format != OutputFormat::kTable) {
    print(session.format, job, "");
    return {};
  }
  const std::string drawn = usage_pictures(job["usage"]);
  job.as_object().erase("usage");
  print(OutputFormat::kYaml, job, "");
  print(OutputFormat::kTable, {}, drawn);
  return {};
}

Status explain_job(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value why = FALAJ_TRY(connection->get(path_of(id) + "/why"));
  const std::string change = first_line(why.text("change"));
  const std::string reason = why.text("reason");
  std::string text = id + " " + first_line(reason) +
                     (change.empty() ? std::string() : "; would help: " + change) + "\n";
  // One that failed says so in one line, and below that what it printed last.
  for (std::size_t at = reason.find('\n'); at != std::string::npos;) {
    const std::size_t next = reason.find('\n', at + 1);
    text += "  | " + reason.substr(at + 1, next == std::string::npos ? next : next - at - 1) + "\n";
    at = next;
  }
  print(session.format, why, text);
  return {};
}

Status cancel_job(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value job =
      FALAJ_TRY(connection->call(net::Method::kPost, path_of(id) + ":cancel", Value::object()));
  const std::string status = job.text("status");
  print(session.format, job, id + " is " + (status == "running" ? "being stopped" : status) + "\n");
  return {};
}

Status cancel_jobs(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/jobs"));
  Value done = Value::array();
  // Newest first, as they are listed: who waits is taken out before there is room for it.
  for (const Value& job : items(reply["jobs"])) {
    if (job.text("status") != "queued" && job.text("status") != "running") continue;
    const std::string id = job.text("id");
    const auto told =
        connection->call(net::Method::kPost, path_of(id) + ":cancel", Value::object());
    if (told.ok()) {
      done.push(id);
    } else if (told.error().code != Code::kConflict) {  // That one ended meanwhile.
      return told.error();
    }
  }
  const std::string text = "cancelled " + std::to_string(done.as_array().size()) +
                           " jobs of project '" + session.target.project + "'\n";
  Value value;
  value["cancelled"] = std::move(done);
  print(session.format, value, text);
  return {};
}

Status follow_job(const Session& session, const std::string& id, const std::string& group) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  if (!group.empty()) {  // Refused when it has none of that name.
    FALAJ_TRY(connection->raw(path_of(id) + "/log?group=" + url_encode(group)));
  }
  return follow_to_end(*connection, id, group);
}

Status show_job_usage(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/job-usage"));
  std::vector<std::string> heads = {"JOB",    "NAME",           "QUEUE",           "CPUS",
                                    "MEMORY", "GPUS",           "CPU S",           "USED",
                                    "SINCE",  "CPUS OVER TIME", "MEMORY OVER TIME"};
  std::vector<std::vector<std::string>> rows;
  bool gpus_measured = false;
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
               sparkline(column(usage, "memory_bytes"), request.number("memory"), kSmallWidth),
               sparkline(column(usage, "gpus"), request.number("gpus"), kSmallWidth)});
  }
  if (gpus_measured) heads.emplace_back("GPUS OVER TIME");
  Table table(heads);
  for (std::vector<std::string>& row : rows) {
    row.resize(heads.size());
    table.add(std::move(row));
  }
  print(session.format, reply,
        table.empty() ? "no job runs in project '" + session.target.project + "'\n" : table.str());
  return {};
}

}  // namespace falaj::cli
