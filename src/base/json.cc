#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace falaj {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

// The length of the well-formed sequence at the front, or 0.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and points over U+10FFFF show in the second byte.
  const std::uint8_t second = byte(1);
  if (lead == 0xe0 && second < 0xa0) return 0;
  if (lead == 0xed && second > 0x9f) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;
  if (lead == 0xf4 && second > 0x8f) return 0;
  return length;
}

class Parser {
 public:
  Parser(std::string_view text, int depth_max) : text_(text), depth_max_(depth_max) {}

  Result<Value> document() {
    Value value = FALAJ_TRY(element(0));
    skip_blanks();
    if (at_ < text_.size()) return malformed("text after the end of the value");
    return value;
  }

 private:
  Error failure(ErrorId id, const std::string& what) const {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n' ? 1 : 0;
    }
    return Error(id, "JSON line " + std::to_string(line) + " column " + std::to_string(column) +
                         ": " + what);
  }
  Error malformed(const std::string& what) const { return failure(ErrorId::kMalformedJson, what); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool skip(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  Result<Value> element(int depth) {
    skip_blanks();
    if (at_ >= text_.size()) return malformed("the text ends where a value should stand");
    switch (text_[at_]) {
      case '{':
        return object(depth + 1);
      case '[':
        return array(depth + 1);
      case '"':
        return Value(FALAJ_TRY(string()));
      case 't':
        return literal("true", Value(true));
      case 'f':
        return literal("false", Value(false));
      case 'n':
        return literal("null", Value());
      default:
        return number();
    }
  }

  Result<Value> literal(std::string_view word, Value value) {
    if (text_.substr(at_, word.size()) != word) return malformed("expected a value");
    at_ += word.size();
    return value;
  }

  Status check_depth(int depth) const {
    if (depth <= depth_max_) return {};
    return failure(ErrorId::kTooDeep,
                   "nested deeper than " + std::to_string(depth_max_) + " levels: flatten it");
  }

  Result<Value> array(int depth) {
    FALAJ_TRY(check_depth(depth));
    ++at_;
    Value::Array elements;
    skip_blanks();
    if (skip(']')) return Value(std::move(elements));
    while (true) {
      elements.push_back(FALAJ_TRY(element(depth)));
      skip_blanks();
      if (skip(']')) return Value(std::move(elements));
      if (!skip(',')) return malformed("expected ',' or ']' in a list");
    }
  }

  Result<Value> object(int depth) {
    FALAJ_TRY(check_depth(depth));
    ++at_;
    Value::Object members;
    skip_blanks();
    if (skip('}')) return Value(std::move(members));
    while (true) {
      skip_blanks();
      if (peek() != '"') return malformed("expected a quoted key in an object");
      const std::size_t key_at = at_;
      std::string key = FALAJ_TRY(string());
      if (members.contains(key)) {
        at_ = key_at;
        return failure(ErrorId::kDuplicateField, "the key '" + key + "' stands twice: keep one");
      }
      skip_blanks();
      if (!skip(':')) return malformed("expected ':' after a key");
      Value value = FALAJ_TRY(element(depth));
      members.emplace(std::move(key), std::move(value));
      skip_blanks();
      if (skip('}')) return Value(std::move(members));
      if (!skip(',')) return malformed("expected ',' or '}' in an object");
    }
  }

  Result<std::string> string() {
    ++at_;
    std::string out;
    while (true) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<std::uint8_t>(text_[at_]) >= 0x20) {
        ++at_;
      }
      out.append(text_.substr(begin, at_ - begin));
      if (at_ >= text_.size()) return malformed("the text ends inside a string");
      if (skip('"')) return out;
      if (!skip('\\')) return malformed("a control character inside a string: escape it");
      FALAJ_TRY(escape(out));
    }
  }

  Status escape(std::string& out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (at_ >= text_.size()) return malformed("the text ends inside a string");
    const char c = text_[at_];
    const std::size_t simple = kFrom.find(c);
    if (simple != std::string_view::npos) {
      out += kTo[simple];
      ++at_;
      return {};
    }
    if (c != 'u') return malformed("an unknown escape in a string");
    ++at_;
    append_utf8(out, FALAJ_TRY(escaped_point()));
    return {};
  }

  Result<std::uint32_t> escaped_point() {
    const std::uint32_t first = FALAJ_TRY(hex4());
    if (first == 0) return malformed("\\u0000 inside a string: NUL is refused");
    if (first < 0xd800 || first > 0xdfff) return first;
    if (first > 0xdbff || text_.substr(at_, 2) != "\\u") {
      return failure(ErrorId::kInvalidUtf8, "half of a surrogate pair in a \\u escape");
    }
    at_ += 2;
    const std::uint32_t second = FALAJ_TRY(hex4());
    if (second < 0xdc00 || second > 0xdfff) {
      return failure(ErrorId::kInvalidUtf8, "half of a surrogate pair in a \\u escape");
    }
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  Result<std::uint32_t> hex4() {
    std::uint32_t value = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
      return malformed("expected four hexadecimal digits after \\u");
    }
    at_ += 4;
    return value;
  }

  // Consumes the digits at the front and says how many there were.
  std::size_t digits() {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ - begin;
  }

  Result<Value> number() {
    const std::size_t begin = at_;
    skip('-');
    const bool leading_zero = peek() == '0';
    const std::size_t whole = digits();
    if (whole == 0) {
      at_ = begin;
      return malformed("expected a value");
    }
    if (leading_zero && whole > 1) return malformed("a number may not begin with 0");
    bool integral = true;
    if (skip('.')) {
      integral = false;
      if (digits() == 0) return malformed("expected digits after the decimal point");
    }
    if (peek() == 'e' || peek() == 'E') {
      integral = false;
      ++at_;
      if (!skip('-')) skip('+');
      if (digits() == 0) return malformed("expected digits in the exponent");
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    return integral ? integer(text) : real(text);
  }

  Result<Value> integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // -0 has a sign only as a double; beyond 64 bits the nearest double stands in.
    if (error != std::errc() || text == "-0") return real(text);
    return Value(value);
  }

  Result<Value> real(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc()) return Value(value);
    if (is_tiny(text)) return Value(text.front() == '-' ? -0.0 : 0.0);
    return malformed("the number is beyond the range of a double");
  }

  // Of a number that does not fit a double: is it too small, rather than too large? Decided by the
  // place of its first digit that is not zero, moved by the exponent.
  static bool is_tiny(std::string_view text) {
    const std::string_view mantissa = text.substr(0, text.find_first_of("eE"));
    const auto place = static_cast<std::int64_t>(mantissa.find_first_of("123456789"));
    const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
    if (mantissa.size() == text.size()) return place > point;
    std::string_view digits = text.substr(mantissa.size() + 1);
    const bool negative = digits.front() == '-';
    if (digits.front() == '+' || negative) digits.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc()) return negative;
    return point - place + (negative ? -exponent : exponent) < 0;
  }

  std::string_view text_;
  int depth_max_;
  std::size_t at_ = 0;
};

