#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "base/time.h"
#include "expression/expression.h"
#include "expression/internal/kernels.h"

namespace falaj::expression {

char* TextRoom::take(std::size_t size) {
  if (kPiece - used_ < size || used_pieces_ == 0) {
    if (used_pieces_ == pieces_.size()) {
      pieces_.push_back(std::make_unique_for_overwrite<char[]>(kPiece));
    }
    ++used_pieces_;
    used_ = 0;
  }
  used_ += size;
  return pieces_[used_pieces_ - 1].get() + (used_ - size);
}

void TextRoom::clear() {
  used_pieces_ = 0;
  used_ = kPiece;
}

namespace {

using Text = std::string_view;
using Int = std::int64_t;
static_assert(kTextMax <= 65'536, "a piece of TextRoom holds the longest text");

Text keep(Text text, TextRoom& room) {
  char* to = room.take(text.size());
  std::memcpy(to, text.data(), text.size());
  return {to, text.size()};
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
Int length(Text text) { return std::count_if(text.begin(), text.end(), begins_character); }

// The byte at which character `index` begins; the end when there are fewer.
std::size_t byte_of(Text text, Int index) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && index-- == 0) return i;
  }
  return text.size();
}

// From the first character on, counted from one.
bool substring(Text text, Int first, Int count, TextRoom&, Text& out) {
  if (first < 1 || count < 0) return false;
  out = text.substr(byte_of(text, first - 1));
  out = out.substr(0, byte_of(out, count));
  return true;
}

template <char From, char To>
bool shifted(Text text, TextRoom& room, Text& out) {
  if (text.size() > kTextMax) return false;
  char* to = room.take(text.size());
  std::transform(text.begin(), text.end(), to, [](char c) {
    return c >= From && c <= From + 25 ? static_cast<char>(c - From + To) : c;
  });
  out = {to, text.size()};
  return true;
}

bool trim(Text text, TextRoom&, Text& out) {
  const std::size_t from = text.find_first_not_of(" \t\n\r");
  if (from != Text::npos) out = text.substr(from, text.find_last_not_of(" \t\n\r") - from + 1);
  return true;
}

bool concat(Text a, Text b, TextRoom& room, Text& out) {
  if (a.size() + b.size() > kTextMax) return false;
  char* to = room.take(a.size() + b.size());
  std::memcpy(to, a.data(), a.size());
  std::memcpy(to + a.size(), b.data(), b.size());
  out = {to, a.size() + b.size()};
  return true;
}

bool replace(Text text, Text from, Text to, TextRoom& room, Text& out) {
  out = text;
  if (from.empty() || text.find(from) == Text::npos) return true;
  std::string made;
  for (;;) {
    const std::size_t at = text.find(from);
    made.append(text.substr(0, at));
    if (at == Text::npos) break;
    made.append(to);
    text.remove_prefix(at + from.size());
    if (made.size() > kTextMax) return false;
  }
  if (made.size() > kTextMax) return false;
  out = keep(made, room);
  return true;
}

bool split_part(Text text, Text by, Int number, TextRoom&, Text& out) {
  if (by.empty() || number < 1) return false;
  for (;;) {
    const std::size_t at = text.find(by);
    if (--number == 0) {
      out = text.substr(0, at);
      return true;
    }
    if (at == Text::npos) return false;
    text.remove_prefix(at + by.size());
  }
}

bool contains(Text text, Text part) { return text.find(part) != Text::npos; }
bool starts_with(Text text, Text part) { return text.starts_with(part); }
bool ends_with(Text text, Text part) { return text.ends_with(part); }

template <class T>
bool text_of_number(T value, TextRoom& room, Text& out) {
  char* to = room.take(32);
  const auto end = std::to_chars(to, to + 32, value);
  out = {to, static_cast<std::size_t>(end.ptr - to)};
  return true;
}
bool text_of_bool(std::uint8_t value, TextRoom&, Text& out) {
  out = value != 0 ? "true" : "false";
  return true;
}
bool text_of_time(Int nanos, TextRoom& room, Text& out) {
  out = keep(to_rfc3339(Timestamp{nanos}), room);
  return true;
}
bool same_text(Text text, TextRoom&, Text& out) {
  out = text;
  return true;
}

}  // namespace

std::vector<Overload> text_functions() {
  using Flag = std::uint8_t;
  const Type string = Type::kString;
  const std::vector<Type> one{string};
  const std::vector<Type> pair{string, string};
  return {
      {"length", one, Type::kInt64, total<length, Int, Text>},
      {"lower", one, string, text<shifted<'A', 'a'>, Text>},
      {"upper", one, string, text<shifted<'a', 'A'>, Text>},
      {"trim", one, string, text<trim, Text>},
      {"concat", pair, string, text<concat, Text, Text>},
      {"replace", {string, string, string}, string, text<replace, Text, Text, Text>},
      {"substring", {string, Type::kInt64, Type::kInt64}, string, text<substring, Text, Int, Int>},
      {"split_part", {string, string, Type::kInt64}, string, text<split_part, Text, Text, Int>},
      {"contains", pair, Type::kBool, total<contains, Flag, Text, Text>},
      {"starts_with", pair, Type::kBool, total<starts_with, Flag, Text, Text>},
      {"ends_with", pair, Type::kBool, total<ends_with, Flag, Text, Text>},
      {"string", {Type::kInt64}, string, text<text_of_number<Int>, Int>},
      {"string", {Type::kFloat64}, string, text<text_of_number<double>, double>},
      {"string", {Type::kBool}, string, text<text_of_bool, Flag>},
      {"string", {Type::kTimestamp}, string, text<text_of_time, Int>},
      {"string", one, string, text<same_text, Text>},
  };
}

}  // namespace falaj::expression
