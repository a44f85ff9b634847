#include "training/worker_plan.h"

#include <algorithm>

#include "base/json.h"
#include "jobs/capture.h"
#include "launch/advise.h"
#include "launch/log_rules.h"

namespace falaj::training {
namespace {

constexpr std::int64_t kWorkersMost = 1024;
constexpr std::int64_t kKeptMost = 1000;
constexpr Duration kGraceMost = Duration::hours(1);
constexpr std::size_t kGroupsTextMost = 64 * 1024;  // Words of a command line, as JSON.

Status decode_workers(Fields& fields, WorkerPlan& plan, Value& resources) {
  const Value value = FALAJ_TRY(fields.object("workers"));
  Fields workers(value, fields.where() + " workers");
  const std::int64_t least = FALAJ_TRY(workers.integer("min", 1, 1, kWorkersMost));
  const std::int64_t most = FALAJ_TRY(workers.integer("max", least, least, kWorkersMost));
  plan.workers_min = static_cast<int>(least);
  plan.workers_max = static_cast<int>(most);
  plan.servers = static_cast<int>(FALAJ_TRY(workers.integer("servers", 0, 0, kWorkersMost)));
  // One worker's part; bounds are those of any job.
  if (const Value& cpu = workers.any("cpu"); !cpu.is_null()) resources["cpus"] = cpu;
  if (const Value& memory = workers.any("memory"); !memory.is_null()) resources["memory"] = memory;
  if (const Value& gpus = workers.any("gpus"); !gpus.is_null()) resources["gpus"] = gpus;
  return workers.finish();
}

// One role: the launcher's part, and what each of its processes has. `job` has what all have.
Result<PlannedGroup> decode_planned(const Value& value, Value job, const std::string& where) {
  PlannedGroup out;
  Value role = value;
  Value resources = Value::object();
  for (const auto& [name, as] :
       {std::pair{"cpu", "cpus"}, std::pair{"memory", "memory"}, std::pair{"gpus", "gpus"}}) {
    if (const Value& own = value[name]; !own.is_null()) resources[as] = own;
    if (role.is_object() && std::string_view(name) != "gpus") role.as_object().erase(name);
  }
  if (value.has("threads")) {
    return Error(ErrorId::kOutOfRange, where + ": 'threads' follow from 'cpu'");
  }
  auto decoded = launch::decode_group(role);
  if (!decoded.ok()) return decoded.error().within(where);
  out.role = *std::move(decoded);
  if (!out.role.argv.empty()) job["command"] = value["command"];
  job["resources"] = std::move(resources);
  // A job like any other, and held to the same rules.
  auto submission = jobs::decode_submission(job);
  if (!submission.ok()) return submission.error().within(where + " '" + out.role.name + "'");
  out.each = submission->request.resources;
  out.role.threads = static_cast<int>(std::max<std::int64_t>(1, out.each.cpu_milli / 1000));
  return out;
}

Status check_roles(const WorkerPlan& plan, const std::string& where) {
  std::vector<launch::Group> roles;
  std::int64_t processes = 0;
  for (const PlannedGroup& group : plan.groups) {
    roles.push_back(group.role);
    processes += group.role.max;
  }
  const Status status = launch::check_groups(roles);
  if (!status.ok()) return status.error().within(where);
  if (processes > kWorkersMost) {
    return Error(ErrorId::kOutOfRange, where + ": groups have at most 1024 processes");
  }
  if (to_json(group_values(plan)).size() > kGroupsTextMost) {
    return Error(ErrorId::kOutOfRange, where + ": the commands of groups have at most 64 KiB");
  }
  return {};
}

// Those whose number may change, else the first workers, else the chief.
std::size_t elastic_of(const std::vector<PlannedGroup>& groups) {
  std::size_t out = groups.size();
  for (std::size_t i = groups.size(); i-- > 0;) {
    const launch::Group& role = groups[i].role;
    if (role.role != launch::Role::kWorker) continue;
    if (role.max > role.min) return i;
    if (!role.chief || out == groups.size()) out = i;
  }
  return out;
}

// Instead of `workers`.
Status decode_roles(Fields& fields, WorkerPlan& plan, Value& resources, Value& command) {
  const Value::Array list = FALAJ_TRY(fields.list("groups"));
  if (list.empty()) return {};
  if (!fields.any("workers").is_null()) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": give 'workers' or 'groups'");
  }
  if (list.size() > launch::kGroupsMax) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": there are at most 8 groups");
  }
  Value job = Value::object();
  if (!command.is_null()) job["command"] = command;
  for (const Value& each : list) {
    plan.groups.push_back(FALAJ_TRY(decode_planned(each, job, fields.where() + " groups")));
  }
  std::stable_sort(plan.groups.begin(), plan.groups.end(),
                   [](const PlannedGroup& a, const PlannedGroup& b) {
                     return launch::goes_before(a.role, b.role);
                   });
  FALAJ_TRY(check_roles(plan, fields.where()));
  plan.elastic = elastic_of(plan.groups);
  const PlannedGroup& workers = plan.groups[plan.elastic];
  plan.workers_min = workers.role.min;
  plan.workers_max = workers.role.max;
  resources["cpus"] = static_cast<double>(workers.each.cpu_milli) / 1000;
  resources["memory"] = workers.each.memory_bytes;
  resources["gpus"] = workers.each.gpus;
  if (!command.is_null()) return {};
  for (const std::string& word : workers.role.argv) command.push(word);
  return {};
}

