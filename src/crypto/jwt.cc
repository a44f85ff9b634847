#include "crypto/jwt.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "crypto/base64.h"

namespace falaj::crypto {
namespace {

constexpr int kDepthMax = 16;
constexpr std::size_t kKidBytesMax = 256;
constexpr std::size_t kSubjectBytesMax = 255;
constexpr double kSecondsMax = 9e9;  // Year 2255: what a Timestamp can hold.

// Members of a header that would let the token choose its key or its rules.
constexpr std::array<std::string_view, 7> kForbidden{"jku", "x5u", "jwk", "crit",
                                                     "zip", "enc", "b64"};

Error malformed(std::string what) {
  return {ErrorId::kTokenMalformed, "the bearer token was refused: " + std::move(what)};
}

Error bad_set(std::string what) {
  return {ErrorId::kProviderUnavailable, "the provider's keys were refused: " + std::move(what)};
}

Result<Value> decode_object(std::string_view part, std::string_view name) {
  const Result<std::string> bytes = from_base64url(part);
  if (!bytes.ok()) return malformed("its " + std::string(name) + " is not base64url");
  Result<Value> value = parse_json(*bytes, {.bytes_max = kJwtBytesMax, .depth_max = kDepthMax});
  if (!value.ok() || !value->is_object()) {
    return malformed("its " + std::string(name) + " is not a JSON object without repeated members");
  }
  return value;
}

Result<std::string> header_text(const Value& header, std::string_view name) {
  const Value& value = header[name];
  if (!value.is_string() || value.as_string().empty() || value.as_string().size() > kKidBytesMax) {
    return malformed("its header needs \"" + std::string(name) + "\" as a text");
  }
  return value.as_string();
}

Scheme scheme_of(JwtAlgorithm algorithm) {
  switch (algorithm) {
    case JwtAlgorithm::kEdDsa:
      return Scheme::kEd25519;
    case JwtAlgorithm::kEs256:
      return Scheme::kEcdsaP256Raw;
    case JwtAlgorithm::kRs256:
      break;
  }
  return Scheme::kRsaPkcs1;
}

// The text of a JWK's member, decoded; "" when it is absent or no base64url.
std::string key_bytes(const Value& jwk, std::string_view name) {
  return from_base64url(jwk.text(name)).value_or("");
}

Result<JwtKey> key_of(const Value& jwk) {
  const std::string type = jwk.text("kty");
  const std::string curve = jwk.text("crv");
  if (type == "OKP" && curve == "Ed25519") {
    PublicKey key = FALAJ_TRY(PublicKey::ed25519(key_bytes(jwk, "x")));
    return JwtKey{JwtAlgorithm::kEdDsa, std::move(key)};
  }
  if (type == "EC" && curve == "P-256") {
    PublicKey key = FALAJ_TRY(PublicKey::p256(key_bytes(jwk, "x"), key_bytes(jwk, "y")));
    return JwtKey{JwtAlgorithm::kEs256, std::move(key)};
  }
  if (type == "RSA") {
    PublicKey key = FALAJ_TRY(PublicKey::rsa(key_bytes(jwk, "n"), key_bytes(jwk, "e")));
    return JwtKey{JwtAlgorithm::kRs256, std::move(key)};
  }
  return bad_set("a key of another type");
}

bool is_for_signatures(const Value& jwk) {
  if (jwk.has("d") || jwk.has("k")) return false;  // A secret has no business there.
  return jwk.text("use", "sig") == "sig";
}

Result<Timestamp> numeric_date(const Value& claims, std::string_view name) {
  const Value& value = claims[name];
  if (!value.is_number()) return malformed("\"" + std::string(name) + "\" is not a number");
  const double seconds = value.as_double();
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kSecondsMax) {
    return malformed("\"" + std::string(name) + "\" is out of range");
  }
  return Timestamp::from_seconds(static_cast<std::int64_t>(seconds));
}

bool names_audience(const Value& aud, const std::string& audience) {
  if (aud.is_string()) return aud.as_string() == audience;
  if (!aud.is_array()) return false;
  return std::ranges::any_of(aud.as_array(), [&](const Value& one) {
    return one.is_string() && one.as_string() == audience;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool type_accepted(const std::string& type, const JwtRules& rules) {
  std::string plain = lower(type);
  if (plain.starts_with("application/")) plain.erase(0, 12);
  return std::ranges::find(rules.types, plain) != rules.types.end();
}

// exp, nbf and iat. Returns exp.
Result<Timestamp> check_times(const Value& claims, const JwtRules& rules) {
  const Duration leeway = std::clamp(rules.leeway, Duration{}, kJwtLeewayMax);
  const Timestamp expires = FALAJ_TRY(numeric_date(claims, "exp"));
  if (rules.now >= expires + leeway) {
    return Error{ErrorId::kCredentialExpired, "the bearer token has expired"};
  }
  if (expires > rules.now + rules.lifetime_max + leeway) {
    return malformed("it would be valid for longer than this server accepts");
  }
  if (!claims.has("nbf") && !claims.has("iat")) {
    return malformed("it says neither \"nbf\" nor \"iat\"");
  }
  for (const char* name : {"nbf", "iat"}) {
    if (!claims.has(name)) continue;
    const Timestamp start = FALAJ_TRY(numeric_date(claims, name));
    if (start > rules.now + leeway) {
      return malformed(std::string("its \"") + name + "\" lies in the future");
    }
  }
  return expires;
}

}  // namespace

std::string_view algorithm_name(JwtAlgorithm algorithm) {
  switch (algorithm) {
    case JwtAlgorithm::kEdDsa:
      return "EdDSA";
    case JwtAlgorithm::kEs256:
      return "ES256";
    case JwtAlgorithm::kRs256:
      break;
  }
  return "RS256";
}

Result<JwtKeySet> JwtKeySet::parse(std::string_view jwks) {
  const Result<Value> set = parse_json(jwks, {.bytes_max = kJwksBytesMax, .depth_max = kDepthMax});
  if (!set.ok()) return bad_set("the document is no JSON within the limits");
  const Value& list = (*set)["keys"];
  if (!list.is_array() || list.as_array().size() > kJwksKeysMax) {
    return bad_set("\"keys\" is not a list of at most " + std::to_string(kJwksKeysMax) + " keys");
  }
  JwtKeySet out;
  for (const Value& jwk : list.as_array()) {
    const std::string kid = jwk.text("kid");
    if (kid.empty() || kid.size() > kKidBytesMax || !is_for_signatures(jwk)) continue;
    Result<JwtKey> key = key_of(jwk);
    if (!key.ok()) continue;
    const std::string_view name = algorithm_name(key->algorithm);
    if (jwk.text("alg", name) != name) continue;  // PS256 and others are not ours.
    if (!out.keys_.emplace(kid, std::move(key).value()).second) {
      return bad_set("two keys have the same kid");
    }
  }
  return out;
}

const JwtKey* JwtKeySet::find(std::string_view kid) const {
  const auto found = keys_.find(kid);
  return found == keys_.end() ? nullptr : &found->second;
}

Result<UnverifiedJwt> parse_jwt(std::string_view token) {
  if (token.size() > kJwtBytesMax) {
    return malformed("it is longer than " + std::to_string(kJwtBytesMax) + " bytes");
  }
  const std::size_t first = token.find('.');
  const std::size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return malformed("it does not have three parts");
  }
  const Value header = FALAJ_TRY(decode_object(token.substr(0, first), "header"));
  for (const std::string_view name : kForbidden) {
    if (header.as_object().contains(name)) {
      return malformed("its header holds \"" + std::string(name) + "\"");
    }
  }
  UnverifiedJwt jwt;
  jwt.algorithm = FALAJ_TRY(header_text(header, "alg"));
  if (header.has("typ")) jwt.type = FALAJ_TRY(header_text(header, "typ"));
  jwt.kid = FALAJ_TRY(header_text(header, "kid"));
  jwt.claims = FALAJ_TRY(decode_object(token.substr(first + 1, second - first - 1), "payload"));
  const Result<std::string> signature = from_base64url(token.substr(second + 1));
  if (!signature.ok() || signature->empty()) return malformed("it is not signed");
  jwt.signature = *signature;
  jwt.signed_part = token.substr(0, second);
  return jwt;
}

Result<JwtClaims> verify_jwt(const UnverifiedJwt& token, const JwtKeySet& keys,
                             const JwtRules& rules) {
  const JwtKey* key = keys.find(token.kid);
  if (key == nullptr) return malformed("its key is not one of the provider's");
  if (token.algorithm != algorithm_name(key->algorithm)) {
    return malformed("its algorithm is not the key's");
  }
  if (!key->key.verify(scheme_of(key->algorithm), token.signed_part, token.signature)) {
    return malformed("its signature does not hold");
  }
  if (!type_accepted(token.type, rules)) return malformed("its \"typ\" is not accepted here");
  const Value& claims = token.claims;
  if (!claims["iss"].is_string() || claims["iss"].as_string() != rules.issuer) {
    return malformed("it is from another issuer");
  }
  if (!names_audience(claims["aud"], rules.audience)) {
    return malformed("it was issued for another audience");
  }
  const Timestamp expires = FALAJ_TRY(check_times(claims, rules));
  const std::string subject = claims.text("sub");
  if (subject.empty() || subject.size() > kSubjectBytesMax) {
    return malformed("it names no subject of 1 to 255 bytes");
  }
  return JwtClaims{subject, expires, claims};
}

}  // namespace falaj::crypto
