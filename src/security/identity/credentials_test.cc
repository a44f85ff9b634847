#include "security/identity/credentials.h"

#include <gtest/gtest.h>

#include "crypto/base64.h"
#include "crypto/testing/fake_random.h"

namespace falaj::security {
namespace {

TEST(TokenText, is_unguessable_and_reads_back) {
  crypto::testing::FakeRandom random(1);
  const NewTokenText one = make_token_text('t', random);
  const NewTokenText two = make_token_text('t', random);
  EXPECT_NE(one.text, two.text);
  const auto parts = parse_token_text(one.text);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->id, one.id);
  EXPECT_EQ(parts->id.front(), 't');
  EXPECT_EQ(crypto::from_base64url(parts->secret)->size(), 32u);
}

TEST(TokenText, of_another_shape_is_refused) {
  crypto::testing::FakeRandom random(1);
  const std::string good = make_token_text('t', random).text;
  for (std::string bad : {good + "x", good.substr(1), good.substr(0, good.size() - 1),
                          std::string("fj_"), std::string(), "FJ" + good.substr(2)}) {
    EXPECT_FALSE(parse_token_text(bad).ok()) << bad;
  }
  std::string upper = good;
  upper[5] = 'A';
  EXPECT_FALSE(parse_token_text(upper).ok());
  std::string blank = good;
  blank.back() = ' ';
  EXPECT_FALSE(parse_token_text(blank).ok());
}

TEST(Authorization, knows_tokens_passwords_and_signed_tokens) {
  crypto::testing::FakeRandom random(1);
  const std::string token = make_token_text('t', random).text;
  EXPECT_EQ(parse_authorization("")->scheme, Scheme::kNone);
  EXPECT_EQ(parse_authorization("Bearer " + token)->scheme, Scheme::kToken);
  EXPECT_EQ(parse_authorization("bearer  " + token)->secret, token);
  EXPECT_EQ(parse_authorization("Bearer aa.bb.cc")->scheme, Scheme::kJwt);
  const auto password = parse_authorization("Basic " + crypto::base64("alice:pass:word"));
  EXPECT_EQ(password->scheme, Scheme::kPassword);
  EXPECT_EQ(password->name, "alice");
  EXPECT_EQ(password->secret, "pass:word");
  EXPECT_EQ(parse_authorization("BASIC " + crypto::base64("alice:" + token))->scheme,
            Scheme::kBasicToken);
}

TEST(Authorization, anything_else_is_refused) {
  for (const std::string& bad :
       {std::string("Bearer"), std::string("Bearer "), std::string("Bearer x"),
        std::string("Bearer a b.c.d"), std::string("Digest username=x"), std::string("Basic !!!"),
        "Basic " + crypto::base64("nocolon"), "Basic " + crypto::base64("a:b\n"),
        "Basic " + crypto::base64(std::string("a:\0b", 4)), "Basic " + crypto::base64("a:\xff"),
        std::string("Bearer fj_short"), std::string("Bearer a.b.c\r\nX: y"),
        "Bearer " + std::string(20'000, 'a')}) {
    const auto parsed = parse_authorization(bad);
    ASSERT_FALSE(parsed.ok()) << bad.substr(0, 60);
    EXPECT_EQ(parsed.error().id, ErrorId::kCredentialRefused);
  }
}

TEST(Cookie, is_found_by_its_whole_name_and_only_when_sent_once) {
  EXPECT_EQ(find_cookie("a=1; __Host-falaj=xyz; b=2", "__Host-falaj"), "xyz");
  EXPECT_EQ(find_cookie("__Host-falaj=xyz", "__Host-falaj"), "xyz");
  EXPECT_EQ(find_cookie("x__Host-falaj=xyz", "__Host-falaj"), "");
  EXPECT_EQ(find_cookie("__Host-falaj=a; __Host-falaj=b", "__Host-falaj"), "");
  EXPECT_EQ(find_cookie("", "__Host-falaj"), "");
  EXPECT_EQ(find_cookie(";;; =;", "__Host-falaj"), "");
}

}  // namespace
}  // namespace falaj::security
