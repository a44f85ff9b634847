#include "security/identity/sessions.h"

#include <gtest/gtest.h>

#include "crypto/testing/fake_random.h"

namespace falaj::security {
namespace {

using CheckCsrf = Sessions::CheckCsrf;

class SessionsTest : public ::testing::Test {
 protected:
  NewSession start(const std::string& id = "user:u_1") {
    return sessions_.start({PrincipalKind::kUser, id}, clock_.now()).value();
  }
  ErrorId refusal(const NewSession& session, std::string_view csrf, CheckCsrf check) {
    const auto used = sessions_.use(session.cookie, csrf, check, clock_.now());
    return used.ok() ? ErrorId{} : used.error().id;
  }
  FakeClock clock_;
  crypto::testing::FakeRandom random_{7};
  Sessions sessions_{SessionOptions{}, random_};
};

TEST_F(SessionsTest, the_cookie_says_who_asks) {
  const NewSession session = start();
  const auto used = sessions_.use(session.cookie, "", CheckCsrf::kNo, clock_.now());
  ASSERT_TRUE(used.ok());
  EXPECT_EQ((*used)->id, "user:u_1");
  EXPECT_TRUE((*used)->credential.starts_with("session:"));
  EXPECT_EQ((*used)->expires, clock_.now() + Duration::hours(12));
}

TEST_F(SessionsTest, a_change_needs_the_sessions_own_csrf_token) {
  const NewSession session = start();
  const NewSession other = start("user:u_2");
  EXPECT_EQ(refusal(session, session.csrf, CheckCsrf::kYes), ErrorId{});
  EXPECT_EQ(refusal(session, "", CheckCsrf::kYes), ErrorId::kCsrfRefused);
  EXPECT_EQ(refusal(session, other.csrf, CheckCsrf::kYes), ErrorId::kCsrfRefused);
  EXPECT_EQ(refusal(session, session.cookie, CheckCsrf::kYes), ErrorId::kCsrfRefused);
  EXPECT_EQ(sessions_.csrf_of(session.cookie), session.csrf);
}

TEST_F(SessionsTest, an_invented_cookie_is_nobody) {
  start();
  for (const std::string& cookie :
       {std::string(), std::string("x"), std::string(43, 'A'), std::string(10'000, 'A')}) {
    EXPECT_EQ(sessions_.use(cookie, "", CheckCsrf::kNo, clock_.now()).error().id,
              ErrorId::kCredentialExpired);
  }
}

TEST_F(SessionsTest, ends_when_idle_and_lives_on_when_used) {
  const NewSession session = start();
  for (int i = 0; i < 4; ++i) {
    clock_.advance(Duration::minutes(29));
    EXPECT_EQ(refusal(session, "", CheckCsrf::kNo), ErrorId{});
  }
  clock_.advance(Duration::minutes(30));
  EXPECT_EQ(refusal(session, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
}

TEST_F(SessionsTest, ends_after_its_time_however_busy) {
  const NewSession session = start();
  for (int i = 0; i < 36 - 1; ++i) {
    clock_.advance(Duration::minutes(20));
    EXPECT_EQ(refusal(session, "", CheckCsrf::kNo), ErrorId{}) << i;
  }
  clock_.advance(Duration::minutes(20));
  EXPECT_EQ(refusal(session, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
}

TEST_F(SessionsTest, signing_out_and_revoking_end_it_at_once) {
  const NewSession one = start();
  const NewSession two = start();
  const NewSession three = start();
  const NewSession other = start("user:u_2");
  sessions_.end(one.cookie);
  EXPECT_EQ(refusal(one, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
  EXPECT_EQ(refusal(two, "", CheckCsrf::kNo), ErrorId{});
  EXPECT_EQ(sessions_.list().size(), 3u);
  EXPECT_FALSE(sessions_.revoke("unknown"));
  sessions_.revoke_user("user:u_1");
  EXPECT_EQ(refusal(two, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
  EXPECT_EQ(refusal(three, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
  EXPECT_EQ(refusal(other, "", CheckCsrf::kNo), ErrorId{});
  EXPECT_TRUE(sessions_.revoke(sessions_.list().front().id));
  EXPECT_EQ(refusal(other, "", CheckCsrf::kNo), ErrorId::kCredentialExpired);
}

TEST_F(SessionsTest, are_bounded_for_each_user_and_for_all) {
  SessionOptions options;
  options.sessions_max = 10;
  options.per_user_max = 3;
  Sessions small(options, random_);
  std::vector<NewSession> mine;
  for (int i = 0; i < 5; ++i) {
    mine.push_back(small.start({PrincipalKind::kUser, "user:u_1"}, clock_.now()).value());
    clock_.advance(Duration::seconds(1));
  }
  EXPECT_EQ(small.list().size(), 3u);
  EXPECT_FALSE(small.use(mine[1].cookie, "", CheckCsrf::kNo, clock_.now()).ok());
  EXPECT_TRUE(small.use(mine[2].cookie, "", CheckCsrf::kNo, clock_.now()).ok());
  for (int i = 0; i < 7; ++i) {
    const std::string id = "user:x" + std::to_string(i);
    ASSERT_TRUE(small.start({PrincipalKind::kUser, id}, clock_.now()).ok());
  }
  EXPECT_EQ(small.start({PrincipalKind::kUser, "user:y"}, clock_.now()).error().id,
            ErrorId::kRateLimited);
  clock_.advance(Duration::hours(1));  // All idle: room again.
  EXPECT_TRUE(small.start({PrincipalKind::kUser, "user:y"}, clock_.now()).ok());
}

TEST_F(SessionsTest, a_look_whether_somebody_is_still_there_is_no_sign_of_life) {
  const NewSession made = start("user:u_1");
  clock_.advance(Duration::minutes(29));
  EXPECT_TRUE(
      sessions_.use(made.cookie, "", Sessions::CheckCsrf::kNo, clock_.now(), Asking::kStillThere)
          .ok());
  clock_.advance(Duration::minutes(1));
  EXPECT_FALSE(sessions_.use(made.cookie, "", Sessions::CheckCsrf::kNo, clock_.now()).ok());
}

}  // namespace
}  // namespace falaj::security
