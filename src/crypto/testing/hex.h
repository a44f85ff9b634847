// crypto/testing/hex.h — bytes of published test vectors.
#pragma once

#include <string>
#include <string_view>

namespace falaj::crypto::testing {

std::string from_hex(std::string_view digits);  // Blanks are skipped.
std::string to_hex(std::string_view bytes);

}  // namespace falaj::crypto::testing
