// jobs/request.h — what a job asks of the scheduler, and the body of a submission.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/value.h"

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
  bool operator==(const Workers&) const = default;
};

struct Request {
  std::string name;           // For people; "" when it has none.
  std::string queue;          // A Queue of its project; "" is the project's default.
  std::int64_t priority = 0;  // Higher goes first; within -1000 and 1000.
  Resources resources;        // With `workers`: of all that it has, or at least needs.
  std::optional<Workers> workers{};
  Duration time_max{};  // 0: what the server allows.
  // When it is wanted to have ended; max(): no matter. It goes first among its priority when that
  // is near, and nothing happens to it afterwards.
  Timestamp deadline = Timestamp::max();
  std::vector<JobId> after;  // Starts once all of these have succeeded.
  bool operator==(const Request&) const = default;
};
Value to_value(const Request& request);
// The inverse, for what was stored. Lenient: a member that is not there has its default.
Request request_from_stored(const Value& value);
// Sets `resources` to what so many of its workers have, of which no machine has more than this can
// say. Nothing for a job without. Pure.
void give_workers(Request& request, std::int64_t count);

// A command, as it is submitted.
struct Submission {
  Request request;
  int attempts_max = 1;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> env;
  std::string runtime;  // A Runtime of its project; "" for the machine as it is.
  Value array;          // {index, count} for one that is to do a member's part again; else null.
};
// {command[], env{}, resources{cpus, memory, gpus, disk, bound}, queue, priority, time_max,
// deadline, attempts_max, after[], name, runtime, array{index, count}}; strict. FJ-1xxx with what
// is wrong. A job that says nothing asks for one processor and 512 MiB. Pure.
Result<Submission> decode_submission(const Value& body);
// {command, env} as JobSpec::payload holds them, and back.
Value payload_of(const Submission& submission);
std::vector<std::string> command_of(const Value& payload);
std::vector<std::pair<std::string, std::string>> env_of(const Value& payload);

// Leaves at most `bytes_max` bytes of a text, and no character in two. Pure.
void cut(std::string& text, std::size_t bytes_max);

}  // namespace falaj::jobs