// A word or a number: "unlimited", 3.
Result<std::int64_t> decode_preemptions(Fields& faults) {
  const Value& value = faults.any("preemptions_max");
  if (value.is_null() || value == Value("unlimited")) return std::int64_t{-1};
  if (value.is_int() && value.as_int() >= 0 && value.as_int() <= 1'000'000) return value.as_int();
  return Error(ErrorId::kOutOfRange,
               faults.where() + ": preemptions_max is unlimited, or 0 to 1000000");
}

Result<std::vector<std::string>> decode_rules(Fields& faults) {
  std::vector<std::string> rules;
  for (const Value& each : FALAJ_TRY(faults.list("log_rules"))) {
    Fields rule(each, faults.where() + " log_rules");
    const std::string what = FALAJ_TRY(rule.choice("do", {"stop", "retry", "exclude"}));
    const std::string match = FALAJ_TRY(rule.required_text("match"));
    FALAJ_TRY(rule.finish());
    rules.push_back(what + "=" + match);
  }
  const auto parsed = launch::LogRules::parse(rules);
  if (!parsed.ok()) return parsed.error().within(faults.where() + " log_rules");
  return rules;
}

Status decode_faults(Fields& fields, WorkerPlan& plan) {
  const Value value = FALAJ_TRY(fields.object("faults"));
  Fields faults(value, fields.where() + " faults");
  plan.crashes_max =
      static_cast<int>(FALAJ_TRY(faults.integer("crashes_max", plan.crashes_max, 0, 1'000'000)));
  plan.preemptions_max = FALAJ_TRY(decode_preemptions(faults));
  plan.grace = FALAJ_TRY(faults.duration("grace", plan.grace));
  if (plan.grace.nanos <= 0 || plan.grace > kGraceMost) {
    return Error(ErrorId::kOutOfRange, faults.where() + ": grace is over 0s and at most 1h");
  }
  plan.on_crash = FALAJ_TRY(faults.choice("on_crash", {"restart_all", "keep_survivors"}));
  plan.log_rules = FALAJ_TRY(decode_rules(faults));
  return faults.finish();
}

Status decode_checkpoint(Fields& fields, WorkerPlan& plan) {
  const Value value = FALAJ_TRY(fields.object("checkpoint"));
  Fields checkpoint(value, fields.where() + " checkpoint");
  const Value keep = FALAJ_TRY(checkpoint.object("keep"));
  Fields kept(keep, checkpoint.where() + " keep");
  plan.keep_last = static_cast<int>(FALAJ_TRY(kept.integer("last", 2, 1, kKeptMost)));
  plan.keep_best = static_cast<int>(FALAJ_TRY(kept.integer("best", 1, 0, kKeptMost)));
  FALAJ_TRY(kept.finish());
  plan.better = FALAJ_TRY(checkpoint.choice("better", {"higher", "lower"}));
  return checkpoint.finish();
}

// As many of each as were granted.
std::vector<std::string> group_words(const jobs::Request& granted, std::int64_t workers,
                                     std::int64_t least, const Value::Array& groups) {
  std::vector<std::string> words;
  std::int64_t ranked = 0;
  for (Value group : groups) {
    if (granted.workers && group.text("name") == granted.workers->group) {
      group["min"] = least;
      group["max"] = workers;
    }
    const std::string role = group.text("role");
    if (role == "chief" || role == "worker") ranked += group.integer("max");
    words.insert(words.end(), {"--group", to_json(group)});
  }
  words.insert(words.end(), {"--slots", std::to_string(ranked)});
  return words;
}

}  // namespace

