#include "jobs/request.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/decode.h"
#include "base/json.h"
#include "base/units.h"
#include "jobs/queue.h"
#include "jobs/reach.h"
#include "scheduler/mig.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kWordsMax = 1024;
constexpr std::size_t kTextMax = 64 * 1024;  // Of all words together; of all of env together.
constexpr std::size_t kEnvMax = 128;
constexpr std::size_t kAfterMax = 64;
constexpr std::size_t kNameMax = 128;
constexpr std::int64_t kPriorityMost = 1000;
constexpr std::int64_t kAttemptsMost = 100;
constexpr std::int64_t kMemoryUsual = std::int64_t{512} << 20;
constexpr std::int64_t kMemoryLeast = std::int64_t{4} << 20;
constexpr std::int64_t kDiskLeast = std::int64_t{1} << 20;
constexpr double kCpusLeast = 0.01;
constexpr double kCpusMost = 4096;
constexpr double kCostMost = 1e9;
constexpr Duration kTimeMost = Duration::days(365);

Error wrong(const Fields& fields, const std::string& what) {
  return Error(ErrorId::kOutOfRange, fields.where() + ": " + what);
}

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

// Shown on terminals and in logs as it is.
bool is_showable(const std::string& text) {
  return is_valid_utf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

Result<Resources> decode_resources(const Value& value) {
  Fields fields(value, "job resources");
  Resources out;
  const double cpus = FALAJ_TRY(fields.number("cpus", 1));
  if (!(cpus >= kCpusLeast && cpus <= kCpusMost)) {
    return wrong(fields, "'cpus' is within 0.01 and 4096");
  }
  out.cpu_milli = std::llround(cpus * 1000);
  out.memory_bytes = FALAJ_TRY(fields.bytes("memory", kMemoryUsual));
  if (out.memory_bytes < kMemoryLeast) return wrong(fields, "'memory' is at least 4Mi");
  out.gpus = FALAJ_TRY(fields.integer("gpus", 0, 0, 16));
  out.disk_bytes = FALAJ_TRY(fields.bytes("disk", 0));
  if (out.disk_bytes != 0 && out.disk_bytes < kDiskLeast) {
    return wrong(fields, "'disk' is at least 1Mi");
  }
  out.bound = FALAJ_TRY(fields.boolean("bound", false));
  if (out.bound && out.cpu_milli % 1000 != 0) {
    return wrong(fields, "'bound' takes whole processors: 'cpus' is 1, 2, …");
  }
  FALAJ_TRY(fields.finish());
  return out;
}

Result<std::vector<std::string>> decode_command(Fields& fields) {
  std::vector<std::string> words = FALAJ_TRY(fields.texts("command"));
  if (words.empty() || words.front().empty()) {
    return Error(ErrorId::kMissingField,
                 fields.where() + ": 'command' is needed: a program and its arguments");
  }
  std::size_t bytes = 0;
  for (const std::string& word : words) {
    bytes += word.size();
    if (has_nul(word)) return wrong(fields, "a word of 'command' holds a zero byte");
  }
  if (words.size() > kWordsMax || bytes > kTextMax) {
    return wrong(fields, "'command' has at most 1024 words and 64 KiB; put more into a file");
  }
  return words;
}

bool is_variable(const std::string& name) {
  const auto letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<std::vector<std::pair<std::string, std::string>>> decode_env(Fields& fields) {
  std::vector<std::pair<std::string, std::string>> env;
  const Value value = FALAJ_TRY(fields.object("env"));
  if (!value.is_object()) return env;
  std::size_t bytes = 0;
  for (const auto& [name, text] : value.as_object()) {
    if (!is_variable(name)) return wrong(fields, "env: '" + name + "' is no name of a variable");
    if (is_servers_variable(name)) {
      return wrong(fields, "env: '" + name + "': names that begin with FALAJ_ are the server's");
    }
    if (!text.is_string() || has_nul(text.as_string())) {
      return wrong(fields, "env: '" + name + "' is not a text");
    }
    bytes += name.size() + text.as_string().size();
    env.emplace_back(name, text.as_string());
  }
  if (env.size() > kEnvMax || bytes > kTextMax) {
    return wrong(fields, "'env' has at most 128 variables and 64 KiB");
  }
  return env;
}

constexpr std::pair<AfterEnd, const char*> kAfterEnds[] = {
    {AfterEnd::kOk, "ok"}, {AfterEnd::kAny, "any"}, {AfterEnd::kFailed, "failed"}};

// An id, or {job, end}.
Result<After> decode_one_after(const Value& value) {
  if (value.is_string()) return After(JobId(value.as_string()));
  Fields fields(value, "job after");
  const std::string id = FALAJ_TRY(fields.required_text("job"));
  const std::string end = FALAJ_TRY(fields.choice("end", {"ok", "any", "failed"}));
  FALAJ_TRY(fields.finish());
  After out{JobId(id)};
  for (const auto& [each, name] : kAfterEnds) {
    if (end == name) out.end = each;
  }
  return out;
}

Result<std::vector<After>> decode_after(Fields& fields) {
  std::vector<After> out;
  for (const Value& each : FALAJ_TRY(fields.list("after"))) {
    if (!each.is_string() && !each.is_object()) {
      return wrong(fields, "'after' is a list of jobs, or of {job, end}");
    }
    out.push_back(FALAJ_TRY(decode_one_after(each)));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() > kAfterMax) return wrong(fields, "'after' names at most 64 jobs");
  const auto twice = std::adjacent_find(
      out.begin(), out.end(), [](const After& a, const After& b) { return a.job == b.job; });
  if (twice != out.end()) {
    return wrong(fields, "'after' names job " + twice->job.str() + " with two ends");
  }
  return out;
}

Value to_value(const After& after) {
  if (after.end == AfterEnd::kOk) return after.job.str();
  Value value;
  value["job"] = after.job.str();
  for (const auto& [end, name] : kAfterEnds) {
    if (after.end == end) value["end"] = name;
  }
  return value;
}

Result<Timestamp> decode_deadline(Fields& fields) {
  const std::string text = FALAJ_TRY(fields.text("deadline"));
  if (text.empty()) return Timestamp::max();
  Result<Timestamp> at = parse_timestamp(text);
  if (!at.ok()) return at.error().within(fields.where() + " deadline");
  return at;
}

Result<Value> decode_place(const Value& value) {
  Fields fields(value, "job array");
  Value out;
  const std::int64_t count = FALAJ_TRY(fields.integer("count", 1, 1, std::int64_t{kArrayMax}));
  out["count"] = count;
  out["index"] = FALAJ_TRY(fields.integer("index", 0, 0, count - 1));
  FALAJ_TRY(fields.finish());
  return out;
}

// What narrows where it may be, and what stopping it costs.
Status decode_place_asked(Fields& fields, Request& out) {
  const Value placement = FALAJ_TRY(fields.object("placement"));
  Constraints asked = FALAJ_TRY(decode_constraints(placement, out.resources.gpus));
  if (asked.numa) {
    if (out.resources.cpu_milli % 1000 != 0) {
      return wrong(fields, "'numa' takes whole processors: 'cpus' is 1, 2, …");
    }
    out.resources.bound = true;
  }
  if (asked != Constraints{}) out.placement = std::move(asked);
  const Value checkpoint = FALAJ_TRY(fields.object("checkpoint"));
  out.saving = FALAJ_TRY(decode_saving(checkpoint));
  out.running_max = FALAJ_TRY(fields.integer("running_max", 0, 0, std::int64_t{kArrayMax}));
  return {};
}

Result<Request> decode_request(Fields& fields) {
  Request out;
  out.name = FALAJ_TRY(fields.text("name"));
  if (out.name.size() > kNameMax) return wrong(fields, "'name' has at most 128 bytes");
  if (!is_showable(out.name)) {
    return wrong(fields, "'name' is UTF-8 without control characters");
  }
  out.queue = FALAJ_TRY(fields.text("queue"));
  if (!out.queue.empty()) FALAJ_TRY(check_name("queue", out.queue));
  if (fields.any("priority").is_string()) {
    out.priority_class = FALAJ_TRY(fields.text("priority"));
    FALAJ_TRY(check_name("priority", out.priority_class));
  } else {
    out.priority = FALAJ_TRY(fields.integer("priority", 0, -kPriorityMost, kPriorityMost));
  }
  const Value resources = FALAJ_TRY(fields.object("resources"));
  out.resources = FALAJ_TRY(decode_resources(resources));
  out.time_max = FALAJ_TRY(fields.duration("time_max", Duration{}));
  if (out.time_max.nanos < 0 || out.time_max > kTimeMost) {
    return wrong(fields, "'time_max' is at most a year");
  }
  out.deadline = FALAJ_TRY(decode_deadline(fields));
  const double cap = FALAJ_TRY(fields.number("cost_cap", 0));
  if (!(cap >= 0 && cap <= kCostMost))
    return wrong(fields, "'cost_cap' is within 0 and 1000000000");
  if (!fields.any("cost_cap").is_null()) out.cost_cap = std::llround(cap * 1e6);
  FALAJ_TRY(decode_place_asked(fields, out));
  out.after = FALAJ_TRY(decode_after(fields));
  return out;
}

// What no machine has stays more than any machine has.
std::int64_t times(std::int64_t amount, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  return amount > kMost / std::max<std::int64_t>(1, count) ? kMost : amount * count;
}

// What one of many has.
void put_each(const Resources& each, Value& value) {
  value["cpus"] = static_cast<double>(each.cpu_milli) / 1000;
  value["memory"] = each.memory_bytes;
  value["gpus"] = each.gpus;
}

Resources each_from_stored(const Value& value) {
  Resources out;
  out.cpu_milli = std::llround(value.number("cpus", 1) * 1000);
  out.memory_bytes = value.integer("memory");
  out.gpus = value.integer("gpus");
  return out;
}

Value to_value(const Workers& workers) {
  Value value;
  value["min"] = workers.min;
  value["max"] = workers.max;
  put_each(workers.each, value);
  if (!workers.group.empty()) value["group"] = workers.group;
  return value;
}

Workers workers_from_stored(const Value& value) {
  Workers out;
  out.min = std::max<std::int64_t>(1, value.integer("min", 1));
  out.max = std::max(out.min, value.integer("max", 1));
  out.each = each_from_stored(value);
  out.group = value.text("group");
  return out;
}

Value to_value(const Group& group) {
  Value value;
  value["name"] = group.name;
  value["count"] = group.count;
  put_each(group.each, value);
  return value;
}

Group group_from_stored(const Value& value) {
  return {value.text("name"), each_from_stored(value),
          std::max<std::int64_t>(1, value.integer("count", 1))};
}

// Both are at most half of what can be said.
void add(Resources& to, const Resources& each, std::int64_t count) {
  to.cpu_milli = times(to.cpu_milli + times(each.cpu_milli, count), 1);
  to.memory_bytes = times(to.memory_bytes + times(each.memory_bytes, count), 1);
  to.gpus = times(to.gpus + times(each.gpus, count), 1);
}

}  // namespace

Resources groups_take(const Request& request) {
  Resources out;
  out.cpu_milli = 0;
  for (const Group& group : request.groups) add(out, group.each, group.count);
  return out;
}

void give_workers(Request& request, std::int64_t count) {
  if (!request.workers) return;
  Resources all = groups_take(request);
  add(all, request.workers->each, count);
  request.resources.cpu_milli = all.cpu_milli;
  request.resources.memory_bytes = all.memory_bytes;
  request.resources.gpus = all.gpus;
}

std::string workers_text(const Request& request, std::int64_t workers) {
  const std::string count = std::to_string(workers);
  if (!request.workers || request.groups.empty()) return count + " workers";
  std::string out = count + " " + request.workers->group;
  for (const Group& group : request.groups) {
    out += ", " + std::to_string(group.count) + " " + group.name;
  }
  return out;
}

std::int64_t gpu_milli(const Request& request) {
  if (request.resources.gpus == 1 && request.placement) {
    const GpuChoice& gpu = request.placement->gpu;
    if (gpu.mig != scheduler::MigProfile::kWhole) return scheduler::mig_charge(gpu.mig);
    return gpu.fraction_milli;
  }
  return times(request.resources.gpus, 1000);
}

Value to_value(const Request& request) {
  Value value;
  value["name"] = request.name;
  value["queue"] = request.queue;
  value["priority"] = request.priority;
  if (!request.priority_class.empty()) value["priority_class"] = request.priority_class;
  value["cpus"] = static_cast<double>(request.resources.cpu_milli) / 1000;
  value["memory"] = request.resources.memory_bytes;
  value["gpus"] = request.resources.gpus;
  value["disk"] = request.resources.disk_bytes == 0 ? Value() : Value(request.resources.disk_bytes);
  if (request.resources.bound) value["bound"] = true;
  if (request.workers) value["workers"] = to_value(*request.workers);
  for (const Group& group : request.groups) value["groups"].push(to_value(group));
  value["time_max"] = request.time_max.nanos == 0 ? Value() : Value(to_string(request.time_max));
  const bool dated = request.deadline != Timestamp::max();
  value["deadline"] = dated ? Value(to_rfc3339(request.deadline)) : Value();
  if (request.cost_cap != INT64_MAX) {
    value["cost_cap"] = static_cast<double>(request.cost_cap) / 1e6;
  }
  if (request.placement) value["placement"] = to_value(*request.placement);
  if (request.saving != Saving{}) value["checkpoint"] = to_value(request.saving);
  if (request.running_max > 0) value["running_max"] = request.running_max;
  if (!request.array.empty()) value["array"] = request.array;
  value["after"] = Value::array();
  for (const After& after : request.after) value["after"].push(to_value(after));
  return value;
}

Request request_from_stored(const Value& value) {
  Request out;
  if (!value.is_object()) return out;
  out.name = value.text("name");
  out.queue = value.text("queue");
  out.priority = value.integer("priority");
  out.priority_class = value.text("priority_class");
  out.resources.cpu_milli = std::llround(value.number("cpus", 1) * 1000);
  out.resources.memory_bytes = value.integer("memory");
  out.resources.gpus = value.integer("gpus");
  out.resources.disk_bytes = value.integer("disk");
  out.resources.bound = value["bound"].is_bool() && value["bound"].as_bool();
  if (value["workers"].is_object()) out.workers = workers_from_stored(value["workers"]);
  if (value["groups"].is_array()) {
    for (const Value& each : value["groups"].as_array()) {
      out.groups.push_back(group_from_stored(each));
    }
  }
  const auto time = parse_duration(value.text("time_max", "0"));
  out.time_max = time.ok() ? *time : Duration{};
  const auto deadline = parse_timestamp(value.text("deadline"));
  if (deadline.ok()) out.deadline = *deadline;
  if (value.has("cost_cap")) out.cost_cap = std::llround(value.number("cost_cap") * 1e6);
  if (!value["placement"].is_null()) out.placement = constraints_from_stored(value["placement"]);
  out.saving = saving_from_stored(value["checkpoint"]);
  out.running_max = value.integer("running_max");
  out.array = value.text("array");
  if (value["after"].is_array()) {
    for (const Value& each : value["after"].as_array()) {
      // What nobody can read lets nobody start.
      auto after = decode_one_after(each);
      out.after.push_back(after.ok() ? *std::move(after) : After(JobId("unreadable")));
    }
  }
  return out;
}

Result<Submission> decode_submission(const Value& body) {
  Fields fields(body, "job");
  Submission out;
  out.command = FALAJ_TRY(decode_command(fields));
  out.env = FALAJ_TRY(decode_env(fields));
  out.request = FALAJ_TRY(decode_request(fields));
  (void)fields.any("capture");  // decode_capture() reads it.
  out.runtime = FALAJ_TRY(fields.text("runtime"));
  if (!out.runtime.empty()) FALAJ_TRY(check_name("runtime", out.runtime));
  out.inputs = FALAJ_TRY(decode_named(fields, "inputs", Named::kInput));
  out.outputs = FALAJ_TRY(decode_named(fields, "outputs", Named::kOutput));
  out.network = FALAJ_TRY(fields.boolean("network", false));
  const Value array = FALAJ_TRY(fields.object("array"));
  if (!fields.any("array").is_null()) out.array = FALAJ_TRY(decode_place(array));
  out.attempts_max =
      static_cast<int>(FALAJ_TRY(fields.integer("attempts_max", 1, 1, kAttemptsMost)));
  FALAJ_TRY(fields.finish());
  return out;
}

std::string_view ended_otherwise(AfterEnd wanted) {
  return wanted == AfterEnd::kFailed ? "succeeded" : "did not succeed";
}

bool is_servers_variable(std::string_view name) {
  return name.starts_with("FALAJ_") && !name.starts_with("FALAJ_LAUNCH_");
}

void cut(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  while (bytes_max > 0 && (text[bytes_max] & 0xC0) == 0x80) --bytes_max;
  text.resize(bytes_max);
}

Value payload_of(const Submission& submission) {
  Value payload;
  payload["command"] = Value::array();
  for (const std::string& word : submission.command) payload["command"].push(word);
  payload["env"] = Value::object();
  for (const auto& [name, text] : submission.env) payload["env"][name] = text;
  if (!submission.runtime.empty()) payload["runtime"] = submission.runtime;
  const auto name_all = [&payload](std::string_view field, const std::vector<std::string>& names) {
    for (const std::string& name : names) payload[field].push(name);
  };
  name_all("inputs", submission.inputs);
  name_all("outputs", submission.outputs);
  if (submission.network) payload["network"] = true;
  if (!submission.array.is_null()) payload["array"] = submission.array;
  return payload;
}

std::vector<std::string> command_of(const Value& payload) {
  std::vector<std::string> words;
  if (!payload["command"].is_array()) return words;
  for (const Value& word : payload["command"].as_array()) words.push_back(word.as_string());
  return words;
}

std::vector<std::pair<std::string, std::string>> env_of(const Value& payload) {
  std::vector<std::pair<std::string, std::string>> env;
  if (!payload["env"].is_object()) return env;
  for (const auto& [name, text] : payload["env"].as_object())
    env.emplace_back(name, text.as_string());
  return env;
}

}  // namespace falaj::jobs
