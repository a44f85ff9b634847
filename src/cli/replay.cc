// runs replay: the same command or training again, and what differs when its output does.
#include <cstdio>

#include "cli/code_capture.h"
#include "cli/job_commands.h"
#include "jobs/capture.h"

namespace falaj::cli {
namespace {

std::string path_of(const std::string& id) { return "/api/v1/jobs/" + url_encode(id); }

Error not_replayable(const std::string& id, const std::string& why) {
  return Error{Code::kFailedPrecondition, id + " cannot be run again: " + why};
}

// What was captured then, as it is now.
Value captured_now(const Value& then, const ReplayChoice& choice) {
  Value capture = Value::object();
  if (then["code"].is_object()) {
    const bool git = !then["code"].text("commit").empty();
    capture = capture_folder(choice.code.empty() ? "." : choice.code,
                             git ? OutsideGit::kNothing : OutsideGit::kFiles);
    if (capture.is_null()) capture = Value::object();
  }
  if (then["data"].is_object()) capture["data"]["training_set"] = then["data"]["training_set"];
  capture["seed"] = choice.seed ? Value(*choice.seed) : then["seed"];
  return capture;
}

// The submission that made the job, with what is captured now instead of then.
Value again(const Value& job, const ReplayChoice& choice) {
  const Value& payload = job["payload"];
  const Value& request = job["request"];
  Value body;
  body["command"] = payload["command"];
  body["env"] = payload["env"];
  body["name"] = request["name"];
  body["queue"] = request["queue"];
  body["priority"] = request["priority"];
  if (!request["time_max"].is_null()) body["time_max"] = request["time_max"];
  for (const char* name : {"placement", "checkpoint", "cost_cap"}) {
    if (!request[name].is_null()) body[name] = request[name];
  }
  for (const char* name : {"cpus", "memory", "gpus", "disk"}) {
    if (!request[name].is_null()) body["resources"][name] = request[name];
  }
  // A deadline was that of then, as were the jobs it came after.
  body["attempts_max"] = job["attempts_max"];
  if (payload["array"].is_object()) body["array"] = payload["array"];
  if (payload["runtime"].is_object()) body["runtime"] = payload["runtime"]["name"];
  for (const char* name : {"inputs", "outputs", "network"}) {
    if (!payload[name].is_null()) body[name] = payload[name];
  }
  body["capture"] = captured_now(payload["capture"], choice);
  return body;
}

Result<Value> ended(Connection& connection, const std::string& id) {
  for (;;) {
    Value job = FALAJ_TRY(connection.get(path_of(id) + ":wait?seconds=20"));
    const std::string status = job.text("status");
    if (status != "queued" && status != "running") return job;
  }
}

// The version that a run registered; null when it did not.
Result<Value> version_of(Connection& connection, const Value& run) {
  const Value& made = run["outputs"]["model"];
  if (!made.is_object()) return Value();
  const Value model = FALAJ_TRY(connection.get("/api/v1/models/" + url_encode(made.text("name"))));
  for (const Value& version : items(model["versions"])) {
    if (version["version"] == made["version"]) return version;
  }
  return Value();
}

// What a training run was made of, in the shape of a command's payload.
Value payload_of(const Value& run, const Value& version) {
  Value out;
  out["params"] = run["params"];
  out["capture"]["code"]["commit"] = version["code_version"];
  out["capture"]["data"]["training_set"] = run["inputs"]["training_set"]["id"];
  return out;
}

void compare(const Value& before, const Value& after, Value& report) {
  report["reproduced"] = report["output"] == report["output_before"];
  if (const auto found = jobs::first_difference(before, after)) {
    report["difference"]["input"] = found->input;
    report["difference"]["before"] = found->before;
    report["difference"]["after"] = found->after;
  }
}

std::string sentence(const Value& report) {
  const Value& difference = report["difference"];
  const std::string differs = difference.is_null()
                                  ? ""
                                  : difference.text("input") + " was " + difference.text("before") +
                                        " and is " + difference.text("after");
  if (report["reproduced"].as_bool()) {
    return "reproduced: output " + report.text("output") +
           (differs.empty() ? "\n" : ", although " + differs + "\n");
  }
  return "the output differs: " +
         (differs.empty()
              ? "no input that is known does, so the command does not always do the same"
              : differs);
}

// A command's job, if its output can be compared with another one's.
Result<Value> replayable_job(Connection& connection, const std::string& id) {
  Value job = FALAJ_TRY(connection.get(path_of(id)));
  if (job.text("type") != "command")
    return not_replayable(id, "it is neither a command nor a training");
  if (job.text("status") != "succeeded") {
    return not_replayable(id, "it did not succeed: its status is " + job.text("status"));
  }
  if (!job["result"]["output"]["sha256"].is_string()) {
    return not_replayable(id, "its output was not hashed: " +
                                  job["result"]["output"].text("not_hashed", "nobody knows why"));
  }
  return job;
}

// The job that runs another one again, once it has succeeded.
Result<Value> succeeded(Connection& connection, const std::string& job, const std::string& id) {
  Value after = FALAJ_TRY(ended(connection, job));
  if (after.text("status") == "succeeded") return after;
  return Error{ErrorId::kJobFailed, "job " + job + ", which runs " + id + " again, " +
                                        after.text("status") + ": " + after.text("error")};
}

Value job_report(const std::string& id, const Value& before, const Value& after) {
  Value report;
  report["replayed"] = id;
  report["replay"] = after["id"];
  report["output"] = after["result"]["output"]["sha256"];
  report["output_before"] = before["result"]["output"]["sha256"];
  return report;
}

Result<Value> replay_command(Connection& connection, const std::string& id,
                             const ReplayChoice& choice) {
  const Value before = FALAJ_TRY(replayable_job(connection, id));
  const Value submitted =
      FALAJ_TRY(connection.call(net::Method::kPost, "/api/v1/jobs", again(before, choice)));
  std::fprintf(stderr, "submitted %s\n", submitted.text("id").c_str());
  const Value after = FALAJ_TRY(succeeded(connection, submitted.text("id"), id));
  Value report = job_report(id, before, after);
  compare(before["payload"], after["payload"], report);
  return report;
}

// The run of that id, or the one that the training job of that id makes; null when neither is.
Result<Value> run_of(Connection& connection, const std::string& id) {
  const auto find = [&connection](const std::string& path) -> Result<Value> {
    auto found = connection.get(path);
    if (!found.ok() && found.error().code == Code::kNotFound) return Value();
    return found;
  };
  Value run = FALAJ_TRY(find("/api/v1/runs/" + url_encode(id)));
  if (!run.is_null()) return run;
  const Value job = FALAJ_TRY(find(path_of(id)));
  const std::string made = job["payload"].text("run");
  if (made.empty()) return Value();
  return find("/api/v1/runs/" + url_encode(made));
}

// A TrainJob that runs a command, as it is declared now: what its job was made of then is compared,
// and how many workers it had at its end.
Result<Value> replay_workers(Connection& connection, const Value& run, const ReplayChoice& choice) {
  const std::string id = run.text("id");
  const Value before = FALAJ_TRY(replayable_job(connection, run.text("job")));
  Value body;
  body["capture"] = captured_now(before["payload"]["capture"], choice);
  const Value started = FALAJ_TRY(
      connection.call(net::Method::kPost,
                      "/api/v1/train-jobs/" + url_encode(run.text("experiment")) + ":run", body));
  std::fprintf(stderr, "started run %s\n", started.text("run").c_str());
  const Value after = FALAJ_TRY(succeeded(connection, started.text("job"), id));
  const Value made = FALAJ_TRY(connection.get("/api/v1/runs/" + url_encode(started.text("run"))));
  Value report = job_report(id, before, after);
  report["replay"] = made["id"];
  Value then = before["payload"];
  Value now = after["payload"];
  then["workers"] = run["outputs"]["launch"]["workers"];
  now["workers"] = made["outputs"]["launch"]["workers"];
  compare(then, now, report);
  return report;
}

// The same TrainJob on the same frozen set; what it was declared as then is compared.
Result<Value> replay_run(Connection& connection, const Value& before) {
  const std::string id = before.text("id");
  const Value version = FALAJ_TRY(version_of(connection, before));
  if (before.text("status") != "finished") {
    return not_replayable(id, "it did not finish: its status is " + before.text("status"));
  }
  if (version.is_null()) return not_replayable(id, "it registered no model to compare");
  Value body;
  body["training_set_id"] = before["inputs"]["training_set"]["id"];
  const Value started = FALAJ_TRY(connection.call(
      net::Method::kPost, "/api/v1/train-jobs/" + url_encode(before.text("experiment")) + ":run",
      body));
  std::fprintf(stderr, "started run %s\n", started.text("run").c_str());
  const Value after = FALAJ_TRY(follow_run(connection, started.text("run"), started.text("job"),
                                           [](double, const std::string&) {}));
  const Value made = FALAJ_TRY(version_of(connection, after));
  Value report;
  report["replayed"] = id;
  report["replay"] = after["id"];
  report["output"] = made["native"];
  report["output_before"] = version["native"];
  compare(payload_of(before, version), payload_of(after, made), report);
  return report;
}

const char* advice(const Value& report, const ReplayChoice& choice) {
  const Value& difference = report["difference"];
  if (difference.is_null()) {
    return "Look for what it reads besides its inputs: time, chance, the network, files.";
  }
  if (choice.code.empty() && difference.text("input").starts_with("code")) {
    return "This folder was compared: if the code lies elsewhere, give --code FOLDER.";
  }
  return "Put back what it was and replay it once more, or keep the new output.";
}

}  // namespace

Status replay(const Session& session, const std::string& id, const ReplayChoice& choice) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value run = FALAJ_TRY(run_of(*connection, id));
  const bool workers = run["inputs"]["command"].is_array();
  const Value report = FALAJ_TRY(run.is_null() ? replay_command(*connection, id, choice)
                                 : workers     ? replay_workers(*connection, run, choice)
                                               : replay_run(*connection, run));
  const std::string text = sentence(report);
  const bool reproduced = report["reproduced"].as_bool();
  if (reproduced || session.format != OutputFormat::kTable) print(session.format, report, text);
  if (reproduced) return {};
  std::fprintf(stderr, "falaj: %s\n  %s\n", text.c_str(), advice(report, choice));
  return Error{Code::kConflict, ""};  // It was told.
}

}  // namespace falaj::cli
