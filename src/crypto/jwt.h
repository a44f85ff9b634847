// crypto/jwt.h — bearer tokens of an identity provider, by the rules of RFC 8725.
//
// The algorithm comes from the key's record, never from the token: the token's "alg" must only
// agree. There is no HMAC and no "none" here at all. "kid" is an index into our keys and nothing
// else; headers that bring or point to keys (jwk, jku, x5u), that change the rules (crit, zip) and
// duplicate members are refused. Everything is bounded before it is decoded. Fuzzed by jwt_fuzz.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "crypto/signature.h"

namespace falaj::crypto {

inline constexpr std::size_t kJwtBytesMax = 8 << 10;
inline constexpr std::size_t kJwksBytesMax = 256 << 10;
inline constexpr std::size_t kJwksKeysMax = 64;
inline constexpr Duration kJwtLeewayMax = Duration::seconds(60);

enum class JwtAlgorithm : std::uint8_t { kEdDsa, kEs256, kRs256 };
std::string_view algorithm_name(JwtAlgorithm algorithm);

struct JwtKey {
  JwtAlgorithm algorithm;
  PublicKey key;
};

// A provider's keys by kid. Immutable once parsed.
class JwtKeySet {
 public:
  // A JWK Set (RFC 7517). Keys for other uses or algorithms are left out; a duplicate kid, a set
  // that is no JSON or too large, is FJ-7019. Keys that carry a private part are left out too.
  static Result<JwtKeySet> parse(std::string_view jwks);

  const JwtKey* find(std::string_view kid) const;
  std::size_t size() const { return keys_.size(); }

 private:
  std::map<std::string, JwtKey, std::less<>> keys_;
};

// A token taken apart, not yet believed.
struct UnverifiedJwt {
  std::string algorithm;  // As the token claims.
  std::string type;       // "" when it has none.
  std::string kid;
  std::string signed_part;  // header.payload as sent.
  std::string signature;
  Value claims;
};

// FJ-7013 for anything that is not a compact, signed JWT within the limits.
Result<UnverifiedJwt> parse_jwt(std::string_view token);

struct JwtRules {
  std::string issuer;
  std::string audience;
  std::vector<std::string> types;  // Accepted "typ", lower case: "at+jwt", "jwt"; "" for none.
  Duration leeway = Duration::seconds(60);      // At most kJwtLeewayMax is used.
  Duration lifetime_max = Duration::hours(24);  // From now to exp.
  Timestamp now{};
};

struct JwtClaims {
  std::string subject;
  Timestamp expires{};
  Value all;  // Every claim, verified.
};

// Signature first, then iss, aud, exp, typ, nbf (or iat: one of the two must be there), sub.
// FJ-7013 when it does not hold, also for an unknown kid; FJ-7012 when it has expired. The message
// names the rule that failed and no claim's value. Pure; 30–150 µs.
Result<JwtClaims> verify_jwt(const UnverifiedJwt& token, const JwtKeySet& keys,
                             const JwtRules& rules);

}  // namespace falaj::crypto
