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
  EXPECT_EQ(joined(launch_words(*plan, 4)),
            "--workers 2:4 --slots 4 --servers 1 --restarts 0 --preemptions 9 --grace 5000ms "
            "--last 3 --best 2 --memory 1073741824 --lower-is-better --keep-survivors "
            "--on-log stop=out of memory --on-log retry=ECC");
  const auto least = decoded(R"({"command": ["true"]})");
  ASSERT_TRUE(least.ok()) << least.error().message;
  EXPECT_EQ(joined(launch_words(*least, 1)),
            "--workers 1:1 --slots 1 --servers 0 --restarts 3 --preemptions -1 --grace 60000ms "
            "--last 2 --best 1 --memory 134217728");
}

TEST(WorkerPlan, asks_for_the_whole_gang_at_once) {
  const auto plan = decoded(kWhole);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const jobs::Request request = request_of(*plan, 3, "fraud");
  EXPECT_EQ(request.resources.cpu_milli, 4500);
  EXPECT_EQ(request.resources.memory_bytes, 3 * kGi);
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
