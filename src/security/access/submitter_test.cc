#include "security/access/submitter.h"

#include <gtest/gtest.h>

#include "security/access/testing/access_world.h"
#include "security/identity/job_identities.h"

namespace falaj::security::access {
namespace {

class SubmitterTest : public ::testing::Test {
 protected:
  void declare(const std::string& name, const std::string& spec) {
    world_.declare("Grant", name, spec);
    ASSERT_TRUE(world_.access.refresh().ok());
  }
  void remove(const std::string& name) {
    ASSERT_TRUE(world_.sql
                    ->write([&](storage::SqlTransaction& tx) -> Status {
                      return storage::delete_object(tx, "Grant", "", name);
                    })
                    .ok());
    ASSERT_TRUE(world_.access.refresh().ok());
  }
  bool may(const Principal& who, const std::string& scope) {
    return may_still(*world_.access.policies(), who, parse_scope(scope).value(),
                     world_.clock.now());
  }

  testing::AccessWorld world_;
  Principal alice_{.kind = PrincipalKind::kUser, .id = "user:alice", .groups = {"risk"}};
  const std::string reads_ = "features.read@pay/TrainingSet/fraud";
};

TEST_F(SubmitterTest, may_what_is_granted_now) {
  EXPECT_FALSE(may(alice_, reads_));
  declare("reads", R"({"to":["user:alice"],"actions":["features.read"],
      "on":{"project":"pay","kind":"TrainingSet","name":"fraud"}})");
  EXPECT_TRUE(may(alice_, reads_));
  EXPECT_FALSE(may(alice_, "features.read@pay/TrainingSet/other"));
  EXPECT_FALSE(may(alice_, "features.read@lab/TrainingSet/fraud"));
  EXPECT_FALSE(may(alice_, "models.write@pay/TrainingSet/fraud"));
  EXPECT_FALSE(may({}, reads_)) << "nobody";
  remove("reads");
  EXPECT_FALSE(may(alice_, reads_));
}

TEST_F(SubmitterTest, may_by_the_groups_that_the_provider_gave_and_until_the_grant_ends) {
  declare("reads", R"({"to":["group:risk"],"actions":["features.read"],
      "on":{"project":"pay"},"expires":"2026-06-01T00:00:00Z"})");
  world_.clock.set(parse_timestamp("2026-05-31T23:59:59Z").value());
  EXPECT_TRUE(may(alice_, reads_));
  EXPECT_FALSE(may(alice_, "features.read@pay")) << "no object is named";
  world_.clock.advance(Duration::seconds(2));
  EXPECT_FALSE(may(alice_, reads_));
}

TEST_F(SubmitterTest, may_not_what_was_forbidden_since_nor_by_a_glass) {
  declare("reads", R"({"to":["user:alice"],"actions":["features.read"],"on":{"project":"pay"}})");
  EXPECT_TRUE(may(alice_, reads_));
  declare("stop", R"({"effect":"forbid","to":["group:risk"],"actions":["features.read"],
      "on":{"project":"pay","kind":"TrainingSet","name":"fraud"}})");
  EXPECT_FALSE(may(alice_, reads_));
  EXPECT_TRUE(may(alice_, "features.read@pay/TrainingSet/other"));
  remove("stop");
  remove("reads");
  declare("glass", R"({"to":["user:alice"],"role":"break-glass","on":"platform"})");
  EXPECT_FALSE(may(alice_, reads_));
}

// The whole of it: what a job's token is decided by.
TEST_F(SubmitterTest, takes_from_the_job_what_is_taken_from_him) {
  JobIdentities jobs(crypto::system_random());
  const auto scopes = [](const std::string& more) {
    return std::vector<Scope>{parse_scope("features.read@pay/TrainingSet/fraud").value(),
                              parse_scope(more).value()};
  };
  const std::string token =
      jobs.mint_for(JobId("j"), "j-1", scopes("models.write@pay/Model/fraud"), world_.clock.now(),
                    std::make_shared<const Principal>(alice_))
          .value();
  const auto job_may = [&](std::string_view action, std::string_view kind) {
    const PrincipalPtr job =
        jobs.check(parse_token_text(token).value(), world_.clock.now()).value();
    return world_.access.policies()
        ->decide({*job, action, {"pay", kind, "fraud", nullptr}, world_.clock.now(), ""})
        .allowed;
  };
  const auto both = [&] {
    return std::pair(job_may("features.read", "TrainingSet"), job_may("models.write", "Model"));
  };
  declare("edits", R"({"to":["user:alice"],"role":"editor","on":{"project":"pay"}})");
  EXPECT_EQ(both(), std::pair(false, false)) << "nobody says yet what he may do";
  jobs.bound_by([&](const Principal& submitter, const Scope& scope) {
    return may_still(*world_.access.policies(), submitter, scope, world_.clock.now());
  });
  EXPECT_EQ(both(), std::pair(true, true));
  declare("reads", R"({"to":["user:alice"],"role":"viewer","on":{"project":"pay"}})");
  remove("edits");
  EXPECT_EQ(both(), std::pair(true, false));
  remove("reads");
  EXPECT_EQ(both(), std::pair(false, false));
  declare("edits", R"({"to":["user:alice"],"role":"editor","on":{"project":"pay"}})");
  EXPECT_EQ(both(), std::pair(true, true));
  EXPECT_TRUE(jobs.renew(JobId("j"), world_.clock.now()));
  remove("edits");
  EXPECT_EQ(both(), std::pair(false, false)) << "a renewal changes nothing";
}

}  // namespace
}  // namespace falaj::security::access
