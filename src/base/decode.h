// base/decode.h — reads a declaration's fields once, strictly, and says what is wrong with it.
//
//   Fields fields(spec, "FeatureView spec");
//   view.entity = FALAJ_TRY(fields.required_text("entity"));
//   view.ttl = FALAJ_TRY(fields.duration("ttl", Duration{}));
//   FALAJ_TRY(fields.finish());  // FJ-1003 for a field nobody asked for, with the nearest name
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"

namespace falaj {

class Fields {
 public:
  // `where` begins every message. A null value counts as an empty object.
  // Keeps a reference: `value` outlives this.
  Fields(const Value& value, std::string where);

  // Absent → fallback; present with the wrong type → FJ-1005; required and absent → FJ-1004.
  Result<std::string> required_text(std::string_view key);
  Result<std::string> text(std::string_view key, std::string_view fallback = "");
  Result<std::int64_t> integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                               std::int64_t max);
  Result<double> number(std::string_view key, double fallback);
  Result<bool> boolean(std::string_view key, bool fallback);
  Result<Duration> duration(std::string_view key, Duration fallback);
  Result<std::int64_t> bytes(std::string_view key, std::int64_t fallback);
  Result<double> share(std::string_view key, double fallback);
  Result<std::vector<std::string>> texts(std::string_view key);
  // One of `choices`; the first is the default when absent.
  Result<std::string> choice(std::string_view key, const std::vector<std::string>& choices);
  // The member whatever its type (null if absent); marks it as read.
  const Value& any(std::string_view key);
  // The member as a list / object; empty when absent.
  Result<Value::Array> list(std::string_view key);
  Result<Value> object(std::string_view key);

  // Refuses unread members, naming the nearest known field.
  Status finish() const;
  const std::string& where() const { return where_; }

 private:
  const Value& value_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

// The candidate nearest to `word` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// An object's name: 1–63 of [a-z0-9_-], first and last alphanumeric. FJ-1010 otherwise.
Status check_name(std::string_view what, std::string_view name);

}  // namespace falaj
