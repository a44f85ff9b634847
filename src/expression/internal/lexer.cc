#include "expression/internal/lexer.h"

#include <algorithm>
#include <array>

#include "expression/internal/syntax.h"

namespace falaj::expression {
namespace {

constexpr std::array<std::string_view, 8> kWords = {"and", "or",   "not",  "in",
                                                    "is",  "null", "true", "false"};
// Longer ones first.
constexpr std::array<std::string_view, 17> kSigns = {
    "==", "!=", "<>", "<=", ">=", "//", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ","};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> out;
    for (;;) {
      while (here_ < text_.size() && is_space(text_[here_])) ++here_;
      out.push_back(FALAJ_TRY(next()));
      if (out.back().kind == TokenKind::kEnd) return out;
    }
  }

 private:
  Result<Token> next() {
    if (here_ == text_.size()) return Token{TokenKind::kEnd, here_, {}};
    const char c = text_[here_];
    if (is_letter(c)) return name();
    if (is_digit(c) || (c == '.' && here_ + 1 < text_.size() && is_digit(text_[here_ + 1]))) {
      return number();
    }
    if (c == '\'') return quoted('\'', TokenKind::kText);
    if (c == '`') return quoted('`', TokenKind::kName);
    for (const std::string_view sign : kSigns) {
      if (!text_.substr(here_).starts_with(sign)) continue;
      here_ += sign.size();
      return Token{TokenKind::kSign, here_ - sign.size(), std::string(sign)};
    }
    if (c == '"') {
      return fault(text_, here_,
                   "texts stand in single quotes, 'like this', and unusual column names in "
                   "back quotes, `like this`");
    }
    return fault(text_, here_, "this character means nothing here");
  }

  Token name() {
    const std::size_t from = here_;
    while (here_ < text_.size() && (is_letter(text_[here_]) || is_digit(text_[here_]))) ++here_;
    Token out{TokenKind::kName, from, std::string(text_.substr(from, here_ - from))};
    if (std::find(kWords.begin(), kWords.end(), out.text) != kWords.end()) {
      out.kind = TokenKind::kWord;
    }
    return out;
  }

  void digits() {
    while (here_ < text_.size() && is_digit(text_[here_])) ++here_;
  }

  Result<Token> number() {
    const std::size_t from = here_;
    digits();
    if (here_ < text_.size() && text_[here_] == '.') {
      ++here_;
      digits();
    }
    if (here_ < text_.size() && (text_[here_] == 'e' || text_[here_] == 'E')) {
      ++here_;
      if (here_ < text_.size() && (text_[here_] == '+' || text_[here_] == '-')) ++here_;
      const std::size_t exponent = here_;
      digits();
      if (here_ == exponent) return fault(text_, from, "the number has no digits in its exponent");
    }
    if (here_ < text_.size() && (is_letter(text_[here_]) || text_[here_] == '.')) {
      return fault(text_, from, "this is not a number");
    }
    return Token{TokenKind::kNumber, from, std::string(text_.substr(from, here_ - from))};
  }

  // The quote itself is written twice.
  Result<Token> quoted(char quote, TokenKind kind) {
    Token out{kind, here_, {}};
    for (++here_; here_ < text_.size(); ++here_) {
      if (text_[here_] != quote) {
        out.text += text_[here_];
      } else if (here_ + 1 < text_.size() && text_[here_ + 1] == quote) {
        out.text += text_[here_++];
      } else {
        ++here_;
        return out;
      }
    }
    return fault(text_, out.at, "the quote that begins here does not end");
  }

  std::string_view text_;
  std::size_t here_ = 0;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view text) { return Lexer(text).run(); }

}  // namespace falaj::expression
