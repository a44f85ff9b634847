#include "cli/demo/crowded.h"

#include <algorithm>
#include <set>

#include "cli/demo/demo.h"
#include "cli/demo/objects.h"

namespace falaj::cli::demo {
namespace {

constexpr std::size_t kConstraintsMin = 5;

// What each queue has is much less than what is asked of it; the machine's rest is everybody's.
constexpr const char* kQueues = R"(
kind: Queue
metadata: {name: research, project: @P@}
spec: {quota: {cpu: {nominal: 0.4, borrow: 0}}}
---
kind: Queue
metadata: {name: vision, project: @P@}
spec: {parent: research}
---
kind: Queue
metadata: {name: speech, project: @P@}
spec: {parent: research}
---
kind: Queue
metadata: {name: reports, project: @P@}
spec: {quota: {cpu: {nominal: 0.2, borrow: 0}}}
---
kind: Queue
metadata: {name: notebooks, project: @P@}
spec: {quota: {memory: {nominal: 64Mi, borrow: 0}}}
)";

struct Want {
  std::string name;
  std::string queue;
  double cpus = 0.2;
  std::string time_max = "20m";
  std::int64_t priority = 0;
  std::vector<std::string> after{};
};

// One demonstration: its jobs, by id.
class Crowd {
 public:
  Crowd(Session session, std::unique_ptr<Connection> connection)
      : session_(std::move(session)), connection_(std::move(connection)) {}

  Status run(Afterwards after) {
    FALAJ_TRY(declare());
    const Status asked = fill_and_ask();
    const bool keep = after == Afterwards::kKeep && asked.ok();
    const Status cleared = keep ? Status() : cancel_all();
    FALAJ_TRY(asked);
    FALAJ_TRY(cleared);
    Table table({"JOB", "QUEUE", "WHY", "WHAT WOULD HELP"});
    for (const Value& job : items(waiting_)) {
      table.add({job.text("name"), job.text("queue"), job.text("reason"), job.text("change")});
    }
    Value result;
    result["project"] = session_.target.project;
    result["jobs"] = waiting_;
    const std::string& project = session_.target.project;
    print(session_.format, result,
          table.str() +
              (keep ? "They stay: falaj jobs list --project " + project +
                          ", falaj jobs why ID --project " + project +
                          "; away with them: falaj jobs cancel --all --project " + project + "\n"
                    : std::string()));
    return judge_crowd(waiting_);
  }

 private:
  Status declare() {
    FALAJ_TRY(apply_yaml(*connection_, in_project(session_.target.project, kQueues)));
    return {};
  }

  Result<std::string> submit(const Want& want) {
    Value body;
    for (const char* word : {"sleep", "1000"}) body["command"].push(word);
    body["name"] = want.name;
    body["queue"] = want.queue;
    body["priority"] = want.priority;
    body["time_max"] = want.time_max;
    body["resources"]["cpus"] = want.cpus;
    body["resources"]["memory"] = "64Mi";
    for (const std::string& id : want.after) body["after"].push(id);
    const Value job = FALAJ_TRY(connection_->call(net::Method::kPost, "/api/v1/jobs", body));
    ids_.push_back(job.text("id"));
    return ids_.back();
  }

  Status several(int count, Want want) {
    const std::string name = want.name;
    for (int i = 1; i <= count; ++i) {
      want.name = name + "-" + std::to_string(i);
      FALAJ_TRY(submit(want));
    }
    return {};
  }

  Status fill_and_ask() {
    const Value usage = FALAJ_TRY(connection_->get("/api/v1/job-usage"));
    const double cpus = std::max(1.0, usage["machine"].number("cpus"));
    // These run, and fill what their queues have.
    FALAJ_TRY(several(2, {.name = "pretrain", .queue = "vision"}));
    const std::string report = FALAJ_TRY(submit({.name = "report", .queue = "reports"}));
    FALAJ_TRY(submit({.name = "notebook", .queue = "notebooks", .cpus = 0.1}));
    // These wait: for the quota of the queue above theirs, of their own, for its memory, …
    FALAJ_TRY(several(8, {.name = "tune", .queue = "vision"}));
    FALAJ_TRY(several(6, {.name = "transcribe", .queue = "speech"}));
    FALAJ_TRY(several(6, {.name = "summary", .queue = "reports"}));
    FALAJ_TRY(several(6, {.name = "cell", .queue = "notebooks", .cpus = 0.1}));
    // … for a job that comes before them, for the whole machine, …
    FALAJ_TRY(several(4, {.name = "mail", .queue = "", .after = {report}}));
    FALAJ_TRY(several(2, {.name = "whole", .queue = "", .cpus = cpus, .priority = 10}));
    // … and for those who want it whole and go first: they would run longer than the others.
    FALAJ_TRY(several(8, {.name = "long", .queue = "", .cpus = 0.1, .time_max = "1h"}));
    return ask();
  }

  Status ask() {
    for (const std::string& id : ids_) {
      const Value job = FALAJ_TRY(connection_->get("/api/v1/jobs/" + id));
      if (job.text("status") != "queued") continue;
      Value why = FALAJ_TRY(connection_->get("/api/v1/jobs/" + id + "/why"));
      if (why.text("status") != "queued") continue;  // Began meanwhile.
      why["name"] = job["request"].text("name");
      why["queue"] = job["request"].text("queue", "default");
      waiting_.push(std::move(why));
    }
    return {};
  }

  // Backwards: who waits is taken out before there is room for it.
  Status cancel_all() {
    Status first;
    for (auto id = ids_.rbegin(); id != ids_.rend(); ++id) {
      const auto done =
          connection_->call(net::Method::kPost, "/api/v1/jobs/" + *id + ":cancel", Value::object());
      const bool over = !done.ok() && done.error().code == Code::kConflict;
      if (!done.ok() && !over && first.ok()) first = done.error();
    }
    return first;
  }

  Session session_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::string> ids_;
  Value waiting_ = Value::array();
};

}  // namespace

Status judge_crowd(const Value& jobs) {
  std::set<std::string> constraints;
  for (const Value& job : items(jobs)) {
    for (const char* told : {"code", "reason", "constraint", "change"}) {
      if (!job.text(told).empty()) continue;
      return Error{Code::kInternal,
                   "demo: job " + job.text("name") + " waits without a " + std::string(told)};
    }
    constraints.insert(job.text("constraint"));
  }
  if (constraints.size() >= kConstraintsMin) return {};
  return Error{Code::kFailedPrecondition,
               "demo: only " + std::to_string(constraints.size()) +
                   " different constraints bind, because other jobs run on this machine: wait for "
                   "them, or cancel them ('falaj jobs top' and 'falaj jobs cancel ID', with the "
                   "--project that they are in), then repeat this"};
}

Status run_crowded(const Session& session, Afterwards after) {
  Session own = session;
  auto first = FALAJ_TRY(Connection::open(own.target));
  own.target.project = FALAJ_TRY(free_project(*first));
  auto connection = FALAJ_TRY(Connection::open(own.target));
  return Crowd(own, std::move(connection)).run(after);
}

}  // namespace falaj::cli::demo
