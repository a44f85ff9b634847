#include "crypto/testing/hex.h"

namespace falaj::crypto::testing {
namespace {
constexpr std::string_view kDigits = "0123456789abcdef";
}

std::string from_hex(std::string_view digits) {
  std::string out;
  int high = -1;
  for (const char c : digits) {
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos) continue;
    if (high < 0) {
      high = static_cast<int>(value);
    } else {
      out += static_cast<char>(high * 16 + static_cast<int>(value));
      high = -1;
    }
  }
  return out;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

}  // namespace falaj::crypto::testing
