#include "cli/import/pbtxt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace falaj::cli {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Value> whole() {
    Value message = FALAJ_TRY(fields('\0', 0));
    return message;
  }

 private:
  Error wrong(const std::string& what) const {
    const auto lines =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return Error(ErrorId::kMalformedYaml, "line " + std::to_string(lines + 1) + ": " + what);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }

  void skip_space() {
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '#') {
        while (!at_end() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool take(char wanted) {
    skip_space();
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // Up to `closing`; '\0': to the end of the text.
  Result<Value> fields(char closing, int depth) {
    if (depth > kPbtxtDepthMax) {
      return Error(ErrorId::kTooDeep,
                   "messages are nested deeper than " + std::to_string(kPbtxtDepthMax) + " levels");
    }
    Value message = Value::object();
    for (;;) {
      skip_space();
      if (at_end()) {
        if (closing == '\0') return message;
        return wrong(std::string("a message is not closed with '") + closing + "'");
      }
      if (closing != '\0' && take(closing)) return message;
      FALAJ_TRY(field(message, depth));
      if (!take(',')) take(';');
    }
  }

  Status field(Value& message, int depth) {
    if (peek() == '[') return wrong("names of extensions are not read");
    const std::string name = word();
    if (name.empty()) return wrong("the name of a field is missing");
    Value& values = message[name];
    if (values.is_null()) values = Value::array();
    const bool colon = take(':');
    skip_space();
    // A list of messages needs no colon either.
    if (!colon && peek() != '{' && peek() != '<' && peek() != '[') {
      return wrong("'" + name + "' has neither ':' nor a message");
    }
    if (!take('[')) {
      values.push(FALAJ_TRY(one_value(depth)));
      return {};
    }
    if (take(']')) return {};
    for (;;) {
      values.push(FALAJ_TRY(one_value(depth)));
      if (take(']')) return {};
      if (!take(',')) return wrong("a list goes on with ',' or ends with ']'");
    }
  }

  Result<Value> one_value(int depth) {
    if (take('{')) return fields('}', depth + 1);
    if (take('<')) return fields('>', depth + 1);
    skip_space();
    const char c = peek();
    if (c == '"' || c == '\'') return texts();
    if (is_letter(c)) {
      const std::string name = word();
      if (name == "true" || name == "false") return Value(name == "true");
      return Value(name);
    }
    return number();
  }

  std::string word() {
    const std::size_t begin = at_;
    if (at_end() || !is_letter(text_[at_])) return "";
    while (!at_end() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<Value> number() {
    const std::size_t begin = at_;
    const auto part_of_number = [](char c) {
      return is_digit(c) || is_letter(c) || c == '.' || c == '+' || c == '-';
    };
    while (!at_end() && part_of_number(text_[at_])) ++at_;
    std::string_view digits = text_.substr(begin, at_ - begin);
    const std::string shown(digits);
    if (digits.empty()) return wrong("a value is missing");
    const bool below_zero = digits.front() == '-';
    std::string_view rest = below_zero ? digits.substr(1) : digits;
    const bool hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    const bool octal =
        rest.size() > 1 && rest.front() == '0' && std::all_of(rest.begin(), rest.end(), is_digit);
    if (hexadecimal) rest.remove_prefix(2);
    std::uint64_t whole = 0;
    const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), whole,
                                               hexadecimal ? 16
                                               : octal     ? 8
                                                           : 10);
    const bool all = failed == std::errc() && end == rest.data() + rest.size();
    const std::uint64_t most = std::uint64_t{INT64_MAX} + (below_zero ? 1 : 0);
    if (all && whole <= most) {
      return Value(below_zero ? static_cast<std::int64_t>(0 - whole)
                              : static_cast<std::int64_t>(whole));
    }
    if (hexadecimal || octal) return wrong("'" + shown + "' is no number");
    if (digits.ends_with('f') || digits.ends_with('F')) digits.remove_suffix(1);
    double real = 0;
    const auto [stop, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (bad != std::errc() || stop != digits.data() + digits.size() || !std::isfinite(real)) {
      return wrong("'" + shown + "' is no number");
    }
    return Value(real);
  }

  // Pieces that stand beside each other are one text.
  Result<Value> texts() {
    std::string text;
    for (;;) {
      FALAJ_TRY(piece(text));
      skip_space();
      if (peek() != '"' && peek() != '\'') return Value(std::move(text));
    }
  }

  Status piece(std::string& text) {
    const char quote = text_[at_++];
    for (;;) {
      if (at_end() || text_[at_] == '\n') return wrong("a text is not closed");
      const char c = text_[at_++];
      if (c == quote) return {};
      if (c != '\\') {
        text.push_back(c);
      } else {
        text.push_back(FALAJ_TRY(escaped()));
      }
    }
  }

  Result<char> escaped() {
    if (at_end()) return wrong("a text is not closed");
    const char c = text_[at_++];
    constexpr std::string_view kNames = "abfnrtv\\'\"?";
    constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"?";
    if (const std::size_t found = kNames.find(c); found != std::string_view::npos) {
      return kMeant[found];
    }
    const bool hexadecimal = c == 'x' || c == 'X';
    if (!hexadecimal && (c < '0' || c > '7'))
      return wrong(std::string("unknown escape '\\") + c + "'");
    int code = hexadecimal ? 0 : c - '0';
    int digits = hexadecimal ? 0 : 1;
    const int most = hexadecimal ? 2 : 3;
    const int base = hexadecimal ? 16 : 8;
    for (; digits < most && !at_end(); ++digits, ++at_) {
      const int digit = hex_value(text_[at_]);
      if (digit < 0 || digit >= base) break;
      code = code * base + digit;
    }
    if (digits == 0 || code > 255) return wrong("an escape in a text is no byte");
    return static_cast<char>(code);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Value> parse_pbtxt(std::string_view text) {
  if (text.size() > kPbtxtBytesMax) {
    return Error(ErrorId::kBodyTooLarge,
                 "it has more than " + std::to_string(kPbtxtBytesMax) + " bytes");
  }
  return Parser(text).whole();
}

}  // namespace falaj::cli
