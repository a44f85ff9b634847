// Whatever the bytes: no crash, bounded output, and what is called a token has a token's shape.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "security/identity/credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  using namespace falaj::security;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Authorization> parsed = parse_authorization(text);
  if (parsed.ok()) {
    FALAJ_CHECK(parsed->secret.size() + parsed->name.size() <= size);
    const bool token = parsed->scheme == Scheme::kToken || parsed->scheme == Scheme::kBasicToken;
    if (token) FALAJ_CHECK(parse_token_text(parsed->secret).ok());
    if (parsed->scheme == Scheme::kNone) FALAJ_CHECK(text.empty());
  }
  FALAJ_CHECK(find_cookie(text, "__Host-falaj").size() <= size);
  return 0;
}
