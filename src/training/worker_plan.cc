#include "training/worker_plan.h"

#include <algorithm>

#include "jobs/capture.h"
#include "launch/advise.h"
#include "launch/log_rules.h"

namespace falaj::training {
namespace {

constexpr std::int64_t kWorkersMost = 1024;
constexpr std::int64_t kKeptMost = 1000;
constexpr Duration kGraceMost = Duration::hours(1);

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

}  // namespace

Result<WorkerPlan> decode_worker_plan(Fields& fields, Duration time_max) {
  WorkerPlan plan;
  Value resources = Value::object();
  FALAJ_TRY(decode_workers(fields, plan, resources));
  FALAJ_TRY(decode_faults(fields, plan));
  FALAJ_TRY(decode_checkpoint(fields, plan));
  // The rest is a job like any other, and is held to the same rules.
  Value job = Value::object();
  for (const char* key : {"command", "env", "queue", "priority", "runtime"}) {
    if (const Value& value = fields.any(key); !value.is_null()) job[key] = value;
  }
  job["resources"] = std::move(resources);
  auto submission = jobs::decode_submission(job);
  if (!submission.ok()) return submission.error().within(fields.where());
  plan.submission = *std::move(submission);
  plan.submission.request.time_max = time_max;
  auto capture = jobs::decode_capture(fields.any("capture"));
  if (!capture.ok()) return capture.error().within(fields.where());
  plan.capture = *std::move(capture);
  return plan;
}

int workers_on(const jobs::Machine& machine, const WorkerPlan& plan) {
  const jobs::Resources& each = plan.submission.request.resources;
  const auto room = [](std::int64_t there, std::int64_t asked) {
    return there / std::max<std::int64_t>(1, asked);
  };
  std::int64_t most = std::min(room(machine.cpu_milli, each.cpu_milli),
                               room(machine.memory_bytes, each.memory_bytes));
  if (each.gpus > 0) most = std::min(most, room(machine.gpus, each.gpus));
  return static_cast<int>(std::clamp<std::int64_t>(most, plan.workers_min, plan.workers_max));
}

jobs::Request request_of(const WorkerPlan& plan, int most, const std::string& name) {
  jobs::Request request = plan.submission.request;
  request.name = name;
  request.workers = jobs::Workers{request.resources, plan.workers_min, most};
  give_workers(request, plan.workers_min);
  return request;
}

std::vector<std::string> gang_words(const jobs::Request& granted, std::int64_t workers) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::int64_t least = granted.workers ? std::min(granted.workers->min, workers) : workers;
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
  std::vector<std::string> words{"--servers",     number(plan.servers),
                                 "--restarts",    number(plan.crashes_max),
                                 "--preemptions", number(plan.preemptions_max),
                                 "--grace",       number(plan.grace.nanos / 1'000'000) + "ms",
                                 "--last",        number(plan.keep_last),
                                 "--best",        number(plan.keep_best)};
  if (plan.better == "lower") words.emplace_back("--lower-is-better");
  if (plan.on_crash == "keep_survivors") words.emplace_back("--keep-survivors");
  for (const std::string& rule : plan.log_rules) {
    words.emplace_back("--on-log");
    words.push_back(rule);
  }
  return words;
}

}  // namespace falaj::training