Result<WorkerPlan> decode_worker_plan(Fields& fields, Duration time_max) {
  WorkerPlan plan;
  Value resources = Value::object();
  FALAJ_TRY(decode_workers(fields, plan, resources));
  Value command = fields.any("command");
  FALAJ_TRY(decode_roles(fields, plan, resources, command));
  FALAJ_TRY(decode_faults(fields, plan));
  FALAJ_TRY(decode_checkpoint(fields, plan));
  // The rest is a job like any other, and is held to the same rules.
  Value job = Value::object();
  for (const char* key :
       {"env", "queue", "priority", "runtime", "placement", "cost_cap", "deadline"}) {
    if (const Value& value = fields.any(key); !value.is_null()) job[key] = value;
  }
  if (!command.is_null()) job["command"] = std::move(command);
  job["resources"] = std::move(resources);
  auto submission = jobs::decode_submission(job);
  if (!submission.ok()) return submission.error().within(fields.where());
  plan.submission = *std::move(submission);
  plan.submission.request.time_max = time_max;
  const auto& placement = plan.submission.request.placement;
  if (placement && (placement->gpu.is_part() || placement->numa)) {
    return Error(ErrorId::kOutOfRange, fields.where() +
                                           ": workers have whole GPUs, and any processors: leave "
                                           "'fraction', 'mig' and 'numa' out of 'placement'");
  }
  auto capture = jobs::decode_capture(fields.any("capture"));
  if (!capture.ok()) return capture.error().within(fields.where());
  plan.capture = *std::move(capture);
  return plan;
}

int workers_on(const jobs::Machine& machine, const WorkerPlan& plan) {
  const jobs::Resources& each = plan.submission.request.resources;
  const jobs::Resources taken = groups_take(request_of(plan, plan.workers_max, ""));
  const auto room = [](std::int64_t there, std::int64_t asked) {
    return std::max<std::int64_t>(0, there) / std::max<std::int64_t>(1, asked);
  };
  std::int64_t most = std::min(room(machine.cpu_milli - taken.cpu_milli, each.cpu_milli),
                               room(machine.memory_bytes - taken.memory_bytes, each.memory_bytes));
  if (each.gpus > 0) {
    most = std::min(most, room(std::int64_t{machine.gpus} - taken.gpus, each.gpus));
  }
  return static_cast<int>(std::clamp<std::int64_t>(most, plan.workers_min, plan.workers_max));
}

jobs::Request request_of(const WorkerPlan& plan, int most, const std::string& name) {
  jobs::Request request = plan.submission.request;
  request.name = name;
  request.workers = jobs::Workers{request.resources, plan.workers_min, most};
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const PlannedGroup& group = plan.groups[i];
    if (i == plan.elastic) {
      request.workers->group = group.role.name;
    } else {
      request.groups.push_back({group.role.name, group.each, group.role.min});
    }
  }
  give_workers(request, plan.workers_min);
  return request;
}

Value group_values(const WorkerPlan& plan) {
  Value out;
  const auto& env = plan.submission.env;
  const bool threads_given = std::any_of(
      env.begin(), env.end(), [](const auto& each) { return each.first == "OMP_NUM_THREADS"; });
  for (const PlannedGroup& group : plan.groups) {
    Value value = launch::to_value(group.role);
    if (threads_given) value["threads"] = 0;
    out.push(std::move(value));
  }
  return out;
}

std::vector<std::string> gang_words(const jobs::Request& granted, std::int64_t workers,
                                    const Value& groups) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::int64_t least = granted.workers ? std::min(granted.workers->min, workers) : workers;
  if (groups.is_array()) {
    std::vector<std::string> words = group_words(granted, workers, least, groups.as_array());
    const std::int64_t memory = granted.resources.memory_bytes / launch::kWaitingShare;
    words.insert(words.end(), {"--memory", number(memory)});
    return words;
  }
  std::vector<std::string> words{
      "--workers", number(least) + ":" + number(workers),
      "--slots",   number(workers),
      "--memory",  number(granted.resources.memory_bytes / launch::kWaitingShare)};
  const std::int64_t gpus = granted.workers ? granted.workers->each.gpus : 0;
  if (gpus > 0) words.insert(words.end(), {"--gpus", number(gpus)});
  return words;
}

std::vector<std::string> launch_words(const WorkerPlan& plan) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::vector<std::string> words;
  if (plan.groups.empty()) words = {"--servers", number(plan.servers)};
  words.insert(words.end(), {"--restarts", number(plan.crashes_max), "--preemptions",
                             number(plan.preemptions_max), "--grace",
                             number(plan.grace.nanos / 1'000'000) + "ms", "--last",
                             number(plan.keep_last), "--best", number(plan.keep_best)});
  if (plan.better == "lower") words.emplace_back("--lower-is-better");
  if (plan.on_crash == "keep_survivors") words.emplace_back("--keep-survivors");
  for (const std::string& rule : plan.log_rules) {
    words.emplace_back("--on-log");
    words.push_back(rule);
  }
  return words;
}

}  // namespace falaj::training
