#include "crypto/jwt.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "crypto/base64.h"
#include "crypto/kdf.h"

namespace falaj::crypto {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'790'000'000);
constexpr std::int64_t kNowSeconds = 1'790'000'000;

std::string jwk_of(const PublicKey& key, const std::string& kid) {
  Value jwk;
  jwk["kty"] = "OKP";
  jwk["crv"] = "Ed25519";
  jwk["x"] = base64url(key.raw());
  jwk["kid"] = kid;
  jwk["use"] = "sig";
  return to_json(jwk);
}

class Jwt : public ::testing::Test {
 protected:
  Jwt() {
    header_["alg"] = "EdDSA";
    header_["typ"] = "at+jwt";
    header_["kid"] = "k1";
    claims_["iss"] = "https://id.example";
    claims_["aud"] = "falaj";
    claims_["sub"] = "alice";
    claims_["exp"] = kNowSeconds + 300;
    claims_["nbf"] = kNowSeconds - 5;
    rules_.issuer = "https://id.example";
    rules_.audience = "falaj";
    rules_.types = {"at+jwt", "jwt"};
    rules_.now = kNow;
  }

  std::string signed_by(const PrivateKey& key, Scheme scheme) const {
    const std::string part = base64url(to_json(header_)) + "." + base64url(to_json(claims_));
    return part + "." + base64url(key.sign(scheme, part).value());
  }
  std::string token() const { return signed_by(key_, Scheme::kEd25519); }
  Result<JwtClaims> verify(const std::string& text) const {
    const UnverifiedJwt jwt = FALAJ_TRY(parse_jwt(text));
    return verify_jwt(jwt, keys_, rules_);
  }
  ErrorId refusal(const std::string& text) const {
    const auto verified = verify(text);
    EXPECT_FALSE(verified.ok());
    return verified.ok() ? ErrorId{} : verified.error().id;
  }

