// base/value.h — a JSON-like value: how declarations and administration travel between layers.
//
// Hot paths do not use it. Objects keep their keys sorted, so equal values print equal bytes and
// to_json() may be hashed. Integers are exact up to 64 bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace falaj {

class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::map<std::string, Value, std::less<>>;

  Value() = default;  // null
  Value(std::nullptr_t) {}
  Value(bool b) : data_(b) {}
  Value(int n) : data_(std::int64_t{n}) {}
  Value(unsigned n) : data_(std::int64_t{n}) {}
  Value(std::int64_t n) : data_(n) {}
  Value(std::uint64_t n) : data_(static_cast<std::int64_t>(n)) {}
  Value(double d) : data_(d) {}
  Value(const char* s) : data_(std::string(s)) {}
  Value(std::string_view s) : data_(std::string(s)) {}
  Value(std::string s) : data_(std::move(s)) {}
  Value(Array a) : data_(std::move(a)) {}
  Value(Object o) : data_(std::move(o)) {}
  static Value object() { return Value(Object{}); }
  static Value array() { return Value(Array{}); }

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  // Checked reads: the caller has asked is_…() first; otherwise the process stops.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;  // Also from an integer.
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // The member, or null when absent or when this is no object.
  const Value& operator[](std::string_view key) const;
  // Makes this an object if it was null, and the member if it was absent.
  Value& operator[](std::string_view key);
  bool has(std::string_view key) const { return !(*this)[key].is_null(); }
  // The text at key, or `fallback` when it is absent or no text.
  std::string text(std::string_view key, std::string_view fallback = "") const;
  std::int64_t integer(std::string_view key, std::int64_t fallback = 0) const;
  double number(std::string_view key, double fallback = 0) const;
  void push(Value element);  // Makes this an array if it was null.

  // "null", "bool", "integer", "number", "text", "list", "object": for messages.
  std::string_view type_name() const;
  bool operator==(const Value&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

}  // namespace falaj
