#include "jobs/reach.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "jobs/queue.h"
#include "security/access/roles.h"

namespace falaj::jobs {
namespace {

Result<Submission> decoded(const std::string& rest) {
  return decode_submission(*parse_json(R"({"command":["true"],)" + rest + "}"));
}

std::vector<std::string> scopes(const Submission& submission) {
  JobSpec spec;
  spec.project = "pay";
  spec.payload = payload_of(submission);
  std::vector<std::string> out;
  for (const security::Scope& scope : scopes_of(spec)) out.push_back(to_string(scope));
  return out;
}

TEST(Reach, is_what_the_submission_names) {
  const auto job = decoded(R"("inputs":["TrainingSet/fraud","FeatureView/activity",)"
                           R"("TrainingSet/fraud"],"outputs":["Model/fraud"])");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(scopes(*job),
            (std::vector<std::string>{
                "features.read@pay/FeatureView/activity", "data.read@pay/FeatureView/activity",
                "features.read@pay/TrainingSet/fraud", "models.read@pay/Model/fraud",
                "models.write@pay/Model/fraud"}));
}

TEST(Reach, of_a_command_that_names_nothing_is_nothing) {
  const auto job = decoded(R"("name":"quiet")");
  ASSERT_TRUE(job.ok());
  EXPECT_TRUE(scopes(*job).empty());
  EXPECT_FALSE(payload_of(*job).has("inputs")) << "and nothing more is kept of it";
}

TEST(Reach, never_exceeds_what_a_job_can_be_given) {
  const auto job =
      decoded(R"("inputs":["TrainingSet/x","FeatureView/x","FeatureService/x","Model/x","Run/x",)"
              R"("Deployment/x"],"outputs":["Model/x","FeatureView/x"])");
  ASSERT_TRUE(job.ok()) << job.error().message;
  JobSpec spec;
  spec.project = "pay";
  spec.payload = payload_of(*job);
  for (const security::Scope& scope : scopes_of(spec)) {
    const auto index = security::access::action_index(scope.action);
    ASSERT_TRUE(index.has_value()) << scope.action;
    EXPECT_TRUE(security::access::job_actions().contains(*index)) << scope.action;
    EXPECT_EQ(scope.project, "pay");
    EXPECT_FALSE(scope.object.empty());
  }
}

TEST(Reach, refuses_what_is_no_name) {
  for (const char* rest :
       {R"("inputs":["fraud"])", R"("inputs":["Model/"])", R"("inputs":["Model/a/b"])",
        R"("inputs":["Grant/all"])", R"("inputs":["Model/*"])", R"("inputs":["*/fraud"])",
        R"("inputs":["model/fraud"])", R"("outputs":["TrainingSet/x"])", R"("outputs":["Run/x"])",
        R"("inputs":"Model/fraud")", R"("inputs":[7])"}) {
    EXPECT_FALSE(decoded(rest).ok()) << rest;
  }
  std::string many = R"("inputs":["Model/a")";
  for (int i = 0; i < 32; ++i) many += ",\"Model/m" + std::to_string(i) + '"';
  EXPECT_EQ(decoded(many + "]").error().id, ErrorId::kOutOfRange);
}

TEST(Reach, of_a_run_is_the_servers_to_give) {
  JobSpec spec;
  spec.project = "pay";
  spec.payload["run"] = "01RUN";
  EXPECT_TRUE(scopes_of(spec).empty());
  spec.payload["companion"] = "train";
  ASSERT_EQ(scopes_of(spec).size(), 1u);
  EXPECT_EQ(to_string(scopes_of(spec).front()), "models.read@pay/Run/01RUN");
}

TEST(Reach, what_can_leave_is_all_that_it_may_read) {
  JobSpec spec;
  spec.project = "pay";
  spec.payload["inputs"].push("FeatureView/a");
  spec.payload["outputs"].push("FeatureView/only_written");
  spec.payload["outputs"].push("Model/fraud");
  spec.payload["run"] = "01RUN";
  EXPECT_EQ(inputs_of(spec), (std::vector<std::string>{"FeatureView/a", "Model/fraud"}));
  spec.payload["companion"] = "train";
  EXPECT_EQ(inputs_of(spec),
            (std::vector<std::string>{"FeatureView/a", "Model/fraud", "Run/01RUN"}));
}

TEST(Reach, of_a_network_is_asked_for) {
  EXPECT_FALSE(payload_of(*decoded(R"("name":"x")")).has("network"));
  EXPECT_EQ(payload_of(*decoded(R"("network":true)"))["network"], Value(true));
  EXPECT_FALSE(decoded(R"("network":"host")").ok());
}

}  // namespace
}  // namespace falaj::jobs
