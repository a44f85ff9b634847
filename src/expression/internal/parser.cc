#include <charconv>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "expression/expression.h"
#include "expression/internal/lexer.h"
#include "expression/internal/syntax.h"

namespace falaj::expression {
namespace {

// Columns of a screen up to here; a code point is one.
std::size_t characters(std::string_view text) {
  std::size_t out = 0;
  for (const char c : text) out += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return out;
}

// Recursive descent. Its recursion is counted, so that no text can exhaust the stack.
class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens)
      : text_(text), tokens_(std::move(tokens)) {}

  Result<Node> run() {
    Node out = FALAJ_TRY(either());
    if (peek().kind != TokenKind::kEnd) return unexpected("an operator or the end");
    return out;
  }

 private:
  const Token& peek() const { return tokens_[here_]; }
  bool next_is(TokenKind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }
  bool sign(std::string_view text) const { return next_is(TokenKind::kSign, text); }
  bool word(std::string_view text) const { return next_is(TokenKind::kWord, text); }
  bool take_sign(std::string_view text) { return sign(text) && ++here_ > 0; }
  bool take_word(std::string_view text) { return word(text) && ++here_ > 0; }

  Error unexpected(const std::string& wanted) const {
    const Token& token = peek();
    if (token.kind == TokenKind::kEnd) {
      return fault(text_, token.at, "the expression ends where " + wanted + " should follow");
    }
    return fault(text_, token.at, "\"" + token.text + "\" stands where " + wanted + " should");
  }

  Result<Node> made(Node node) {
    if (++nodes_ <= kNodesMax) return node;
    return fault(text_, node.at,
                 "the expression has over " + std::to_string(kNodesMax) +
                     " parts: compute some of it in a feature of its own");
  }
  Result<Node> call(std::string name, std::size_t at, std::vector<Node> children) {
    Node node;
    node.kind = NodeKind::kCall;
    node.at = at;
    node.text = std::move(name);
    node.children = std::move(children);
    return made(std::move(node));
  }
  Result<Node> call(std::string name, std::size_t at, Node left, Node right) {
    std::vector<Node> children;
    children.push_back(std::move(left));
    children.push_back(std::move(right));
    return call(std::move(name), at, std::move(children));
  }
  Result<Node> call(std::string name, std::size_t at, Node only) {
    std::vector<Node> children;
    children.push_back(std::move(only));
    return call(std::move(name), at, std::move(children));
  }

  Status deeper() {
    if (++depth_ <= kDepthMax) return {};
    return fault(text_, peek().at,
                 "over " + std::to_string(kDepthMax) + " levels inside each other");
  }

