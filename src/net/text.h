// net/text.h — the few ASCII helpers that HTTP needs; none depends on the locale.
#pragma once

#include <string_view>

namespace falaj::net {

inline constexpr std::size_t kMethodCount = 7;

inline constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline constexpr bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (ascii_lower(a[i]) != ascii_lower(b[i])) return false;
  }
  return true;
}

inline constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline constexpr bool is_alpha(char c) { return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z'; }

// The value of a hexadecimal digit, or -1.
inline constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = ascii_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace falaj::net
