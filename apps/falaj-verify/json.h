// JSON as falaj-verify needs it: strict reading of small documents, and a scan of log lines that
// allocates nothing. Written anew, so that a mistake in the server's reader is not repeated here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace falaj_verify {

// A parsed document. Numbers keep their text: nothing here calculates with fractions.
struct Json {
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kText, kList, kObject };
  Kind kind = Kind::kNull;
  std::string text;  // Of a text (decoded) or a number (as written).
  std::vector<Json> items;
  std::map<std::string, Json, std::less<>> members;

  // The member, or a null when there is none.
  const Json& operator[](std::string_view key) const;
  // The member's text; "" when it is no text.
  std::string_view text_at(std::string_view key) const;
  // The member as a number from 0 to 2^62; absent when it is no such number.
  std::optional<std::uint64_t> count_at(std::string_view key) const;
};

// Refuses duplicate members, bad UTF-8 and escapes, trailing bytes, and nesting past 64.
std::optional<Json> parse_json(std::string_view text);

// What the log's rules are about, out of one line.
struct EntryFacts {
  std::uint64_t sequence = 0;
  std::string_view at;  // RFC 3339, as written.
};
// Absent unless the line is one compact JSON object with exactly the members of an entry, in
// order.
std::optional<EntryFacts> scan_entry(std::string_view line);

// Nanoseconds since 1970 of a time as the log writes it: UTC, "2026-11-16T08:30:00.123Z".
std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace falaj_verify
