#include "base/decode.h"

#include <algorithm>

#include "base/units.h"

namespace falaj {
namespace {

Error wrong_type(const Fields& fields, std::string_view key, std::string_view wanted,
                 const Value& found) {
  return Error(ErrorId::kWrongType, fields.where() + ": '" + std::string(key) + "' must be " +
                                        std::string(wanted) + ", but it is " +
                                        std::string(found.type_name()));
}

// Edit distance with insertions, deletions, replacements and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, last[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_alphanumeric(char c) { return is_name_character(c) && c != '_' && c != '-'; }

}  // namespace

Fields::Fields(const Value& value, std::string where) : value_(value), where_(std::move(where)) {}

const Value& Fields::any(std::string_view key) {
  known_.emplace(key);
  return value_[key];
}

Result<std::string> Fields::required_text(std::string_view key) {
  if (any(key).is_null()) {
    return Error(ErrorId::kMissingField,
                 where_ + ": '" + std::string(key) + "' is missing: add it (a text)");
  }
  return text(key);
}

Result<std::string> Fields::text(std::string_view key, std::string_view fallback) {
  const Value& member = any(key);
  if (member.is_null()) return std::string(fallback);
  if (!member.is_string()) return wrong_type(*this, key, "a text", member);
  return member.as_string();
}

Result<std::int64_t> Fields::integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                                     std::int64_t max) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (!member.is_int()) return wrong_type(*this, key, "a whole number", member);
  if (member.as_int() < min || member.as_int() > max) {
    return Error(ErrorId::kOutOfRange, where_ + ": '" + std::string(key) + "' is " +
                                           std::to_string(member.as_int()) + ", but must be from " +
                                           std::to_string(min) + " to " + std::to_string(max));
  }
  return member.as_int();
}

Result<double> Fields::number(std::string_view key, double fallback) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (!member.is_number()) return wrong_type(*this, key, "a number", member);
  return member.as_double();
}

Result<bool> Fields::boolean(std::string_view key, bool fallback) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (!member.is_bool()) return wrong_type(*this, key, "true or false", member);
  return member.as_bool();
}

Result<Duration> Fields::duration(std::string_view key, Duration fallback) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (member.is_int() && member.as_int() == 0) return Duration{};
  if (!member.is_string()) return wrong_type(*this, key, "a duration like 30d", member);
  Result<Duration> parsed = parse_duration(member.as_string());
  if (!parsed.ok()) return parsed.error().within(where_ + ": '" + std::string(key) + "'");
  return parsed;
}

Result<std::int64_t> Fields::bytes(std::string_view key, std::int64_t fallback) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (member.is_int()) return integer(key, fallback, 0, std::numeric_limits<std::int64_t>::max());
  if (!member.is_string()) return wrong_type(*this, key, "a size like 64Mi", member);
  Result<std::int64_t> parsed = parse_bytes(member.as_string());
  if (!parsed.ok()) return parsed.error().within(where_ + ": '" + std::string(key) + "'");
  return parsed;
}

Result<double> Fields::share(std::string_view key, double fallback) {
  const Value& member = any(key);
  if (member.is_null()) return fallback;
  if (member.is_number()) {
    const double given = member.as_double();
    if (given >= 0 && given <= 1) return given;
    return Error(ErrorId::kOutOfRange,
                 where_ + ": '" + std::string(key) + "' must be from 0 to 1, or a percentage");
  }
  if (!member.is_string()) return wrong_type(*this, key, "a share like 0.1%", member);
  Result<double> parsed = parse_share(member.as_string());
  if (!parsed.ok()) return parsed.error().within(where_ + ": '" + std::string(key) + "'");
  return parsed;
}

Result<std::vector<std::string>> Fields::texts(std::string_view key) {
  std::vector<std::string> out;
  for (const Value& element : FALAJ_TRY(list(key))) {
    if (!element.is_string()) return wrong_type(*this, key, "a list of texts", element);
    out.push_back(element.as_string());
  }
  return out;
}

Result<std::string> Fields::choice(std::string_view key, const std::vector<std::string>& choices) {
  std::string chosen = FALAJ_TRY(text(key, choices.front()));
  if (std::find(choices.begin(), choices.end(), chosen) != choices.end()) return chosen;
  std::string message = where_ + ": '" + std::string(key) + "' is '" + chosen + "', but must be ";
  for (const std::string& one : choices) {
    if (&one != &choices.front()) message += &one == &choices.back() ? " or " : ", ";
    message += one;
  }
  return Error(ErrorId::kOutOfRange, std::move(message));
}

Result<Value::Array> Fields::list(std::string_view key) {
  const Value& member = any(key);
  if (member.is_null()) return Value::Array{};
  if (!member.is_array()) return wrong_type(*this, key, "a list", member);
  return member.as_array();
}

Result<Value> Fields::object(std::string_view key) {
  const Value& member = any(key);
  if (member.is_null()) return Value::object();
  if (!member.is_object()) return wrong_type(*this, key, "an object", member);
  return member;
}

Status Fields::finish() const {
  if (value_.is_null()) return {};
  if (!value_.is_object()) {
    return Error(ErrorId::kWrongType,
                 where_ + ": must be an object, but it is " + std::string(value_.type_name()));
  }
  for (const auto& [key, member] : value_.as_object()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string> names(known_.begin(), known_.end());
    const std::string nearest = nearest_name(key, names);
    std::string message = where_ + ": unknown field '" + key + "'";
    if (!nearest.empty()) message += ": did you mean '" + nearest + "'?";
    return Error(ErrorId::kUnknownField, std::move(message));
  }
  return {};
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  // Long input is not a misspelling, and the distance costs the product of the lengths.
  if (word.size() > 128) return "";
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 128) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best && distance < word.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

Status check_name(std::string_view what, std::string_view name) {
  const bool sized = !name.empty() && name.size() <= 63;
  if (sized && std::all_of(name.begin(), name.end(), is_name_character) &&
      is_alphanumeric(name.front()) && is_alphanumeric(name.back())) {
    return {};
  }
  return Error(ErrorId::kInvalidName,
               std::string(what) + " '" + std::string(name.substr(0, 64)) +
                   "' is not a name: use 1 to 63 of a-z 0-9 _ -, and begin and end with a letter "
                   "or digit");
}

}  // namespace falaj
