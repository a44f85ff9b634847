// train and runs.
#include <cstdio>

#include "cli/commands.h"

namespace falaj::cli {
namespace {

std::string metrics_text(const Value& metrics) {
  if (!metrics.is_object()) return "";
  std::string text;
  for (const auto& [name, value] : metrics.as_object()) {
    text += (text.empty() ? "" : "  ") + name + " " + cell(value);
  }
  return text;
}

std::string run_table(const Value::Array& runs) {
  Table table({"RUN", "JOB", "STATUS", "PROGRESS", "METRICS", "STARTED"});
  for (const Value& run : runs) {
    table.add({run.text("id"), run.text("experiment"), run.text("status"),
               std::to_string(static_cast<int>(run.number("progress") * 100)) + "%",
               metrics_text(run["metrics"]), cell(run["started_at"])});
  }
  return table.str();
}

}  // namespace

Error job_error(const std::string& run, const Value& job) {
  const ErrorInfo* info = find_error(job.text("code"));
  return Error{info == nullptr ? ErrorId::kJobFailed : info->id,
               "run " + run + " " + job.text("status") + ": " + job.text("error")};
}

Result<Value> follow_run(Connection& connection, const std::string& run, const std::string& job,
                         const std::function<void(double, const std::string&)>& on_progress) {
  for (;;) {
    const Value state =
        FALAJ_TRY(connection.get("/api/v1/jobs/" + url_encode(job) + ":wait?seconds=1"));
    const Value now = FALAJ_TRY(connection.get("/api/v1/runs/" + url_encode(run)));
    on_progress(now.number("progress"), metrics_text(now["metrics"]));
    const std::string status = state.text("status");
    if (status == "queued" || status == "running") continue;
    if (status == "succeeded") return now;
    return job_error(run, state);
  }
}

Status train(const Session& session, const std::string& job, Wait wait, const Value& capture) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body = Value::object();
  if (!capture.is_null()) body["capture"] = capture;
  const Value started = FALAJ_TRY(
      connection->call(net::Method::kPost, "/api/v1/train-jobs/" + url_encode(job) + ":run", body));
  for (const Value& warning : items(started["warnings"])) {
    std::fprintf(stderr, "warning: %s\n", cell(warning).c_str());
  }
  if (wait == Wait::kNo) {
    print(session.format, started,
          "started run " + started.text("run") + " as job " + started.text("job") + "\n");
    return {};
  }
  std::fprintf(stderr, "started run %s as job %s\n", started.text("run").c_str(),
               started.text("job").c_str());
  Progress progress("train", job);
  const Value run = FALAJ_TRY(
      follow_run(*connection, started.text("run"), started.text("job"),
                 [&](double share, const std::string& note) { progress.set(share, note); }));
  progress.done(metrics_text(run["metrics"]));
  const Value& model = run["outputs"]["model"];
  print(session.format, run,
        model.is_null()
            ? "run " + run.text("id") + " finished\n"
            : "registered " + model.text("name") + " version " + cell(model["version"]) + "\n");
  return {};
}

Status show_runs(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  if (!id.empty()) {
    const Value run = FALAJ_TRY(connection->get("/api/v1/runs/" + url_encode(id)));
    print(session.format == OutputFormat::kTable ? OutputFormat::kYaml : session.format, run, "");
    return {};
  }
  const Value reply = FALAJ_TRY(connection->get("/api/v1/runs"));
  const auto& runs = items(reply["runs"]);
  print(session.format, reply,
        runs.empty() ? "no runs yet; falaj train JOB starts one\n" : run_table(runs));
  return {};
}

}  // namespace falaj::cli
