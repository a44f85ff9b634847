// Whatever the bytes: no crash, and nothing that nobody signed is believed.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "crypto/jwt.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)crypto::JwtKeySet::parse(text);
  const Result<crypto::UnverifiedJwt> token = crypto::parse_jwt(text);
  if (!token.ok()) return 0;
  FALAJ_CHECK(size <= crypto::kJwtBytesMax);
  FALAJ_CHECK(token->claims.is_object() && !token->signature.empty());
  // The key's other half is unknown here, so no input can carry its signature.
  static const crypto::JwtKeySet keys =
      crypto::JwtKeySet::parse(R"({"keys":[{"kty":"EC","crv":"P-256","kid":"e1",)"
                               R"("x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                               R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})")
          .value();
  crypto::JwtRules rules;
  rules.issuer = token->claims.text("iss");
  rules.audience = token->claims.text("aud");
  rules.types = {"jwt", "at+jwt"};
  rules.now = Timestamp::from_seconds(1'790'000'000);
  FALAJ_CHECK(!crypto::verify_jwt(*token, keys, rules).ok());
  return 0;
}
