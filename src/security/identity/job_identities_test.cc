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

TEST_F(JobIdentitiesTest, who_submitted_it_bounds_it_whenever_it_asks) {
  scopes_.push_back(parse_scope("models.read@pay/Model/fraud").value());
  const auto submitter =
      std::make_shared<const Principal>(Principal{.kind = PrincipalKind::kUser, .id = "user:u_1"});
  const std::string token =
      jobs_.mint_for(JobId("j1"), "j1-1", scopes_, clock_.now(), submitter).value();
  const std::string declared = jobs_.mint_for(JobId("j2"), "j2-1", scopes_, clock_.now()).value();
  EXPECT_TRUE(check(token).value()->scopes->empty()) << "nobody says what he may do";
  std::string left = "features.read";
  jobs_.bound_by([&](const Principal& who, const Scope& scope) {
    EXPECT_EQ(who.id, "user:u_1");
    return left == "all" || scope.action == left;
  });
  EXPECT_EQ(check(token).value()->scopes, std::vector<Scope>{scopes_[0]});
  EXPECT_EQ(check(token).value()->id, "job:j1");
  left = "all";
  EXPECT_EQ(check(token).value()->scopes, scopes_);
  left = "nothing";
  EXPECT_TRUE(check(token).value()->scopes->empty());
  EXPECT_TRUE(jobs_.renew(JobId("j1"), clock_.now()));
  EXPECT_TRUE(check(token).value()->scopes->empty()) << "by a renewal it gets nothing";
  EXPECT_EQ(check(declared).value()->scopes, scopes_) << "the server's own has no submitter";
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

TEST_F(JobIdentitiesTest, an_attempt_that_outlived_the_server_is_known_again) {
  const auto key = [] { return crypto::SecretBytes(std::string_view("the key of one server")); };
  JobIdentities before(random_, key());
  const std::string token = before.mint_for(JobId("j1"), "j1-2", scopes_, clock_.now()).value();
  JobIdentities after(random_, key());
  const auto shown = parse_token_text(token).value();
  EXPECT_EQ(after.check(shown, clock_.now()).error().id, ErrorId::kCredentialRefused)
      << "nobody has said yet that it still runs";
  clock_.advance(Duration::hours(1));
  EXPECT_EQ(after.mint_for(JobId("j1"), "j1-2", scopes_, clock_.now()).value(), token);
  const auto principal = after.check(shown, clock_.now());
  ASSERT_TRUE(principal.ok());
  EXPECT_EQ((*principal)->id, "job:j1");
  EXPECT_EQ((*principal)->expires, clock_.now() + Duration::minutes(15));
  after.end(JobId("j1"));
  EXPECT_FALSE(after.check(shown, clock_.now()).ok());
}

TEST_F(JobIdentitiesTest, attempts_and_servers_have_different_tokens) {
  const std::string first = jobs_.mint_for(JobId("j1"), "j1-1", scopes_, clock_.now()).value();
  const std::string second = jobs_.mint_for(JobId("j1"), "j1-2", scopes_, clock_.now()).value();
  EXPECT_NE(first, second);
  EXPECT_FALSE(check(first).ok()) << "the attempt before is over";
  EXPECT_TRUE(check(second).ok());
  JobIdentities other(random_);
  EXPECT_NE(other.mint_for(JobId("j1"), "j1-2", scopes_, clock_.now()).value(), second);
}

TEST_F(JobIdentitiesTest, who_names_nothing_may_do_nothing) {
  const std::string token = jobs_.mint_for(JobId("j1"), "j1-1", {}, clock_.now()).value();
  const auto principal = check(token);
  ASSERT_TRUE(principal.ok());
  ASSERT_TRUE((*principal)->scopes.has_value()) << "limited, to nothing";
  EXPECT_FALSE(within_scopes(**principal, "models.read", "pay", "Model/fraud"));
}

TEST_F(JobIdentitiesTest, a_wrong_secret_is_refused) {
  std::string token = mint("j1");
  token.back() = token.back() == 'A' ? 'E' : 'A';
  EXPECT_EQ(check(token).error().id, ErrorId::kCredentialRefused);
}

}  // namespace
}  // namespace falaj::security
