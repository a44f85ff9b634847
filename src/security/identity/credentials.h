// security/identity/credentials.h — what a request shows to say who it is, taken apart.
//
// Bounded and strict; nothing here believes anything. Fuzzed by credentials_fuzz.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/random.h"

namespace falaj::security {

// Safe methods (GET, HEAD, OPTIONS) change nothing; the others need the console's CSRF header when
// a cookie says who asks.
enum class Method : std::uint8_t { kSafe, kUnsafe };

// kStillThere: whether the caller of a request that goes on (a stream) would be let in now. That is
// no sign of life of theirs.
enum class Asking : std::uint8_t { kRequest, kStillThere };

// As the request brought them; views into it.
struct Credentials {
  std::string_view authorization;  // The header's value.
  std::string_view cookie;         // The Cookie header's value.
  std::string_view csrf;           // X-Falaj-CSRF
  std::string_view tls_peer;       // SPIFFE id of a verified client certificate.
  std::string_view address;        // Of the client, for back-off.
  Method method = Method::kSafe;
  Asking asking = Asking::kRequest;
};

// "fj_" id "_" secret: 12 and 43 characters. The id finds the row, the secret proves it.
struct TokenText {
  std::string_view id;
  std::string_view secret;
};
inline constexpr std::string_view kTokenPrefix = "fj_";
inline constexpr std::size_t kTokenIdBytes = 12;
inline constexpr std::size_t kTokenSecretBytes = 43;  // 32 random bytes in base64url.

struct NewTokenText {
  std::string id;
  std::string text;  // Shown once, stored nowhere.
};
// `mark` is the id's first character: 't' for tokens, 'j' for jobs.
NewTokenText make_token_text(char mark, crypto::Random& random);
// The same from bytes that nobody else knows: kTokenBytes of them. Pure.
inline constexpr std::size_t kTokenBytes = kTokenIdBytes + 32;
NewTokenText token_text_of(char mark, const crypto::SecretBytes& bytes);
// FJ-7011 when it has another shape.
Result<TokenText> parse_token_text(std::string_view text);

enum class Scheme : std::uint8_t { kNone, kToken, kJwt, kPassword, kBasicToken };

// What the Authorization header holds.
struct Authorization {
  Scheme scheme = Scheme::kNone;
  std::string secret;  // Token, JWT or password.
  std::string name;    // Of Basic.
};
// An absent header is kNone; FJ-7011 for another scheme, bad base64, control characters, or more
// than 12 KiB. What looks like one of our tokens is a token, in Basic too (MLflow's variables).
Result<Authorization> parse_authorization(std::string_view header);

// The value of one cookie; "" when absent or sent twice (a planted second one must not win).
std::string_view find_cookie(std::string_view header, std::string_view name);

}  // namespace falaj::security
