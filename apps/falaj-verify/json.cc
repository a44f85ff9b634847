#include "json.h"

#include <charconv>
#include <chrono>

#include "note.h"

namespace falaj_verify {
namespace {

constexpr int kDepthMax = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};  // With so many bytes more.
constexpr std::uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};

bool is_surrogate(std::uint32_t point) { return point >= 0xd800 && point < 0xe000; }

void append_utf8(std::string& out, std::uint32_t point) {
  int more = 3;
  while (point < kSmallest[more]) --more;
  out += static_cast<char>(kLead[more] | point >> (6 * more));
  while (more-- > 0) out += static_cast<char>(0x80 | (point >> (6 * more) & 63));
}

// How many bytes the well-formed UTF-8 character at `at` has; 0 if it is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (byte(0) < 0x80) return 1;
  std::size_t more = 3;
  while (more > 0 && byte(0) < kLead[more]) --more;
  if (more == 0 || at + more >= text.size()) return 0;
  std::uint32_t point = byte(0) - kLead[more];
  for (std::size_t i = 1; i <= more; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 63);
  }
  const bool longer_than_needed = point < kSmallest[more];
  return longer_than_needed || is_surrogate(point) || point > 0x10ffff ? 0 : more + 1;
}

enum class Blanks : std::uint8_t { kAllowed, kRefused };

// Reads forward over a text. Every function returns false at the first byte that is not JSON. What
// it reads goes into `out`, if that is given: without, nothing is kept and nothing allocated.
class Reader {
 public:
  Reader(std::string_view text, Blanks blanks) : text_(text), blanks_(blanks) {}

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

  // A quoted text, decoded.
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
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    if (out != nullptr) *out = text_.substr(begin, at_ - begin);
    return true;
  }

  bool value(Json* out, int depth) {
    if (depth > kDepthMax) return false;
    blanks();
    const char c = done() ? '\0' : text_[at_];
    std::string_view written;
    bool ok = false;
    if (c == '{' || c == '[') {
      if (out != nullptr) out->kind = c == '{' ? Json::Kind::kObject : Json::Kind::kList;
      ok = inside(c, out, depth);
    } else if (c == '"') {
      if (out != nullptr) out->kind = Json::Kind::kText;
      ok = quoted(out == nullptr ? nullptr : &out->text);
    } else if (c == '-' || is_digit(c)) {
      ok = number(&written);
      if (out != nullptr) *out = {Json::Kind::kNumber, std::string(written), {}, {}};
    } else {
      ok = word(out);
    }
    blanks();
    return ok;
  }

 private:
  bool digits() {
    const std::size_t begin = at_;
    while (!done() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  void blanks() {
    constexpr std::string_view kBlanks = " \n\t\r";
    if (blanks_ == Blanks::kRefused) return;
    while (!done() && kBlanks.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  // What stands between the brackets of an object or a list.
  bool inside(char open, Json* out, int depth) {
    const char close = open == '{' ? '}' : ']';
    take(open);
    blanks();
    if (take(close)) return true;
    do {
      Json* next = nullptr;
      if (open == '{' && !member(out, next)) return false;
      if (open == '[' && out != nullptr) next = &out->items.emplace_back();
      if (!value(next, depth + 1)) return false;
    } while (take(','));
    return take(close);
  }

  // A name and its colon; of those that are kept, each once.
  bool member(Json* object, Json*& next) {
    std::string name;
    blanks();
    if (!quoted(object == nullptr ? nullptr : &name)) return false;
    blanks();
    if (!take(':')) return false;
    if (object == nullptr) return true;
    const auto [place, is_new] = object->members.try_emplace(std::move(name));
    next = &place->second;
    return is_new;
  }

  bool word(Json* out) {
    if (take("null")) return true;
    const std::string_view found = take("true") ? "true" : take("false") ? "false" : "";
    if (out != nullptr && !found.empty()) *out = {Json::Kind::kBool, std::string(found), {}, {}};
    return !found.empty();
  }

  bool hex4(std::uint32_t& unit) {
    const std::string_view four = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(four.data(), four.data() + four.size(), unit, 16);
    at_ += four.size();
    return four.size() == 4 && error == std::errc() && end == four.data() + 4;
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
    if (is_surrogate(point)) {
      std::uint32_t low = 0;
      if (point >= 0xdc00 || !take("\\u") || !hex4(low) || low < 0xdc00 || low >= 0xe000) {
        return false;
      }
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (out != nullptr) append_utf8(*out, point);
    return true;
  }

  const std::string_view text_;
  const Blanks blanks_;
  std::size_t at_ = 0;
};

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
  Reader reader(text, Blanks::kAllowed);
  Json value;
  if (!reader.value(&value, 0) || !reader.done()) return {};
  return value;
}

std::optional<EntryFacts> scan_entry(std::string_view line) {
  Reader reader(line, Blanks::kRefused);
  EntryFacts facts;
  auto text = [&](std::string_view key) { return reader.take(key) && reader.quoted(nullptr); };
  if (!text("{\"action\":") || !text(",\"actor\":") || !reader.take(",\"at\":")) return {};
  const std::size_t begin = reader.at() + 1;
  if (!reader.quoted(nullptr)) return {};
  facts.at = line.substr(begin, reader.at() - 1 - begin);
  if (reader.take(",\"clock_behind\":") && !reader.number(nullptr)) return {};
  if (!reader.take(",\"detail\":") || !reader.value(nullptr, 0)) return {};
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
