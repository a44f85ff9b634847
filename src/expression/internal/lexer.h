// expression/internal/lexer.h — the words of an expression.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::expression {

enum class TokenKind : std::uint8_t { kEnd, kName, kWord, kNumber, kText, kSign };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::size_t at = 0;
  // A name without its back quotes, a word of the language, digits as written, a text without its
  // quotes, or a sign.
  std::string text;
};

// Ends with kEnd. FJ-3050 for what is no word of the language.
Result<std::vector<Token>> tokens_of(std::string_view text);

}  // namespace falaj::expression
