#include "crypto/base64.h"

#include <array>
#include <cstdint>

namespace falaj::crypto {
namespace {

constexpr std::string_view kStandard =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrl =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode(std::string_view bytes, std::string_view alphabet) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char byte : bytes) {
    bits = (bits << 8) | static_cast<std::uint8_t>(byte);
    held += 8;
    while (held >= 6) {
      held -= 6;
      out += alphabet[(bits >> held) & 63];
    }
  }
  if (held > 0) out += alphabet[(bits << (6 - held)) & 63];
  return out;
}

Error refused() {
  return {ErrorId::kInvalidArgument, "the text is not base64 as one encoder would write it"};
}

Result<std::string> decode(std::string_view text, std::string_view alphabet) {
  if (text.size() % 4 == 1) return refused();
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::size_t at = alphabet.find(c);
    if (at == std::string_view::npos) return refused();
    bits = (bits << 6) | static_cast<std::uint32_t>(at);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>((bits >> held) & 0xff);
    }
  }
  if ((bits & ((1u << held) - 1)) != 0) return refused();
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out = encode(bytes, kStandard);
  out.append((4 - out.size() % 4) % 4, '=');
  return out;
}

std::string base64url(std::string_view bytes) { return encode(bytes, kUrl); }

Result<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return refused();
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return decode(text, kStandard);
}

Result<std::string> from_base64url(std::string_view text) { return decode(text, kUrl); }

}  // namespace falaj::crypto
