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

constexpr const char* kRoles = R"({
    "command": ["python3", "train.py"],
    "groups": [{"name": "ps", "count": 2, "cpu": 0.5, "memory": "64Mi", "command": ["serve", "x"]},
               {"name": "worker", "min": 1, "max": 4, "cpu": 2, "memory": "1Gi", "gpus": 1},
               {"name": "chief", "cpu": 1, "memory": "1Gi"}]})";

TEST(WorkerPlan, several_roles_are_one_request) {
  const auto plan = decoded(kRoles);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->groups.size(), 3u);
  EXPECT_EQ(plan->groups[0].role.name, "chief");
  EXPECT_EQ(plan->groups[plan->elastic].role.name, "worker");
  jobs::Machine machine{8'000, 64 * kGi, 8, 1};
  EXPECT_EQ(workers_on(machine, *plan), 3) << "what chief and servers leave of the processors";
  machine.cpu_milli = 64'000;
  machine.gpus = 2;
  EXPECT_EQ(workers_on(machine, *plan), 2);
  jobs::Request request = request_of(*plan, 3, "vision");
  EXPECT_EQ(request.resources.cpu_milli, 2000 + 1000 + 2 * 500);
  EXPECT_EQ(request.resources.gpus, 1);
  EXPECT_EQ(request.workers->group, "worker");
  ASSERT_EQ(request.groups.size(), 2u);
  EXPECT_EQ(request.groups[1].name, "ps");
  EXPECT_EQ(request.groups[1].count, 2);
  give_workers(request, 3);
  EXPECT_EQ(request.resources.cpu_milli, 6000 + 1000 + 2 * 500);
}

TEST(WorkerPlan, several_roles_are_told_to_the_launcher_as_they_were_granted) {
  const auto plan = decoded(kRoles);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(joined(launch_words(*plan)),
            "--restarts 3 --preemptions -1 --grace 60000ms --last 2 --best 1");
  jobs::Request granted = request_of(*plan, 4, "vision");
  give_workers(granted, 3);
  const std::int64_t memory = (4 * kGi + 2 * (kGi / 16)) / 4;
  EXPECT_EQ(joined(gang_words(granted, 3, group_values(*plan))),
            R"(--group {"command":[],"gpus":0,"max":1,"min":1,"name":"chief","role":"chief",)"
            R"("threads":1} )"
            R"(--group {"command":[],"gpus":1,"max":3,"min":1,"name":"worker","role":"worker",)"
            R"("threads":2} )"
            R"(--group {"command":["serve","x"],"gpus":0,"max":2,"min":2,"name":"ps","role":"ps",)"
            R"("threads":1} --slots 4 --memory )" +
                std::to_string(memory));
}

TEST(WorkerPlan, a_role_may_bring_the_only_command) {
  const auto plan = decoded(R"({"groups": [{"name": "actor", "count": 3, "command": ["act"]},
                                           {"name": "learner", "command": ["learn"]}]})");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->submission.command, std::vector<std::string>{"act"});
  EXPECT_EQ(plan->workers_min, 3);
  EXPECT_EQ(plan->workers_max, 3);
  const auto chief = decoded(R"({"command": ["a"], "groups": [{"name": "chief"}]})");
  ASSERT_TRUE(chief.ok()) << chief.error().message;
  EXPECT_EQ(chief->groups[chief->elastic].role.name, "chief");
}

TEST(WorkerPlan, what_are_no_roles_of_a_gang_is_refused) {
  for (const std::string& groups : {
           std::string(R"([{"name": "worker"}], "workers": {"max": 2})"),
           std::string(R"([{"name": "ps"}])"),
           std::string(R"([{"name": "a"}, {"name": "a"}])"),
           std::string(R"([{"name": "a", "max": 2}, {"name": "b", "max": 2}])"),
           std::string(R"([{"name": "a", "count": 1025}])"),
           std::string(R"([{"name": "a", "cpu": 0}])"),
           std::string(R"([{"name": "a", "memory": "1Ki"}])"),
           std::string(R"([{"name": "a", "threads": 4}])"),
           std::string(R"([{"name": "a", "gpus": 17}])"),
           std::string(R"([{"name": "a", "command": [""]}])"),
           std::string(R"([{"name": "a", "cpus": 2}])"),
           std::string(R"([7])"),
           R"([{"name": "a", "command": ["x", ")" + std::string(60'000, 'y') +
               R"("]}, {"name": "b", "command": ["x", ")" + std::string(60'000, 'y') + R"("]}])",
       }) {
    const auto plan = decoded(R"({"command": ["true"], "groups": )" + groups + "}");
    EXPECT_FALSE(plan.ok()) << groups.substr(0, 80);
  }
  EXPECT_FALSE(decoded(R"({"groups": [{"name": "a", "command": ["x"]}, {"name": "b"}]})").ok())
      << "b has no command";
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
  const auto placed = decoded(R"({"command": ["x"], "cost_cap": 2, "workers": {"gpus": 1},
      "placement": {"labels": {"disk": "ssd"}, "gpu": {"models": ["a100"]}}})");
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  EXPECT_EQ(request_of(*placed, 1, "fraud").placement->labels.at("disk"), "ssd");
  EXPECT_EQ(placed->submission.request.cost_cap, 2'000'000);
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
  EXPECT_EQ(id(R"({"command": ["x"], "placement": {"numa": true}})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"command": ["x"], "workers": {"gpus": 1},
      "placement": {"gpu": {"fraction": 0.5}}})"),
            ErrorId::kOutOfRange);
}

}  // namespace
}  // namespace falaj::training