  PrivateKey key_ = PrivateKey::ed25519(std::string(32, 'k')).value();
  JwtKeySet keys_ =
      JwtKeySet::parse("{\"keys\":[" + jwk_of(key_.public_key(), "k1") + "]}").value();
  Value header_;
  Value claims_;
  JwtRules rules_;
};

TEST_F(Jwt, a_good_one_is_taken) {
  const auto claims = verify(token());
  ASSERT_TRUE(claims.ok()) << claims.error().message;
  EXPECT_EQ(claims->subject, "alice");
  EXPECT_EQ(claims->expires, Timestamp::from_seconds(kNowSeconds + 300));
  EXPECT_EQ(claims->all.text("iss"), "https://id.example");
}

TEST_F(Jwt, the_hostile_table_is_refused) {
  struct Case {
    const char* name;
    std::function<void(Value& header, Value& claims)> change;
  };
  const Case cases[] = {
      {"alg none", [](Value& h, Value&) { h["alg"] = "none"; }},
      {"alg NONE", [](Value& h, Value&) { h["alg"] = "NONE"; }},
      {"alg HS256", [](Value& h, Value&) { h["alg"] = "HS256"; }},
      {"alg RS256 over an Ed25519 key", [](Value& h, Value&) { h["alg"] = "RS256"; }},
      {"alg in another case", [](Value& h, Value&) { h["alg"] = "eddsa"; }},
      {"alg a list", [](Value& h, Value&) { h["alg"] = Value::Array{"EdDSA"}; }},
      {"alg absent", [](Value& h, Value&) { h.as_object().erase("alg"); }},
      {"typ absent", [](Value& h, Value&) { h.as_object().erase("typ"); }},
      {"typ of another use", [](Value& h, Value&) { h["typ"] = "logout+jwt"; }},
      {"kid absent", [](Value& h, Value&) { h.as_object().erase("kid"); }},
      {"kid unknown", [](Value& h, Value&) { h["kid"] = "k2"; }},
      {"kid a path", [](Value& h, Value&) { h["kid"] = "../../../../dev/null"; }},
      {"kid an injection", [](Value& h, Value&) { h["kid"] = "k1' OR '1'='1"; }},
      {"kid a number", [](Value& h, Value&) { h["kid"] = 1; }},
      {"jku", [](Value& h, Value&) { h["jku"] = "https://evil.example/jwks"; }},
      {"x5u", [](Value& h, Value&) { h["x5u"] = "https://evil.example/cert"; }},
      {"jwk", [](Value& h, Value&) { h["jwk"] = Value::object(); }},
      {"crit", [](Value& h, Value&) { h["crit"] = Value::Array{"exp"}; }},
      {"empty crit", [](Value& h, Value&) { h["crit"] = Value::array(); }},
      {"crit null", [](Value& h, Value&) { h["crit"] = nullptr; }},
      {"zip", [](Value& h, Value&) { h["zip"] = "DEF"; }},
      {"enc", [](Value& h, Value&) { h["enc"] = "A256GCM"; }},
      {"b64 false", [](Value& h, Value&) { h["b64"] = false; }},
      {"iss absent", [](Value&, Value& c) { c.as_object().erase("iss"); }},
      {"iss with a slash more", [](Value&, Value& c) { c["iss"] = "https://id.example/"; }},
      {"iss a list", [](Value&, Value& c) { c["iss"] = Value::Array{"https://id.example"}; }},
      {"aud absent", [](Value&, Value& c) { c.as_object().erase("aud"); }},
      {"aud of another", [](Value&, Value& c) { c["aud"] = "other"; }},
      {"aud a prefix", [](Value&, Value& c) { c["aud"] = "falaj2"; }},
      {"aud a list of others",
       [](Value&, Value& c) {
         c["aud"] = Value::Array{"a", 1};
       }},
      {"aud an object", [](Value&, Value& c) { c["aud"] = Value::object(); }},
      {"exp absent", [](Value&, Value& c) { c.as_object().erase("exp"); }},
      {"exp a text", [](Value&, Value& c) { c["exp"] = "9999999999"; }},
      {"exp negative", [](Value&, Value& c) { c["exp"] = -1; }},
      {"exp beyond time", [](Value&, Value& c) { c["exp"] = 1e300; }},
      {"exp in ten years", [](Value&, Value& c) { c["exp"] = kNowSeconds + 315'360'000; }},
      {"nbf and iat absent", [](Value&, Value& c) { c.as_object().erase("nbf"); }},
      {"nbf in the future", [](Value&, Value& c) { c["nbf"] = kNowSeconds + 61; }},
      {"nbf a text", [](Value&, Value& c) { c["nbf"] = "0"; }},
      {"iat in the future", [](Value&, Value& c) { c["iat"] = kNowSeconds + 3600; }},
      {"sub absent", [](Value&, Value& c) { c.as_object().erase("sub"); }},
      {"sub empty", [](Value&, Value& c) { c["sub"] = ""; }},
      {"sub a number", [](Value&, Value& c) { c["sub"] = 7; }},
      {"sub endless", [](Value&, Value& c) { c["sub"] = std::string(300, 'a'); }},
  };
  for (const Case& one : cases) {
    const Value header = header_;
    const Value claims = claims_;
    one.change(header_, claims_);
    EXPECT_EQ(refusal(token()), ErrorId::kTokenMalformed) << one.name;
    header_ = header;
    claims_ = claims;
  }
}

TEST_F(Jwt, a_changed_byte_anywhere_is_refused) {
  const std::string good = token();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(verify(bad).ok()) << i;
    EXPECT_FALSE(verify(good.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(verify(good + "A").ok());
  EXPECT_FALSE(verify(good + ".").ok());
  EXPECT_FALSE(verify(" " + good).ok());
}

TEST_F(Jwt, the_signature_of_nobody_is_refused) {
  const std::string part = token().substr(0, token().rfind('.'));
  EXPECT_EQ(refusal(part + "."), ErrorId::kTokenMalformed);
  EXPECT_EQ(refusal(part), ErrorId::kTokenMalformed);
  EXPECT_EQ(refusal(part + "." + base64url(std::string(64, '\0'))), ErrorId::kTokenMalformed);
  const PrivateKey other = PrivateKey::ed25519(std::string(32, 'o')).value();
  EXPECT_EQ(refusal(signed_by(other, Scheme::kEd25519)), ErrorId::kTokenMalformed);
  // The classic: the public key as an HMAC secret.
  header_["alg"] = "HS256";
  const std::string text = base64url(to_json(header_)) + "." + base64url(to_json(claims_));
  for (const std::string& secret : {key_.public_key().raw(), key_.public_key().to_pem()}) {
    EXPECT_EQ(refusal(text + "." + base64url(hmac_sha256(secret, text))), ErrorId::kTokenMalformed);
  }
}

TEST_F(Jwt, repeated_members_are_refused_even_when_signed) {
  const std::string header = R"({"alg":"EdDSA","alg":"EdDSA","kid":"k1","typ":"at+jwt"})";
  for (const bool in_header : {true, false}) {
    const std::string payload =
        in_header ? to_json(claims_) : R"({"sub":"eve",)" + to_json(claims_).substr(1);
    const std::string part =
        base64url(in_header ? header : to_json(header_)) + "." + base64url(payload);
    const std::string text = part + "." + base64url(key_.sign(Scheme::kEd25519, part).value());
    EXPECT_EQ(refusal(text), ErrorId::kTokenMalformed) << in_header;
  }
}

TEST_F(Jwt, its_size_is_bounded_before_anything_is_decoded) {
  claims_["pad"] = std::string(kJwtBytesMax, 'x');
  EXPECT_EQ(refusal(token()), ErrorId::kTokenMalformed);
  EXPECT_FALSE(parse_jwt(std::string(100'000, '.')).ok());
}

TEST_F(Jwt, clocks_may_differ_by_a_minute_and_no_more) {
  claims_["exp"] = kNowSeconds - 59;
  EXPECT_TRUE(verify(token()).ok());
  claims_["exp"] = kNowSeconds - 60;
  EXPECT_EQ(refusal(token()), ErrorId::kCredentialExpired);
  rules_.leeway = Duration::hours(1);  // More than a minute is never given.
  EXPECT_EQ(refusal(token()), ErrorId::kCredentialExpired);
  claims_["exp"] = kNowSeconds + 100;
  claims_["nbf"] = kNowSeconds + 60;
  EXPECT_TRUE(verify(token()).ok());
  claims_["nbf"] = kNowSeconds + 61;
  EXPECT_EQ(refusal(token()), ErrorId::kTokenMalformed);
}

TEST_F(Jwt, p256_and_rsa_keys_verify_by_their_own_algorithm_only) {
  const PrivateKey rsa = PrivateKey::generate(KeyType::kRsa).value();
  const PrivateKey other = PrivateKey::generate(KeyType::kP256).value();
  // A key set by PEM is not JWKS; take the record as the parser makes it from known vectors.
  keys_ = JwtKeySet::parse(R"({"keys":[{"kty":"EC","crv":"P-256","kid":"e1",)"
                           R"("x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                           R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})")
              .value();
  ASSERT_NE(keys_.find("e1"), nullptr);
  EXPECT_EQ(keys_.find("e1")->algorithm, JwtAlgorithm::kEs256);
  // RFC 7515 A.3: the published ES256 signature holds; its header has no kid or typ, so the whole
  // token is refused here, but the signature check itself must agree with the standard.
  const std::string part =
      "eyJhbGciOiJFUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVl"
      "fQ";
  const std::string signature =
      from_base64url(
          "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
          .value();
  EXPECT_TRUE(keys_.find("e1")->key.verify(Scheme::kEcdsaP256Raw, part, signature));
  header_["kid"] = "e1";
  header_["alg"] = "ES256";
  EXPECT_EQ(refusal(signed_by(other, Scheme::kEcdsaP256Raw)), ErrorId::kTokenMalformed);
  header_["alg"] = "RS256";
  EXPECT_EQ(refusal(signed_by(rsa, Scheme::kRsaPkcs1)), ErrorId::kTokenMalformed);
}

TEST(JwtKeySet, leaves_out_what_is_not_for_signatures) {
  const std::string x =
      base64url(PrivateKey::ed25519(std::string(32, 'k')).value().public_key().raw());
  const auto keys =
      JwtKeySet::parse(R"({"keys":[{"kty":"oct","kid":"h","k":"c2VjcmV0"},)"
                       R"({"kty":"OKP","crv":"Ed25519","kid":"enc","use":"enc","x":")" +
                       x +
                       R"("},)"
                       R"({"kty":"OKP","crv":"Ed25519","kid":"private","d":"AAAA","x":")" +
                       x +
                       R"("},)"
                       R"({"kty":"OKP","crv":"Ed25519","kid":"other","alg":"ES256","x":")" +
                       x +
                       R"("},)"
                       R"({"kty":"OKP","crv":"X25519","kid":"x","x":")" +
                       x +
                       R"("},)"
                       R"({"kty":"OKP","crv":"Ed25519","x":")" +
                       x +
                       R"("},)"
                       R"({"kty":"RSA","kid":"small","n":"AQAB","e":"AQAB"},)"
                       R"({"kty":"EC","crv":"P-256","kid":"off","x":"AAAA","y":"AAAA"},)"
                       R"({"kty":"OKP","crv":"Ed25519","kid":"good","alg":"EdDSA","x":")" +
                       x + R"("},5,null]})");
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->size(), 1u);
  EXPECT_NE(keys->find("good"), nullptr);
}

TEST(JwtKeySet, a_broken_set_is_refused_as_a_whole) {
  const std::string key =
      R"({"kty":"OKP","crv":"Ed25519","kid":"a","x":")" +
      base64url(PrivateKey::ed25519(std::string(32, 'k')).value().public_key().raw()) + R"("})";
  std::string many = key;
  for (std::size_t i = 0; i < kJwksKeysMax; ++i) many += "," + key;
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"keys":{}})"),
        R"({"keys":[)" + key + "," + key + "]}", R"({"keys":[)" + many + "]}",
        R"({"keys":[],"keys":[)" + key + "]}", std::string(kJwksBytesMax + 1, ' ')}) {
    const auto keys = JwtKeySet::parse(text);
    ASSERT_FALSE(keys.ok()) << text.substr(0, 80);
    EXPECT_EQ(keys.error().id, ErrorId::kProviderUnavailable);
  }
}

}  // namespace
}  // namespace falaj::crypto