  Result<Node> either() {
    Node left = FALAJ_TRY(both());
    while (word("or")) {
      const std::size_t at = tokens_[here_++].at;
      Node right = FALAJ_TRY(both());
      left = FALAJ_TRY(call("or", at, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<Node> both() {
    Node left = FALAJ_TRY(negation());
    while (word("and")) {
      const std::size_t at = tokens_[here_++].at;
      Node right = FALAJ_TRY(negation());
      left = FALAJ_TRY(call("and", at, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<Node> negation() {
    if (!word("not")) return comparison();
    const std::size_t at = tokens_[here_++].at;
    FALAJ_TRY(deeper());
    Node inner = FALAJ_TRY(negation());
    --depth_;
    return call("not", at, std::move(inner));
  }

  // "" when the next token compares nothing.
  std::string comparing() const {
    if (sign("=") || sign("==")) return "==";
    if (sign("<>") || sign("!=")) return "!=";
    for (const char* each : {"<", "<=", ">", ">="}) {
      if (sign(each)) return each;
    }
    return {};
  }

  Result<Node> comparison() {
    Node left = FALAJ_TRY(sum());
    const std::size_t at = peek().at;
    if (const std::string name = comparing(); !name.empty()) {
      ++here_;
      Node right = FALAJ_TRY(sum());
      if (!comparing().empty()) {
        return fault(text_, peek().at, "comparisons do not chain: join two of them with and");
      }
      return call(name, at, std::move(left), std::move(right));
    }
    if (take_word("is")) {
      const bool negated = take_word("not");
      if (!take_word("null")) return unexpected("null");
      Node out = FALAJ_TRY(call("is_null", at, std::move(left)));
      if (negated) return call("not", at, std::move(out));
      return out;
    }
    const bool negated = word("not");
    if (negated) ++here_;
    if (!word("in")) {
      if (negated) return unexpected("in");
      return left;
    }
    ++here_;
    if (!sign("(")) return unexpected("a list in parentheses");
    std::vector<Node> children;
    children.push_back(std::move(left));
    FALAJ_TRY(arguments(children));
    if (children.size() == 1) return fault(text_, at, "the list is empty");
    Node out = FALAJ_TRY(call("in", at, std::move(children)));
    if (negated) return call("not", at, std::move(out));
    return out;
  }

  Result<Node> sum() {
    Node left = FALAJ_TRY(product());
    while (sign("+") || sign("-")) {
      const Token& token = tokens_[here_++];
      Node right = FALAJ_TRY(product());
      left = FALAJ_TRY(call(token.text, token.at, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<Node> product() {
    Node left = FALAJ_TRY(signed_value());
    while (sign("*") || sign("/") || sign("//") || sign("%")) {
      const Token& token = tokens_[here_++];
      Node right = FALAJ_TRY(signed_value());
      left = FALAJ_TRY(call(token.text, token.at, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<Node> signed_value() {
    if (!sign("-")) return value();
    const std::size_t at = tokens_[here_++].at;
    if (peek().kind == TokenKind::kNumber) return number("-", at);
    FALAJ_TRY(deeper());
    Node inner = FALAJ_TRY(signed_value());
    --depth_;
    return call("negate", at, std::move(inner));
  }

  // With its sign, so that the least int64 can be written.
  Result<Node> number(std::string digits, std::size_t at) {
    digits += tokens_[here_++].text;
    Node node;
    node.at = at;
    const char* end = digits.data() + digits.size();
    if (digits.find_first_of(".eE") == std::string::npos) {
      node.kind = NodeKind::kInt;
      const auto read = std::from_chars(digits.data(), end, node.integer);
      if (read.ec != std::errc()) {
        return fault(text_, at, "the number does not fit 64 bits: write it with a decimal point");
      }
    } else {
      node.kind = NodeKind::kFloat;
      const auto read = std::from_chars(digits.data(), end, node.number);
      if (read.ec != std::errc() || read.ptr != end || !std::isfinite(node.number)) {
        return fault(text_, at, "the number is too large or too small for a float64");
      }
    }
    return made(std::move(node));
  }

  Result<Node> value() {
    const Token& token = peek();
    Node node;
    node.at = token.at;
    if (token.kind == TokenKind::kNumber) return number("", token.at);
    if (token.kind == TokenKind::kText) {
      node.kind = NodeKind::kText;
      node.text = tokens_[here_++].text;
      return made(std::move(node));
    }
    if (token.kind == TokenKind::kName) return named();
    if (take_word("null")) return made(std::move(node));
    if (word("true") || word("false")) {
      node.kind = NodeKind::kBool;
      node.integer = tokens_[here_++].text == "true" ? 1 : 0;
      return made(std::move(node));
    }
    if (!take_sign("(")) return unexpected("a value");
    FALAJ_TRY(deeper());
    Node inner = FALAJ_TRY(either());
    --depth_;
    if (!take_sign(")")) return unexpected("\")\"");
    return inner;
  }

  Result<Node> named() {
    const Token& token = tokens_[here_++];
    if (sign("(")) {
      if (text_[token.at] == '`') return unexpected("an operator or the end");
      std::vector<Node> children;
      FALAJ_TRY(arguments(children));
      return call(token.text, token.at, std::move(children));
    }
    Node node;
    node.kind = NodeKind::kColumn;
    node.at = token.at;
    node.text = token.text;
    return made(std::move(node));
  }

  // "(" … ")", behind what is there.
  Status arguments(std::vector<Node>& out) {
    ++here_;
    if (take_sign(")")) return {};
    FALAJ_TRY(deeper());
    do {
      out.push_back(FALAJ_TRY(either()));
    } while (take_sign(","));
    --depth_;
    if (!take_sign(")")) return unexpected("\",\" or \")\"");
    return {};
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  std::size_t here_ = 0;
  std::size_t depth_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace

Error fault(std::string_view text, std::size_t at, const std::string& problem) {
  const std::size_t before = text.substr(0, at).rfind('\n');
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  const std::size_t column = characters(text.substr(begin, at - begin));
  std::string where = "position " + std::to_string(column + 1);
  if (text.find('\n') != std::string_view::npos) {
    std::size_t number = 1;
    for (const char c : text.substr(0, begin)) number += c == '\n' ? 1 : 0;
    where = "line " + std::to_string(number) + ", " + where;
  }
  std::string shown(line);
  for (char& c : shown) {
    if (c == '\t' || c == '\r') c = ' ';
  }
  return Error(ErrorId::kExpressionInvalid,
               where + ": " + problem + "\n  " + shown + "\n  " + std::string(column, ' ') + "^");
}

Result<Node> parse(std::string_view text) {
  if (text.size() > kLengthMax) {
    return Error(ErrorId::kExpressionInvalid, "the expression has " + std::to_string(text.size()) +
                                                  " bytes, over " + std::to_string(kLengthMax) +
                                                  ": compute some of it in a feature of its own");
  }
  if (!is_valid_utf8(text)) {
    return Error(ErrorId::kExpressionInvalid, "the expression is not UTF-8");
  }
  std::vector<Token> tokens = FALAJ_TRY(tokens_of(text));
  return Parser(text, std::move(tokens)).run();
}

}  // namespace falaj::expression
