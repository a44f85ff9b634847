#include "base/value.h"

#include "base/check.h"

namespace falaj {
namespace {

const Value& null_value() {
  static const Value value;
  return value;
}

}  // namespace

bool Value::as_bool() const {
  FALAJ_CHECK(is_bool());
  return std::get<bool>(data_);
}

std::int64_t Value::as_int() const {
  FALAJ_CHECK(is_int());
  return std::get<std::int64_t>(data_);
}

double Value::as_double() const {
  if (is_int()) return static_cast<double>(std::get<std::int64_t>(data_));
  FALAJ_CHECK(is_number());
  return std::get<double>(data_);
}

const std::string& Value::as_string() const {
  FALAJ_CHECK(is_string());
  return std::get<std::string>(data_);
}

const Value::Array& Value::as_array() const {
  FALAJ_CHECK(is_array());
  return std::get<Array>(data_);
}

Value::Array& Value::as_array() {
  FALAJ_CHECK(is_array());
  return std::get<Array>(data_);
}

const Value::Object& Value::as_object() const {
  FALAJ_CHECK(is_object());
  return std::get<Object>(data_);
}

Value::Object& Value::as_object() {
  FALAJ_CHECK(is_object());
  return std::get<Object>(data_);
}

const Value& Value::operator[](std::string_view key) const {
  if (!is_object()) return null_value();
  const Object& members = as_object();
  const auto found = members.find(key);
  return found == members.end() ? null_value() : found->second;
}

Value& Value::operator[](std::string_view key) {
  if (is_null()) data_ = Object{};
  Object& members = as_object();
  const auto found = members.find(key);
  if (found != members.end()) return found->second;
  return members.emplace(std::string(key), Value()).first->second;
}

std::string Value::text(std::string_view key, std::string_view fallback) const {
  const Value& member = (*this)[key];
  return member.is_string() ? member.as_string() : std::string(fallback);
}

std::int64_t Value::integer(std::string_view key, std::int64_t fallback) const {
  const Value& member = (*this)[key];
  return member.is_int() ? member.as_int() : fallback;
}

double Value::number(std::string_view key, double fallback) const {
  const Value& member = (*this)[key];
  return member.is_number() ? member.as_double() : fallback;
}

void Value::push(Value element) {
  if (is_null()) data_ = Array{};
  as_array().push_back(std::move(element));
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"null", "bool", "integer", "number",
                                                "text", "list", "object"};
  return kNames[data_.index()];
}

}  // namespace falaj
