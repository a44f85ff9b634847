#include "security/identity/oidc.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/json.h"
#include "crypto/base64.h"
#include "crypto/testing/fake_random.h"

namespace falaj::security {
namespace {

// A provider in memory: signs what the test wants, and counts what it is asked.
class FakeProvider {
 public:
  Result<std::string> answer(const ProviderCall& call) {
    if (down) return Error{ErrorId::kProviderUnavailable, "down"};
    if (call.url == issuer + "/.well-known/openid-configuration") return discovery();
    if (call.url == issuer + "/jwks") {
      ++jwks_asked;
      return "{\"keys\":[" + jwk() + "]}";
    }
    if (call.url == issuer + "/token") {
      last_form = call.form.value_or("");
      last_headers = call.headers;
      Value reply;
      reply["id_token"] = id_token;
      return to_json(reply);
    }
    return Error{ErrorId::kProviderUnavailable, "unknown " + call.url};
  }
  std::string discovery() const {
    Value value;
    value["issuer"] = claimed_issuer.empty() ? issuer : claimed_issuer;
    value["authorization_endpoint"] = issuer + "/authorize";
    value["token_endpoint"] = token_endpoint.empty() ? issuer + "/token" : token_endpoint;
    value["jwks_uri"] = issuer + "/jwks";
    value["scopes_supported"] = Value::Array{"openid", "groups", "offline_access"};
    return to_json(value);
  }
  std::string jwk() const {
    Value value;
    value["kty"] = "OKP";
    value["crv"] = "Ed25519";
    value["kid"] = kid;
    value["x"] = crypto::base64url(key().public_key().raw());
    return to_json(value);
  }
  crypto::PrivateKey key() const {
    return crypto::PrivateKey::ed25519(sha256_hex(kid).substr(0, 32)).value();
  }
  std::string sign(const Value& claims, const std::string& type = "at+jwt") const {
    Value header;
    header["alg"] = "EdDSA";
    header["kid"] = kid;
    header["typ"] = type;
    const std::string part =
        crypto::base64url(to_json(header)) + "." + crypto::base64url(to_json(claims));
    return part + "." + crypto::base64url(key().sign(crypto::Scheme::kEd25519, part).value());
  }

  std::string issuer = "https://id.example/realm";
  std::string claimed_issuer;
  std::string token_endpoint;
  std::string kid = "one";
  bool down = false;
  int jwks_asked = 0;
  std::string id_token;
  std::string last_form;
  std::vector<std::pair<std::string, std::string>> last_headers;
};

class OidcTest : public ::testing::Test {
 protected:
  OidcTest() {
    options_.issuer = fake_.issuer;
    options_.audience = "falaj";
    options_.client_id = "console";
    options_.client_secret = "s:c";
    options_.redirect_uri = "https://falaj.example/auth/callback";
    open();
  }
  void open() {
    provider_ = OidcProvider::create(
                    options_, [this](const ProviderCall& call) { return fake_.answer(call); },
                    clock_, random_)
                    .value();
  }
  Value claims(const std::string& audience) const {
    const std::int64_t now = clock_.now().nanos / 1'000'000'000;
    Value value;
    value["iss"] = fake_.issuer;
    value["aud"] = audience;
    value["sub"] = "amal";
    value["iat"] = now;
    value["exp"] = now + 600;
    value["groups"] = Value::Array{"risk", "everybody", "risk", 7, ""};
    return value;
  }
  // The value of one parameter of the address that the browser is sent to.
  static std::string parameter(const std::string& url, const std::string& name) {
    const std::size_t at = url.find(name + "=");
    if (at == std::string::npos) return "";
    const std::size_t from = at + name.size() + 1;
    return url.substr(from, url.find('&', from) - from);
  }
  LoginStart begin() { return provider_->begin_login("/models").value(); }
  Result<LoginDone> finish(const LoginStart& start, Value id_claims) {
    if (!id_claims.has("nonce")) id_claims["nonce"] = parameter(start.url, "nonce");
    fake_.id_token = fake_.sign(id_claims, "JWT");
    return provider_->finish_login({"code", parameter(start.url, "state"), "", start.browser});
  }

