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
  EXPECT_EQ(job->request.after, (std::vector<JobId>{JobId("a"), JobId("b")}));
  EXPECT_EQ(job->attempts_max, 3);
  EXPECT_EQ(request_from_stored(to_value(job->request)), job->request) << "as it is kept";
  EXPECT_EQ(command_of(payload_of(*job)), job->command);
  EXPECT_EQ(env_of(payload_of(*job)), job->env);
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

}  // namespace
}  // namespace falaj::jobs
