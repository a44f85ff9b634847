// crypto/base64.h — RFC 4648, strict: one text for each byte string, anything else is refused.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::crypto {

// '+' '/' with padding, and '-' '_' without.
std::string base64(std::string_view bytes);
std::string base64url(std::string_view bytes);

// kInvalidArgument for a foreign character, wrong padding, or bits that no encoder would leave.
Result<std::string> from_base64(std::string_view text);
Result<std::string> from_base64url(std::string_view text);

}  // namespace falaj::crypto
