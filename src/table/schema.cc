#include "table/schema.h"

#include <string>

namespace falaj::table {

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInt64:
      return "int64";
    case Type::kFloat64:
      return "float64";
    case Type::kString:
      return "string";
    case Type::kTimestamp:
      return "timestamp";
  }
  return "unknown";
}

Result<Type> parse_type(std::string_view name) {
  if (name == "bool") return Type::kBool;
  if (name == "int64" || name == "int32") return Type::kInt64;
  if (name == "float64" || name == "float32") return Type::kFloat64;
  if (name == "string") return Type::kString;
  if (name == "timestamp") return Type::kTimestamp;
  return Error(ErrorId::kWrongType, "unknown column type \"" + std::string(name) +
                                        "\": use bool, int64, float64, string or timestamp");
}

std::optional<std::size_t> Schema::find(std::string_view name) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace falaj::table