class Writer {
 public:
  Writer(std::string& out, bool pretty) : out_(out), pretty_(pretty) {}

  void write(const Value& value) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.as_int());
    } else if (value.is_number()) {
      write_double(value.as_double());
    } else if (value.is_string()) {
      append_json_string(out_, value.as_string());
    } else if (value.is_array()) {
      write_array(value.as_array());
    } else {
      write_object(value.as_object());
    }
  }

 private:
  // A whole double keeps its ".0", so that it reads back as a number and not as an integer.
  void write_double(double number) {
    const std::size_t begin = out_.size();
    append_json_number(out_, number);
    if (std::isfinite(number) && out_.find_first_of(".e", begin) == std::string::npos) {
      out_ += ".0";
    }
  }

  void write_array(const Value::Array& elements) {
    out_ += '[';
    bool first = true;
    ++depth_;
    for (const Value& element : elements) {
      separate(first);
      write(element);
    }
    close(first, ']');
  }

  void write_object(const Value::Object& members) {
    out_ += '{';
    bool first = true;
    ++depth_;
    for (const auto& [key, member] : members) {
      separate(first);
      append_json_string(out_, key);
      out_ += pretty_ ? ": " : ":";
      write(member);
    }
    close(first, '}');
  }

  void separate(bool& first) {
    if (!first) out_ += ',';
    first = false;
    new_line();
  }
  void close(bool empty, char bracket) {
    --depth_;
    if (!empty) new_line();
    out_ += bracket;
  }
  void new_line() {
    if (!pretty_) return;
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }

  std::string& out_;
  bool pretty_;
  std::size_t depth_ = 0;
};

void append_escaped(std::string& out, char c) {
  static constexpr char kDigits[] = "0123456789abcdef";
  static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kTo = "\"\\bfnrt";
  const std::size_t simple = kFrom.find(c);
  out += '\\';
  if (simple != std::string_view::npos) {
    out += kTo[simple];
    return;
  }
  out += "u00";
  out += kDigits[static_cast<std::uint8_t>(c) >> 4];
  out += kDigits[static_cast<std::uint8_t>(c) & 15];
}

// Every byte that begins no well-formed sequence becomes U+FFFD.
std::string repaired_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint64_t word = 0;
    while (text.size() >= sizeof word) {
      std::memcpy(&word, text.data(), sizeof word);
      if ((word & 0x8080808080808080u) != 0) break;
      text.remove_prefix(sizeof word);
    }
    if (text.empty()) break;
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Result<Value> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Error(ErrorId::kBodyTooLarge, "JSON of " + std::to_string(text.size()) +
                                             " bytes is over the limit of " +
                                             std::to_string(limits.bytes_max) + ": split it");
  }
  if (!is_valid_utf8(text)) {
    return Error(ErrorId::kInvalidUtf8, "the JSON text is not valid UTF-8: save it as UTF-8");
  }
  return Parser(text, limits.depth_max).document();
}

std::string to_json(const Value& value) {
  std::string out;
  Writer(out, false).write(value);
  return out;
}

std::string to_pretty_json(const Value& value) {
  std::string out;
  Writer(out, true).write(value);
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  bool plain = true;  // Without a branch: nearly all are.
  for (const char c : text) {
    plain &= static_cast<std::uint8_t>(c) >= 0x20 && static_cast<std::uint8_t>(c) < 0x80 &&
             c != '"' && c != '\\';
  }
  if (plain) {
    out += '"';
    out.append(text);
    out += '"';
    return;
  }
  if (!is_valid_utf8(text)) {
    append_json_string(out, repaired_utf8(text));
    return;
  }
  out += '"';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<std::uint8_t>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(begin, i - begin));
    append_escaped(out, c);
    begin = i + 1;
  }
  out.append(text.substr(begin));
  out += '"';
}

void append_json_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  out.append(text, static_cast<std::size_t>(end - text));
}

}  // namespace falaj
