#include "jobs/request.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "jobs/queues.h"

namespace falaj::jobs {
namespace {

Result<Submission> decoded(const std::string& json) { return decode_submission(*parse_json(json)); }

TEST(Submission, says_what_it_asks_for) {
  const auto job =
      decoded(R"({"command":["python3","train.py"],"env":{"A":"1"},)"
              R"("resources":{"cpus":0.5,"memory":"1Gi","gpus":2},"queue":"risk","priority":-5,)"
              R"("time_max":"2h","deadline":"2026-11-20T08:00:00Z","attempts_max":3,)"
              R"("after":["b","a","b"],"name":"nightly"})");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->request.resources, (Resources{500, std::int64_t{1} << 30, 2}));
  EXPECT_EQ(job->request.priority, -5);
  EXPECT_EQ(job->request.time_max, Duration::hours(2));
  EXPECT_EQ(to_rfc3339(job->request.deadline), "2026-11-20T08:00:00Z");
  EXPECT_EQ(job->request.after, (std::vector<After>{JobId("a"), JobId("b")}));
  EXPECT_EQ(job->attempts_max, 3);
  EXPECT_EQ(request_from_stored(to_value(job->request)), job->request) << "as it is kept";
  EXPECT_EQ(command_of(payload_of(*job)), job->command);
  EXPECT_EQ(env_of(payload_of(*job)), job->env);
}

TEST(Submission, names_a_class_of_priority_or_gives_a_number) {
  const auto job = decoded(R"({"command":["true"],"priority":"urgent"})");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->request.priority_class, "urgent");
  EXPECT_EQ(request_from_stored(to_value(job->request)), job->request) << "as it is kept";
  for (const char* priority : {"1001", "1.5", "\"no name\"", "\"\"", "true"}) {
    EXPECT_FALSE(decoded(R"({"command":["true"],"priority":)" + std::string(priority) + "}").ok())
        << priority;
  }
}

TEST(Submission, says_how_those_before_it_are_to_end) {
  const auto job = decoded(R"({"command":["true"],"after":[{"job":"c","end":"failed"},"a",)"
                           R"({"job":"b","end":"any"},{"job":"a"}]})");
  ASSERT_TRUE(job.ok()) << job.error().message;
  const std::vector<After> wanted{
      {JobId("a")}, {JobId("b"), AfterEnd::kAny}, {JobId("c"), AfterEnd::kFailed}};
  EXPECT_EQ(job->request.after, wanted);
  EXPECT_EQ(request_from_stored(to_value(job->request)).after, wanted) << "as it is kept";
  EXPECT_EQ(to_json(to_value(job->request)["after"]),
            R"(["a",{"end":"any","job":"b"},{"end":"failed","job":"c"}])");
  for (const char* after : {R"([{"end":"any"}])", R"([{"job":"a","end":"never"}])", "[7]",
                            R"(["a",{"job":"a","end":"any"}])", R"([{"job":"a","on":"any"}])"}) {
    EXPECT_FALSE(decoded(R"({"command":["true"],"after":)" + std::string(after) + "}").ok())
        << after;
  }
}

TEST(Submission, asks_for_little_unless_it_says_more) {
  const auto job = decoded(R"({"command":["true"]})");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->request.resources, (Resources{1000, std::int64_t{512} << 20, 0}));
  EXPECT_EQ(job->attempts_max, 1);
}

TEST(Submission, can_take_the_place_of_a_member_of_an_array) {
  const auto job = decoded(R"({"command":["true"],"array":{"index":2,"count":3}})");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(to_json(payload_of(*job)["array"]), R"({"count":3,"index":2})");
  for (const char* place : {R"({"index":3,"count":3})", R"({"index":-1,"count":3})", "7",
                            R"({"index":0,"count":10001})", R"({"count":2,"more":1})"}) {
    EXPECT_FALSE(decoded(R"({"command":["true"],"array":)" + std::string(place) + "}").ok())
        << place;
  }
}

