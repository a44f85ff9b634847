#include "json.h"

#include <chrono>

#include "note.h"

namespace falaj_verify {
namespace {

constexpr int kDepthMax = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, std::uint32_t point) {
  auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xc0 | (point >> 6));
    add(0x80 | (point & 63));
  } else if (point < 0x10000) {
    add(0xe0 | (point >> 12));
    add(0x80 | ((point >> 6) & 63));
    add(0x80 | (point & 63));
  } else {
    add(0xf0 | (point >> 18));
    add(0x80 | ((point >> 12) & 63));
    add(0x80 | ((point >> 6) & 63));
    add(0x80 | (point & 63));
  }
}

// How many bytes the well-formed UTF-8 character at `at` has; 0 if it is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;  // Overlong.
  if (first == 0xed && byte(1) > 0x9f) return 0;  // A surrogate.
  if (first == 0xf0 && byte(1) < 0x90) return 0;  // Overlong.
  if (first == 0xf4 && byte(1) > 0x8f) return 0;  // Beyond the last character.
  return length;
}

// Reads forward over a text. Every function returns false at the first byte that is not JSON.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  std::size_t at() const { return at_; }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void blanks() {
    while (!done() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  char peek() const { return done() ? '\0' : text_[at_]; }

  // A quoted text; decoded into `out` if that is given.
  bool quoted(std::string* out) {
    if (!take('"')) return false;
    while (!done()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\') {
        if (!escape(out)) return false;
        continue;
      }
      const std::size_t length = static_cast<unsigned char>(c) < 0x80 ? 1 : utf8_length(text_, at_);
      if (length == 0) return false;
      if (out != nullptr) out->append(text_.substr(at_, length));
      at_ += length;
    }
    return false;
  }

  bool number(std::string_view* out) {
    const std::size_t begin = at_;
    take('-');
    if (!take('0')) {
      if (!digits()) return false;
    }
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    if (out != nullptr) *out = text_.substr(begin, at_ - begin);
    return true;
  }

  // Any value without blanks, only checked.
  bool skip(int depth) {
    if (depth > kDepthMax) return false;
    switch (peek()) {
      case '"':
        return quoted(nullptr);
      case '{':
        return skip_list('{', '}', depth);
      case '[':
        return skip_list('[', ']', depth);
      case 't':
        return take("true");
      case 'f':
        return take("false");
      case 'n':
        return take("null");
      default:
        return number(nullptr);
    }
  }

 private:
  bool digits() {
    const std::size_t begin = at_;
    while (!done() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  bool skip_list(char open, char close, int depth) {
    take(open);
    if (take(close)) return true;
    do {
      if (open == '{' && !(quoted(nullptr) && take(':'))) return false;
      if (!skip(depth + 1)) return false;
    } while (take(','));
    return take(close);
  }

  bool hex4(std::uint32_t& unit) {
    unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const int digit = done() ? -1 : hex_digit(text_[at_]);
      if (digit < 0) return false;
      unit = unit * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool escape(std::string* out) {
    ++at_;
    if (done()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
      if (out != nullptr) *out += kTo[known];
      return true;
    }
    std::uint32_t point = 0;
    if (c != 'u' || !hex4(point)) return false;
    if (point >= 0xdc00 && point < 0xe000) return false;
    if (point >= 0xd800 && point < 0xdc00) {
      std::uint32_t low = 0;
      if (!take("\\u") || !hex4(low) || low < 0xdc00 || low >= 0xe000) return false;
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (out != nullptr) append_utf8(*out, point);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool read_value(Reader& reader, Json& out, int depth);

bool read_list(Reader& reader, Json& out, int depth) {
  out.kind = Json::Kind::kList;
  reader.take('[');
  reader.blanks();
  if (reader.take(']')) return true;
  do {
    if (!read_value(reader, out.items.emplace_back(), depth + 1)) return false;
  } while (reader.take(','));
  return reader.take(']');
}

bool read_object(Reader& reader, Json& out, int depth) {
  out.kind = Json::Kind::kObject;
  reader.take('{');
  reader.blanks();
  if (reader.take('}')) return true;
  do {
    reader.blanks();
    std::string key;
    if (!reader.quoted(&key)) return false;
    reader.blanks();
    if (!reader.take(':')) return false;
    const auto [member, is_new] = out.members.try_emplace(std::move(key));
    if (!is_new || !read_value(reader, member->second, depth + 1)) return false;
  } while (reader.take(','));
  return reader.take('}');
}

bool read_word(Reader& reader, Json& out) {
  out.kind = Json::Kind::kBool;
  for (const std::string_view word : {"true", "false"}) {
    out.text = word;
    if (reader.take(word)) return true;
  }
  out.text.clear();
  out.kind = Json::Kind::kNull;
  return reader.take("null");
}

bool read_value(Reader& reader, Json& out, int depth) {
  if (depth > kDepthMax) return false;
  reader.blanks();
  bool ok = false;
  const char c = reader.peek();
  if (c == '{') {
    ok = read_object(reader, out, depth);
  } else if (c == '[') {
    ok = read_list(reader, out, depth);
  } else if (c == '"') {
    out.kind = Json::Kind::kText;
    ok = reader.quoted(&out.text);
  } else if (c == '-' || is_digit(c)) {
    out.kind = Json::Kind::kNumber;
    std::string_view number;
    ok = reader.number(&number);
    out.text = number;
  } else {
    ok = read_word(reader, out);
  }
  reader.blanks();
  return ok;
}

}  // namespace

const Json& Json::operator[](std::string_view key) const {
  static const Json kNothing;
  const auto found = members.find(key);
  return found == members.end() ? kNothing : found->second;
}

std::string_view Json::text_at(std::string_view key) const {
  const Json& member = (*this)[key];
  return member.kind == Kind::kText ? std::string_view(member.text) : std::string_view();
}

std::optional<std::uint64_t> Json::count_at(std::string_view key) const {
  const Json& member = (*this)[key];
  if (member.kind != Kind::kNumber) return {};
  return to_number(member.text);
}

std::optional<Json> parse_json(std::string_view text) {
  Reader reader(text);
  Json value;
  if (!read_value(reader, value, 0) || !reader.done()) return {};
  return value;
}

std::optional<EntryFacts> scan_entry(std::string_view line) {
  Reader reader(line);
  EntryFacts facts;
  auto text = [&](std::string_view key) { return reader.take(key) && reader.quoted(nullptr); };
  if (!text("{\"action\":") || !text(",\"actor\":") || !reader.take(",\"at\":")) return {};
  const std::size_t begin = reader.at() + 1;
  if (!reader.quoted(nullptr)) return {};
  facts.at = line.substr(begin, reader.at() - 1 - begin);
  if (reader.take(",\"clock_behind\":") && !reader.number(nullptr)) return {};
  if (!reader.take(",\"detail\":") || !reader.skip(0)) return {};
  if (!text(",\"object\":") || !text(",\"project\":") || !text(",\"request_id\":")) return {};
  std::string_view number;
  if (!reader.take(",\"sequence\":") || !reader.number(&number)) return {};
  const auto sequence = to_number(number);
  if (!sequence || !reader.take(",\"v\":1}") || !reader.done()) return {};
  facts.sequence = *sequence;
  return facts;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  // "YYYY-MM-DDTHH:MM:SS" and an optional fraction of 3, 6 or 9 digits, then Z.
  if (text.size() < 20 || text.back() != 'Z') return {};
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == '0' ? !is_digit(text[i]) : text[i] != kShape[i]) return {};
  }
  auto number = [&](std::size_t begin, std::size_t count) {
    int value = 0;
    for (std::size_t i = begin; i < begin + count; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  const auto date = std::chrono::year(number(0, 4)) / number(5, 2) / number(8, 2);
  if (!date.ok() || number(0, 4) < 1678 || number(0, 4) > 2261) return {};  // Fits nanoseconds.
  if (number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) return {};
  const std::string_view rest = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  const std::size_t size = rest.size();
  if (size != 0 && (rest[0] != '.' || (size != 4 && size != 7 && size != 10))) return {};
  std::int64_t nanos = 0;
  for (std::int64_t unit = 100'000'000; const char c : rest.substr(size == 0 ? 0 : 1)) {
    if (!is_digit(c)) return {};
    nanos += (c - '0') * unit;
    unit /= 10;
  }
  const std::int64_t minutes = number(11, 2) * 60 + number(14, 2);
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (days * 86'400 + minutes * 60 + number(17, 2)) * 1'000'000'000 + nanos;
}

}  // namespace falaj_verify
