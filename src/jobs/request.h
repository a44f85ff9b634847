// jobs/request.h — what a job asks of the scheduler, and the body of a submission.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "jobs/constraints.h"

namespace falaj::jobs {

// While it runs. Both its part of the machine and, for a command, its limit.
struct Resources {
  std::int64_t cpu_milli = 1000;  // Thousandths of a processor.
  std::int64_t memory_bytes = 0;
  std::int64_t gpus = 0;
  std::int64_t disk_bytes = 0;  // A limit alone; 0: what the server allows.
  bool bound = false;           // Its processors are whole ones, chosen for it.
  bool operator==(const Resources&) const = default;
};

// Workers that are all alike: the job starts with any number of them between min and max, and is
// stopped and started again (jobs/queue.h) to have fewer or more.
struct Workers {
  Resources each;
  std::int64_t min = 1;
  std::int64_t max = 1;
  std::string group{};  // Their name, where there are others beside them.
  bool operator==(const Workers&) const = default;
};

// Beside the workers, so many that are alike too (a chief, parameter servers): they are there
// whenever the job runs, and it does not start without them.
struct Group {
  std::string name;
  Resources each;
  std::int64_t count = 1;
  bool operator==(const Group&) const = default;
};

// When a job that another comes after lets it start: having succeeded, having ended whatever came
// of it, or having failed (or been cancelled) alone.
enum class AfterEnd : std::uint8_t { kOk, kAny, kFailed };
struct After {
  After(JobId before, AfterEnd how = AfterEnd::kOk) : job(std::move(before)), end(how) {}
  JobId job;
  AfterEnd end;
  auto operator<=>(const After&) const = default;
};
// "did not succeed", "succeeded": how a job ended that should have ended so.
std::string_view ended_otherwise(AfterEnd wanted);

struct Request {
  std::string name;           // For people; "" when it has none.
  std::string queue;          // A Queue of its project; "" is the project's default.
  std::int64_t priority = 0;  // Higher goes first; within -1000 and 1000.
  // Named instead of a number: one of the SchedulingPolicy's `priorities`, whose value then is
  // `priority` from its submission on. "": it gave the number.
  std::string priority_class{};
  Resources resources;  // With `workers`: of all that it has, or at least needs.
  std::optional<Workers> workers{};
  std::vector<Group> groups{};  // With `workers` alone; at most 7.
  Duration time_max{};          // 0: what the server allows.
  // When it is wanted to have ended; max(): no matter. It goes first among its priority when that
  // is near, and nothing happens to it afterwards.
  Timestamp deadline = Timestamp::max();
  // What it may cost at the prices of the SchedulingPolicy, in millionths; it does not start when
  // it would probably cost more.
  std::int64_t cost_cap = INT64_MAX;
  std::optional<Constraints> placement{};  // Where it may be; nothing: anywhere.
  Saving saving{};
  // Of the members of its array so many run at a time; 0: no matter. `array` tells one array from
  // another, and is the queue's to set.
  std::int64_t running_max = 0;
  std::string array{};
  std::vector<After> after;  // Starts once all of these have ended so; each job once.
  bool operator==(const Request&) const = default;
};
Value to_value(const Request& request);
// The inverse, for what was stored. Lenient: a member that is not there has its default.
Request request_from_stored(const Value& value);
// Sets `resources` to what so many of its workers have, and its groups, of which no machine has
// more than this can say. Nothing for a job without. Pure.
void give_workers(Request& request, std::int64_t count);
// What its groups have together. Pure.
Resources groups_take(const Request& request);
// "4 workers", with groups "1 chief, 3 worker, 2 ps". Pure.
std::string workers_text(const Request& request, std::int64_t workers);

// What it has of GPUs, in thousandths: whole ones, a fraction or an instance. Pure.
std::int64_t gpu_milli(const Request& request);

// A command, as it is submitted.
struct Submission {
  Request request;
  int attempts_max = 1;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> env;
  std::string runtime;  // A Runtime of its project; "" for the machine as it is.
  // What it may read and make by its own identity, as KIND/NAME (jobs/reach.h).
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool network = false;  // The machine's, where the administrator lets commands have it.
  Value array;           // {index, count} for one that is to do a member's part again; else null.
};
// {command[], env{}, resources{cpus, memory, gpus, disk, bound}, queue, priority (a number or the
// name of a class), time_max,
// deadline, cost_cap, placement{…}, checkpoint{every, restart}, running_max, attempts_max, after[]
// (an id, or {job, end: ok | any | failed}),
// name, runtime, inputs[], outputs[], network, array{index, count}}; strict: see jobs/constraints.h
// for `placement`. FJ-1xxx with what is wrong. A job that says nothing asks for one processor and
// 512 MiB. Pure.
Result<Submission> decode_submission(const Value& body);
// {command, env} as JobSpec::payload holds them, and back.
Value payload_of(const Submission& submission);
// Names that begin with FALAJ_ are the server's, but for what `falaj launch` is told by whoever
// launches (FALAJ_LAUNCH_…). Pure.
bool is_servers_variable(std::string_view name);
std::vector<std::string> command_of(const Value& payload);
std::vector<std::pair<std::string, std::string>> env_of(const Value& payload);

// Leaves at most `bytes_max` bytes of a text, and no character in two. Pure.
void cut(std::string& text, std::size_t bytes_max);

}  // namespace falaj::jobs
