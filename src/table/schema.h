// table/schema.h — names and types of columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::table {

enum class Type : std::uint8_t { kBool, kInt64, kFloat64, kString, kTimestamp };

// "bool", "int64", "float64", "string", "timestamp"; int32 and float32 are read as their wide
// forms.
std::string_view type_name(Type type);
Result<Type> parse_type(std::string_view name);

struct Field {
  std::string name;
  Type type = Type::kFloat64;
  bool operator==(const Field&) const = default;
};

struct Schema {
  std::vector<Field> fields;
  std::optional<std::size_t> find(std::string_view name) const;
  bool operator==(const Schema&) const = default;
};

}  // namespace falaj::table