TEST(Submission, tells_a_launch_its_certificates) {
  EXPECT_TRUE(decoded(R"({"command":["true"],"env":{"FALAJ_LAUNCH_CA":"/srv/ca.pem"}})").ok());
  EXPECT_FALSE(decoded(R"({"command":["true"],"env":{"FALAJ_TOKEN":"mine"}})").ok());
  EXPECT_FALSE(decoded(R"({"command":["true"],"env":{"FALAJ_LAUNCH":"x"}})").ok());
}

TEST(Submission, refuses_what_is_none) {
  for (const char* json : {R"({})",
                           R"({"command":[]})",
                           R"({"command":[""]})",
                           R"({"command":"true"})",
                           R"({"command":["true"],"comand":1})",
                           R"({"command":["true"],"resources":{"cpus":0}})",
                           R"({"command":["true"],"resources":{"cpus":1e9}})",
                           R"({"command":["true"],"resources":{"memory":"1"}})",
                           R"({"command":["true"],"resources":{"gpus":17}})",
                           R"({"command":["true"],"resources":{"cpu":1}})",
                           R"({"command":["true"],"env":{"1A":"x"}})",
                           R"({"command":["true"],"env":{"A":1}})",
                           R"({"command":["true"],"env":{"FALAJ_JOB":"x"}})",
                           R"({"command":["true"],"priority":1001})",
                           R"({"command":["true"],"attempts_max":0})",
                           R"({"command":["true"],"name":"a\u001b[2J"})",
                           R"({"command":["true"],"name":"a\u007f"})",
                           R"({"command":["true"],"name":"a\nb"})",
                           R"({"command":["true"],"time_max":"2y"})",
                           R"({"command":["true"],"deadline":"soon"})",
                           R"({"command":["true"],"queue":"No Name"})"}) {
    EXPECT_FALSE(decoded(json).ok()) << json;
  }
  Value zero;
  zero["command"] = Value::array();
  zero["command"].push(std::string("a\0b", 3));
  EXPECT_FALSE(decode_submission(zero).ok());
  Value name;
  name["command"] = Value::array();
  name["command"].push("true");
  name["name"] = "caf\xc3\xa9";
  EXPECT_TRUE(decode_submission(name).ok());
  name["name"] = "caf\xe9";
  EXPECT_FALSE(decode_submission(name).ok()) << "no UTF-8";
  Value many;
  many["command"] = Value::array();
  for (int i = 0; i < 2000; ++i) many["command"].push("x");
  EXPECT_FALSE(decode_submission(many).ok());
}

storage::Object queue(const std::string& name, const std::string& spec) {
  storage::Object object;
  object.kind = "Queue";
  object.project = "pay";
  object.name = name;
  object.spec = *parse_json(spec);
  return object;
}

TEST(QueueKind, reads_quotas_with_their_units) {
  const auto spec = decode_queue(
      queue("risk", R"({"parent":"all","weight":2,"quota":{"cpu":{"nominal":1.5,"borrow":0},)"
                    R"("memory":{"nominal":"2Gi"}}})"));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->cpu, (ResourceQuota{1500, 0, kNoLimit}));
  EXPECT_EQ(spec->memory.nominal, std::int64_t{2} << 30);
  EXPECT_EQ(spec->weight_milli, 2000);
  for (const char* wrong :
       {R"({"quota":{"cpu":{"nominal":-1}}})", R"({"quota":{"memory":{"nominal":"1025Ti"}}})",
        R"({"quota":{"memory":{"borrow":1125899906842625}}})",
        R"({"quota":{"memory":{"lend":"2000Ti"}}})", R"({"quota":{"disk":{}}})", R"({"weight":0})",
        R"({"quota":{"cpu":{"nominl":1}}})", R"({"parent":"A B"})"}) {
    EXPECT_FALSE(decode_queue(queue("risk", wrong)).ok()) << wrong;
  }
}

