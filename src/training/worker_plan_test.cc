#include "training/worker_plan.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::training {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;

Result<WorkerPlan> decoded(std::string_view spec) {
  const Value value = parse_json(spec).value();
  Fields fields(value, "spec");
  auto plan = decode_worker_plan(fields, Duration::hours(2));
  if (!plan.ok()) return plan;
  FALAJ_TRY(fields.finish());
  return plan;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

constexpr const char* kWhole = R"({
    "command": ["python3", "train.py"], "env": {"SEED": "7"}, "queue": "risk", "priority": 5,
    "workers": {"min": 2, "max": 4, "cpu": 1.5, "memory": "1Gi", "servers": 1},
    "faults": {"crashes_max": 0, "preemptions_max": 9, "grace": "5s", "on_crash": "keep_survivors",
               "log_rules": [{"match": "out of memory", "do": "stop"},
                             {"match": "ECC", "do": "retry"}]},
    "checkpoint": {"keep": {"last": 3, "best": 2}, "better": "lower"}})";

TEST(WorkerPlan, says_what_the_launcher_is_told) {
  const auto plan = decoded(kWhole);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(joined(launch_words(*plan)),
            "--servers 1 --restarts 0 --preemptions 9 --grace 5000ms --last 3 --best 2 "
            "--lower-is-better --keep-survivors --on-log stop=out of memory --on-log retry=ECC");
  jobs::Request granted = request_of(*plan, 4, "fraud");
  give_workers(granted, 4);
  EXPECT_EQ(joined(gang_words(granted, 4)), "--workers 2:4 --slots 4 --memory 1073741824");
  const auto least = decoded(R"({"command": ["true"]})");
  ASSERT_TRUE(least.ok()) << least.error().message;
  EXPECT_EQ(joined(launch_words(*least)),
            "--servers 0 --restarts 3 --preemptions -1 --grace 60000ms --last 2 --best 1");
  EXPECT_EQ(joined(gang_words(request_of(*least, 1, "x"), 1)),
            "--workers 1:1 --slots 1 --memory 134217728");
}

TEST(WorkerPlan, has_devices_a_runtime_and_what_is_kept_as_any_job) {
  const auto plan = decoded(R"({"command": ["python3", "train.py"], "runtime": "torch",
      "workers": {"max": 4, "gpus": 2, "memory": "64Mi", "cpu": 0.5},
      "capture": {"seed": 7, "data": {"training_set": "fraud"}}})");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->submission.runtime, "torch");
  EXPECT_EQ(plan->capture.integer("seed"), 7);
  jobs::Machine machine{64'000, 64 * kGi, 5, 1};
  EXPECT_EQ(workers_on(machine, *plan), 2) << "five devices are two workers' and one more";
  jobs::Request granted = request_of(*plan, 2, "fraud");
  EXPECT_EQ(granted.resources.gpus, 2);
  give_workers(granted, 2);
  EXPECT_EQ(granted.resources.gpus, 4);
  EXPECT_EQ(joined(gang_words(granted, 2)), "--workers 1:2 --slots 2 --memory 33554432 --gpus 2");
  EXPECT_FALSE(decoded(R"({"command": ["x"], "capture": {"sed": 7}})").ok());
  EXPECT_FALSE(decoded(R"({"command": ["x"], "runtime": "no name"})").ok());
}

TEST(WorkerPlan, asks_for_its_least_and_may_have_more) {
  const auto plan = decoded(kWhole);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const jobs::Request request = request_of(*plan, 3, "fraud");
  EXPECT_EQ(request.resources.cpu_milli, 3000);
  EXPECT_EQ(request.resources.memory_bytes, 2 * kGi);
  ASSERT_TRUE(request.workers);
  EXPECT_EQ(request.workers->min, 2);
  EXPECT_EQ(request.workers->max, 3);
  EXPECT_EQ(request.workers->each.cpu_milli, 1500);
  EXPECT_EQ(request.queue, "risk");
  EXPECT_EQ(request.priority, 5);
  EXPECT_EQ(request.time_max, Duration::hours(2));
  EXPECT_EQ(request.name, "fraud");
}

TEST(WorkerPlan, more_than_any_machine_has_stays_more) {
  const auto plan = decoded(R"({"command": ["true"],
      "workers": {"min": 3, "max": 3, "memory": 4611686018427387904}})");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_GT(request_of(*plan, 3, "large").resources.memory_bytes, std::int64_t{1} << 60);
}

TEST(WorkerPlan, takes_as_many_workers_as_the_machine_ever_has_room_for) {
  const auto plan = decoded(kWhole);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto on = [&](std::int64_t cpu_milli, std::int64_t memory) {
    jobs::Machine machine;
    machine.cpu_milli = cpu_milli;
    machine.memory_bytes = memory;
    return workers_on(machine, *plan);
  };
  EXPECT_EQ(on(64'000, 64 * kGi), 4);
  EXPECT_EQ(on(4'500, 64 * kGi), 3);
  EXPECT_EQ(on(64'000, 2 * kGi + 5), 2);
  EXPECT_EQ(on(1'000, kGi), 2) << "the queue refuses it, and says why";
}

TEST(WorkerPlan, refuses_what_cannot_be_meant) {
  const auto id = [](std::string_view spec) { return decoded(spec).error().id; };
  EXPECT_EQ(id(R"({})"), ErrorId::kMissingField);
  EXPECT_EQ(id(R"({"command": ["x"], "workers": {"min": 3, "max": 2}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "workers": {"cpus": 2}})"), ErrorId::kUnknownField);
  EXPECT_EQ(id(R"({"command": ["x"], "workers": {"memory": "1Ki"}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "env": {"FALAJ_RUN": "1"}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "faults": {"grace": "0s"}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "faults": {"preemptions_max": "never"}})"),
            ErrorId::kOutOfRange);
  EXPECT_FALSE(decoded(R"({"command": ["x"], "faults": {"log_rules": [{"match": "("}]}})").ok());
  EXPECT_EQ(id(R"({"command": ["x"], "checkpoint": {"keep": {"last": 0}}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "checkpoint": {"every": 10}})"), ErrorId::kUnknownField);
}

}  // namespace
}  // namespace falaj::training
