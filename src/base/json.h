// base/json.h — strict JSON in, canonical JSON out.
//
// Reading refuses what a careless peer would let through: duplicate keys, invalid UTF-8, NUL,
// trailing bytes, numbers beyond double, nesting over the limit. Fuzzed by json_fuzz.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/value.h"

namespace falaj {

struct JsonLimits {
  std::size_t bytes_max = 8u << 20;
  int depth_max = 64;
};

// FJ-1001 with line and column; FJ-1007/1008/1009/1012 for the named cases.
Result<Value> parse_json(std::string_view text, const JsonLimits& limits = {});

// Compact, keys sorted, shortest round-trip numbers, non-finite numbers as null: equal values give
// equal bytes, so hashes may be taken of it.
std::string to_json(const Value& value);
// The same with two-space indentation, for people.
std::string to_pretty_json(const Value& value);
// Appends `text` quoted and escaped; for writers that stream.
void append_json_string(std::string& out, std::string_view text);
// Appends the shortest text that reads back to the same double; null if it is not finite.
void append_json_number(std::string& out, double number);

// True for well-formed UTF-8 without surrogates or overlong forms.
bool is_valid_utf8(std::string_view text);

}  // namespace falaj