  FakeClock clock_;
  crypto::testing::FakeRandom random_{5};
  FakeProvider fake_;
  OidcOptions options_;
  std::unique_ptr<OidcProvider> provider_;
};

TEST_F(OidcTest, an_access_token_says_who_asks) {
  const std::string token = fake_.sign(claims("falaj"));
  EXPECT_TRUE(provider_->wants_keys(token));
  ASSERT_TRUE(provider_->fetch_keys().ok());
  EXPECT_FALSE(provider_->wants_keys(token));
  const auto caller = provider_->check_bearer(token);
  ASSERT_TRUE(caller.ok()) << caller.error().message;
  EXPECT_EQ(caller->subject, "amal");
  EXPECT_EQ(caller->groups, (std::vector<std::string>{"everybody", "risk"}));
}

TEST_F(OidcTest, an_id_token_is_no_key_to_the_api) {
  ASSERT_TRUE(provider_->fetch_keys().ok());
  EXPECT_FALSE(provider_->check_bearer(fake_.sign(claims("console"), "JWT")).ok());
  for (const char* mark : {"nonce", "at_hash", "c_hash"}) {
    Value id_claims = claims("falaj");
    id_claims[mark] = "x";
    EXPECT_EQ(provider_->check_bearer(fake_.sign(id_claims, "JWT")).error().id,
              ErrorId::kTokenMalformed);
  }
}

TEST_F(OidcTest, a_rotated_key_is_fetched_once_and_a_flood_of_key_ids_is_not) {
  ASSERT_TRUE(provider_->fetch_keys().ok());
  EXPECT_EQ(fake_.jwks_asked, 1);
  fake_.kid = "two";
  const std::string token = fake_.sign(claims("falaj"));
  EXPECT_FALSE(provider_->wants_keys(token));  // Asked a moment ago.
  EXPECT_FALSE(provider_->fetch_keys().ok());
  clock_.advance(Duration::seconds(30));
  EXPECT_TRUE(provider_->wants_keys(token));
  ASSERT_TRUE(provider_->fetch_keys().ok());
  EXPECT_TRUE(provider_->check_bearer(token).ok());
  for (int i = 0; i < 1000; ++i) {
    FakeProvider other;
    other.kid = "invented" + std::to_string(i);
    const std::string forged = other.sign(claims("falaj"));
    if (provider_->wants_keys(forged)) (void)provider_->fetch_keys();
    EXPECT_FALSE(provider_->check_bearer(forged).ok());
    clock_.advance(Duration::milliseconds(100));
  }
  EXPECT_LE(fake_.jwks_asked, 2 + 100 / 30 + 1);
  // A token of somebody else's issuer costs the provider nothing at all.
  clock_.advance(Duration::minutes(5));
  Value foreign = claims("falaj");
  foreign["iss"] = "https://evil.example";
  FakeProvider evil;
  evil.kid = "evil";
  EXPECT_FALSE(provider_->wants_keys(evil.sign(foreign)));
}

TEST_F(OidcTest, known_keys_outlive_a_provider_that_is_down_for_a_day) {
  ASSERT_TRUE(provider_->fetch_keys().ok());
  fake_.down = true;
  clock_.advance(Duration::hours(20));
  provider_->tick();
  EXPECT_TRUE(provider_->check_bearer(fake_.sign(claims("falaj"))).ok());
  clock_.advance(Duration::hours(5));
  provider_->tick();
  EXPECT_EQ(provider_->check_bearer(fake_.sign(claims("falaj"))).error().id,
            ErrorId::kProviderUnavailable);
  fake_.down = false;
  clock_.advance(Duration::seconds(30));
  provider_->tick();
  EXPECT_TRUE(provider_->check_bearer(fake_.sign(claims("falaj"))).ok());
}

TEST_F(OidcTest, the_code_flow_sends_state_nonce_and_a_challenge_and_keeps_the_verifier) {
  const LoginStart start = begin();
  EXPECT_TRUE(start.url.starts_with("https://id.example/realm/authorize?response_type=code&"));
  EXPECT_EQ(parameter(start.url, "code_challenge_method"), "S256");
  EXPECT_EQ(parameter(start.url, "scope"), "openid%20groups");
  for (const char* secret : {"state", "nonce", "code_challenge"}) {
    EXPECT_EQ(parameter(start.url, secret).size(), 43u) << secret;
  }
  const auto done = finish(start, claims("console"));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->caller.subject, "amal");
  EXPECT_EQ(done->return_to, "/models");
  // What was sent to redeem the code hashes to the challenge.
  const std::string verifier = parameter(fake_.last_form, "code_verifier");
  const Sha256 hash = sha256(verifier);
  EXPECT_EQ(crypto::base64url({reinterpret_cast<const char*>(hash.bytes.data()), 32}),
            parameter(start.url, "code_challenge"));
  ASSERT_EQ(fake_.last_headers.size(), 1u);
  EXPECT_EQ(fake_.last_headers[0].second, "Basic " + crypto::base64("console:s%3Ac"));
}

TEST_F(OidcTest, a_state_is_good_once_in_time_and_in_its_browser) {
  const LoginStart start = begin();
  ASSERT_TRUE(finish(start, claims("console")).ok());
  EXPECT_EQ(finish(start, claims("console")).error().id, ErrorId::kCredentialRefused);
  LoginStart stolen = begin();
  const LoginStart mine = begin();
  stolen.browser = mine.browser;
  EXPECT_EQ(finish(stolen, claims("console")).error().id, ErrorId::kCredentialRefused);
  const LoginStart late = begin();
  clock_.advance(Duration::minutes(11));
  EXPECT_EQ(finish(late, claims("console")).error().id, ErrorId::kCredentialRefused);
  const LoginStart mixed = begin();
  EXPECT_FALSE(provider_
                   ->finish_login({"code", parameter(mixed.url, "state"), "https://evil.example",
                                   mixed.browser})
                   .ok());
}

TEST_F(OidcTest, an_id_token_of_another_sign_in_client_or_issuer_is_refused) {
  Value nonce = claims("console");
  nonce["nonce"] = "another";
  EXPECT_EQ(finish(begin(), nonce).error().id, ErrorId::kTokenMalformed);
  EXPECT_EQ(finish(begin(), claims("other")).error().id, ErrorId::kTokenMalformed);
  Value issuer = claims("console");
  issuer["iss"] = "https://evil.example";
  EXPECT_EQ(finish(begin(), issuer).error().id, ErrorId::kTokenMalformed);
  Value several = claims("console");
  several["aud"] = Value::Array{"console", "other"};
  EXPECT_EQ(finish(begin(), several).error().id, ErrorId::kTokenMalformed);
  several["azp"] = "console";
  EXPECT_TRUE(finish(begin(), several).ok());
}

TEST_F(OidcTest, unfinished_logins_are_bounded) {
  options_.logins_max = 10;
  open();
  const LoginStart first = begin();
  for (int i = 0; i < 20; ++i) {
    clock_.advance(Duration::seconds(1));
    begin();
  }
  EXPECT_FALSE(finish(first, claims("console")).ok());
  EXPECT_TRUE(finish(begin(), claims("console")).ok());
}

TEST_F(OidcTest, a_discovery_document_of_another_or_with_unsafe_addresses_is_refused) {
  fake_.claimed_issuer = "https://evil.example";
  EXPECT_EQ(provider_->begin_login("/").error().id, ErrorId::kProviderUnavailable);
  fake_.claimed_issuer = "";
  fake_.token_endpoint = "http://id.example/token";
  EXPECT_EQ(provider_->begin_login("/").error().id, ErrorId::kProviderUnavailable);
  for (const char* bad : {"", "http://id.example", "ftp://x", "https://user@id.example",
                          "http://127.0.0.1.evil.example"}) {
    OidcOptions options = options_;
    options.issuer = bad;
    EXPECT_FALSE(OidcProvider::create(options, nullptr, clock_, random_).ok()) << bad;
  }
}

TEST(LocalPath, stays_on_this_server) {
  for (const char* good : {"/", "/models", "/a/b?c=d"}) EXPECT_TRUE(is_local_path(good)) << good;
  for (const char* bad : {"", "models", "//evil.example", "/\\evil.example", "https://evil.example",
                          "/a\nb", "/a b"}) {
    EXPECT_FALSE(is_local_path(bad)) << bad;
  }
}

}  // namespace
}  // namespace falaj::security
