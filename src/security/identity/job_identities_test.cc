#include "security/identity/job_identities.h"

#include <gtest/gtest.h>

#include "crypto/testing/fake_random.h"

namespace falaj::security {
namespace {

class JobIdentitiesTest : public ::testing::Test {
 protected:
  Result<PrincipalPtr> check(const std::string& text) {
    return jobs_.check(parse_token_text(text).value(), clock_.now());
  }
  std::string mint(const std::string& job) {
    return jobs_.mint(JobId(job), scopes_, clock_.now()).value();
  }
  FakeClock clock_;
  crypto::testing::FakeRandom random_{3};
  JobIdentities jobs_{random_};
  std::vector<Scope> scopes_{parse_scope("features.read@pay/TrainingSet/fraud").value()};
};

TEST_F(JobIdentitiesTest, a_job_may_do_what_it_declared_and_nothing_else) {
  const auto principal = check(mint("j1"));
  ASSERT_TRUE(principal.ok());
  EXPECT_EQ((*principal)->kind, PrincipalKind::kJob);
  EXPECT_EQ((*principal)->id, "job:j1");
  EXPECT_TRUE(within_scopes(**principal, "features.read", "pay", "TrainingSet/fraud"));
  EXPECT_FALSE(within_scopes(**principal, "features.read", "pay", "TrainingSet/other"));
  EXPECT_FALSE(within_scopes(**principal, "features.read", "lab", "TrainingSet/fraud"));
  EXPECT_FALSE(within_scopes(**principal, "objects.write", "pay", "TrainingSet/fraud"));
}

TEST_F(JobIdentitiesTest, wide_scopes_are_refused) {
  for (const char* wide : {"*", "features.read", "features.read@pay", "*@pay/TrainingSet/fraud",
                           "features.*@pay/TrainingSet/fraud"}) {
    const auto minted = jobs_.mint(JobId("j"), {parse_scope(wide).value()}, clock_.now());
    ASSERT_FALSE(minted.ok()) << wide;
    EXPECT_EQ(minted.error().id, ErrorId::kJobScopeExceeded);
  }
}

TEST_F(JobIdentitiesTest, lives_fifteen_minutes_and_dies_with_the_job) {
  const std::string token = mint("j1");
  clock_.advance(Duration::minutes(15) - Duration::nanoseconds(1));
  EXPECT_TRUE(check(token).ok());
  clock_.advance(Duration::nanoseconds(1));
  EXPECT_EQ(check(token).error().id, ErrorId::kCredentialExpired);
  const std::string next = mint("j1");
  const std::string other = mint("j2");
  jobs_.end(JobId("j1"));
  EXPECT_EQ(check(next).error().id, ErrorId::kCredentialRefused);
  EXPECT_TRUE(check(other).ok());
}

TEST_F(JobIdentitiesTest, is_renewed_while_the_job_lives) {
  const std::string token = mint("j1");
  EXPECT_TRUE(jobs_.ending(clock_.now()).empty());
  for (int i = 0; i < 20; ++i) {  // Three hours.
    clock_.advance(Duration::minutes(9));
    ASSERT_EQ(jobs_.ending(clock_.now()), std::vector<JobId>{JobId("j1")});
    EXPECT_TRUE(jobs_.renew(JobId("j1"), clock_.now()));
    const auto principal = check(token);
    ASSERT_TRUE(principal.ok());
    EXPECT_EQ((*principal)->expires, clock_.now() + Duration::minutes(15));
    EXPECT_EQ((*principal)->scopes, scopes_) << "and never wider";
  }
  clock_.advance(Duration::minutes(15));
  EXPECT_FALSE(check(token).ok());
  EXPECT_FALSE(jobs_.renew(JobId("j1"), clock_.now())) << "what has ended stays ended";
  EXPECT_FALSE(jobs_.renew(JobId("j2"), clock_.now()));
  jobs_.sweep(clock_.now());
  EXPECT_EQ(jobs_.size(), 0u);
}

TEST_F(JobIdentitiesTest, the_next_attempt_ends_the_token_before) {
  const std::string first = mint("j1");
  const std::string second = mint("j1");
  EXPECT_EQ(check(first).error().id, ErrorId::kCredentialRefused);
  EXPECT_TRUE(check(second).ok());
}

TEST_F(JobIdentitiesTest, a_wrong_secret_is_refused) {
  std::string token = mint("j1");
  token.back() = token.back() == 'A' ? 'E' : 'A';
  EXPECT_EQ(check(token).error().id, ErrorId::kCredentialRefused);
}

}  // namespace
}  // namespace falaj::security