TEST(QueueKind, refuses_parents_in_a_circle) {
  const storage::Object a = queue("a", R"({"parent":"b"})");
  const storage::Object b = queue("b", R"({"parent":"a"})");
  const storage::Object top = queue("b", "{}");
  const auto find = [](const storage::Object& other) {
    return [&other](const storage::Reference&) { return &other; };
  };
  const storage::KindInfo info = kinds().front();
  EXPECT_FALSE(info.check_beside(a, find(b)).ok());
  EXPECT_TRUE(info.check_beside(a, find(top)).ok());
  EXPECT_FALSE(info.check_beside(queue("a", R"({"parent":"a"})"), find(a)).ok());
}

TEST(Submission, a_cost_cap_is_kept_and_a_negative_one_refused) {
  Value body;
  body["command"].push("true");
  EXPECT_EQ(decode_submission(body)->request.cost_cap, INT64_MAX);
  body["cost_cap"] = 2.5;
  const auto submission = decode_submission(body);
  ASSERT_TRUE(submission.ok()) << submission.error().message;
  EXPECT_EQ(submission->request.cost_cap, 2'500'000);
  EXPECT_EQ(request_from_stored(to_value(submission->request)), submission->request);
  body["cost_cap"] = -1;
  EXPECT_EQ(decode_submission(body).error().id, ErrorId::kOutOfRange);
}

TEST(QueueSpec, understands_the_words_of_kueue) {
  storage::Object object;
  object.kind = "Queue";
  object.project = "pay";
  object.name = "risk";
  Value& spec = object.spec;
  spec["cohort"] = "all";
  spec["quota"]["cpu"]["nominalQuota"] = 4;
  spec["quota"]["cpu"]["borrowingLimit"] = 2;
  spec["quota"]["cpu"]["lendingLimit"] = 1;
  spec["preemption"]["reclaimWithinCohort"] = "LowerPriority";
  spec["preemption"]["withinClusterQueue"] = "LowerOrNewerEqualPriority";
  spec["min_run"] = "30m";
  const auto queue = decode_queue(object);
  ASSERT_TRUE(queue.ok()) << queue.error().message;
  EXPECT_EQ(queue->parent, "all");
  EXPECT_EQ(queue->cpu, (ResourceQuota{4000, 2000, 1000}));
  EXPECT_EQ(queue->reclaim, scheduler::Reclaim::kLowerPriority);
  EXPECT_EQ(queue->within, scheduler::WithinQueue::kSubmittedLater);
  EXPECT_EQ(queue->min_run, Duration::minutes(30));
  spec["quota"]["cpu"]["nominal"] = 4;
  EXPECT_NE(decode_queue(object).error().message.find("mean the same"), std::string::npos);
}

TEST(QueueSpec, says_in_our_words_who_gives_way) {
  storage::Object object;
  object.kind = "Queue";
  object.name = "risk";
  object.spec["reclaim"] = "never";
  object.spec["within"] = "later";
  const auto queue = decode_queue(object);
  ASSERT_TRUE(queue.ok()) << queue.error().message;
  EXPECT_EQ(queue->reclaim, scheduler::Reclaim::kNever);
  EXPECT_EQ(queue->within, scheduler::WithinQueue::kSubmittedLater);
  object.spec["reclaim"] = "sometimes";
  EXPECT_FALSE(decode_queue(object).ok());
  object.spec["reclaim"] = "any";
  object.spec["min_run"] = "99d";
  EXPECT_FALSE(decode_queue(object).ok());
}

TEST(Submission, says_where_it_may_be) {
  const auto job =
      decoded(R"({"command":["true"],"resources":{"cpus":2,"gpus":1},"running_max":4,)"
              R"("placement":{"labels":{"disk":"ssd"},"not_labels":{"spot":"yes"},)"
              R"("data":[{"name":"ledger","zones":["ae-fin","ae"]}],"numa":true,"together":"host",)"
              R"("prefer":"nvlink","tags":["train"],"avoid":["b","a","b"],"near":["cache"],)"
              R"("gpu":{"models":["h100","a100"],"memory":"20Gi","mig":"3g.40gb"}},)"
              R"("checkpoint":{"every":"10m","restart":"30s"}})");
  ASSERT_TRUE(job.ok()) << job.error().message;
  const Request& request = job->request;
  ASSERT_TRUE(request.placement);
  const Constraints& asked = *request.placement;
  EXPECT_EQ(asked.labels, (Labels{{"disk", "ssd"}}));
  EXPECT_EQ(asked.data, (std::vector<DataReference>{{"ledger", {"ae", "ae-fin"}}}));
  EXPECT_EQ(asked.gpu.models, (std::vector<std::string>{"h100", "a100"})) << "best first";
  EXPECT_EQ(asked.gpu.memory_bytes, std::int64_t{40} << 30) << "as the profile says";
  EXPECT_EQ(asked.gpu.mig, scheduler::MigProfile::k3g);
  EXPECT_EQ(asked.together, scheduler::Level::kHost);
  EXPECT_EQ(asked.avoid, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.resources.bound) << "a NUMA node's processors are bound";
  EXPECT_EQ(request.saving.every, Duration::minutes(10));
  EXPECT_EQ(request.running_max, 4);
  EXPECT_EQ(gpu_milli(request), 500) << "four of eight slices";
  EXPECT_EQ(request_from_stored(*parse_json(to_json(to_value(request)))), request);
}

TEST(Submission, refuses_places_that_cannot_be_meant) {
  const auto refused = [](const std::string& placement, const std::string& gpus = "1") {
    return !decoded(R"({"command":["true"],"resources":{"cpus":1,"gpus":)" + gpus +
                    R"(},"placement":)" + placement + "}")
                .ok();
  };
  EXPECT_FALSE(refused(R"({"gpu":{"fraction":0.25}})"));
  EXPECT_TRUE(refused(R"({"gpu":{"fraction":0.25}})", "2")) << "a part of two";
  EXPECT_TRUE(refused(R"({"gpu":{"fraction":0}})"));
  EXPECT_TRUE(refused(R"({"gpu":{"fraction":0.5,"mig":"3g"}})"));
  EXPECT_TRUE(refused(R"({"gpu":{"models":["a100"]}})", "0")) << "of no GPU";
  EXPECT_TRUE(refused(R"({"gpu":{"mig":"5g"}})"));
  EXPECT_TRUE(refused(R"({"gpu":{"mig":"3g.manygb"}})"));
  EXPECT_TRUE(refused(R"({"gpu":{"mig":"3g."}})"));
  EXPECT_TRUE(refused(R"({"together":"room"})"));
  EXPECT_TRUE(refused(R"({"data":[{"name":"ledger"}]})")) << "nowhere";
  EXPECT_TRUE(refused(R"({"labels":{"disk":7}})"));
  EXPECT_TRUE(refused(R"({"tags":["two words"]})"));
  EXPECT_TRUE(refused(R"({"label":{}})"));
  EXPECT_TRUE(refused(R"({"avoid":["a","b","c","d","e","f","g","h","i"]})"));
  EXPECT_FALSE(
      decoded(R"({"command":["a"],"resources":{"cpus":0.5},"placement":{"numa":true}})").ok());
  EXPECT_FALSE(decoded(R"({"command":["a"],"checkpoint":{"every":"-1s"}})").ok());
}

TEST(QueueSpec, has_quota_of_a_model) {
  storage::Object object;
  object.kind = "Queue";
  object.name = "risk";
  object.spec["quota"]["gpu.a100"]["nominal"] = 4;
  const auto queue = decode_queue(object);
  ASSERT_TRUE(queue.ok()) << queue.error().message;
  EXPECT_EQ(queue->gpu_models.at("a100").nominal, 4000);
  object.spec["quota"]["gpu.A 100"]["nominal"] = 4;
  EXPECT_FALSE(decode_queue(object).ok());
}

}  // namespace
}  // namespace falaj::jobs
