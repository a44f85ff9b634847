#include "features/internal/json_rows.h"

#include <cmath>

#include "base/decode.h"
#include "base/json.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

Error refused(std::size_t row, const std::string& column, const std::string& problem) {
  return Error(ErrorId::kPushRefused,
               "row " + std::to_string(row + 1) + ": column \"" + column + "\" " + problem);
}

Error refused(const std::string& problem) { return Error(ErrorId::kPushRefused, problem); }

std::string shown(const Value& value) {
  std::string text = to_json(value);
  if (text.size() > 40) text = text.substr(0, 37) + "…";
  return text;
}

// A whole number, also as 5.0, which is what tables with missing values make of one.
std::optional<std::int64_t> whole(const Value& value) {
  if (value.is_int()) return value.as_int();
  if (!value.is_number()) return std::nullopt;
  const double number = value.as_double();
  if (std::floor(number) != number || std::fabs(number) > 9007199254740992.0) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// False when it has another type.
bool push_value(Column& column, const Value& value) {
  if (value.is_null()) {
    column.push_null();
    return true;
  }
  switch (column.type()) {
    case Type::kInt64: {
      const std::optional<std::int64_t> number = whole(value);
      if (number) column.push_int(*number);
      return number.has_value();
    }
    case Type::kFloat64:
      if (value.is_number()) column.push_double(value.as_double());
      return value.is_number();
    case Type::kBool:
      if (value.is_bool()) column.push_bool(value.as_bool());
      return value.is_bool();
    case Type::kString:
      if (value.is_string()) column.push_string(value.as_string());
      return value.is_string();
    case Type::kTimestamp:
      break;
  }
  if (!value.is_string()) return false;
  const Result<Timestamp> time = parse_timestamp(value.as_string());
  if (time.ok()) column.push_int(time->nanos);
  return time.ok();
}

Status add(Batch& batch, std::size_t column, std::size_t row, const Value& value) {
  if (push_value(batch.columns[column], value)) return {};
  const table::Field& field = batch.schema.fields[column];
  return refused(row, field.name,
                 "is " + shown(value) + ", which is no " + std::string(type_name(field.type)));
}

Status check_members(const table::Schema& schema, std::size_t row, const Value& object) {
  if (!object.is_object()) {
    return refused("row " + std::to_string(row + 1) + " is no object of column: value");
  }
  for (const auto& [name, value] : object.as_object()) {
    if (schema.find(name)) continue;
    std::vector<std::string> names;
    for (const table::Field& field : schema.fields) names.push_back(field.name);
    const std::string near = nearest_name(name, names);
    return refused(row, name,
                   "is not one of the view" +
                       (near.empty() ? std::string() : "; did you mean \"" + near + "\"?"));
  }
  return {};
}

Status check_count(std::size_t rows) {
  if (rows == 0) return refused("there is no row to push");
  if (rows <= PushedRows::kRowsMax) return {};
  return refused("over " + std::to_string(PushedRows::kRowsMax) +
                 " rows in one push: split it, or ingest a file");
}

Status check_bytes(std::size_t bytes) {
  if (bytes <= PushedRows::kBytesMax) return {};
  return refused("its rows come to over " + std::to_string(PushedRows::kBytesMax >> 20) +
                 " MiB as a table: split it, or ingest a file");
}

std::size_t text_bytes(const Value& value) {
  return value.is_string() ? value.as_string().size() : 0;
}

// What the columns of `schema` come to; other columns are left out.
std::size_t bytes_of_columns(const table::Schema& schema, const Value& columns, std::size_t rows) {
  std::size_t bytes = rows * schema.fields.size() * 8;
  for (const table::Field& field : schema.fields) {
    const Value& values = columns[field.name];
    if (values.is_array()) {
      for (const Value& value : values.as_array()) bytes += text_bytes(value);
    } else {
      bytes += rows * text_bytes(values);
    }
  }
  return bytes;
}

Result<Batch> of_rows(const table::Schema& schema, const Value& rows) {
  if (!rows.is_array()) return refused("rows must be a list of objects");
  FALAJ_TRY(check_count(rows.as_array().size()));
  // Without the texts, each of which came as often as it is kept.
  FALAJ_TRY(check_bytes(rows.as_array().size() * schema.fields.size() * 8));
  Batch batch(schema);
  for (std::size_t row = 0; row < rows.as_array().size(); ++row) {
    const Value& object = rows.as_array()[row];
    FALAJ_TRY(check_members(schema, row, object));
    for (std::size_t column = 0; column < schema.fields.size(); ++column) {
      FALAJ_TRY(add(batch, column, row, object[schema.fields[column].name]));
    }
  }
  return batch;
}

// How many rows the columns have: those of the longest list.
Result<std::size_t> rows_of(const Value& columns) {
  if (!columns.is_object()) return refused("columns must be an object of column: values");
  std::size_t rows = 1;
  for (const auto& [name, values] : columns.as_object()) {
    if (values.is_array()) rows = values.as_array().size();
  }
  for (const auto& [name, values] : columns.as_object()) {
    if (values.is_array() && values.as_array().size() != rows) {
      return refused("column \"" + name + "\" has " + std::to_string(values.as_array().size()) +
                     " values, another has " + std::to_string(rows));
    }
  }
  FALAJ_TRY(check_count(rows));
  return rows;
}

Result<Batch> of_columns(const table::Schema& schema, const Value& columns) {
  const std::size_t rows = FALAJ_TRY(rows_of(columns));
  FALAJ_TRY(check_bytes(bytes_of_columns(schema, columns, rows)));
  Batch batch(schema);
  for (std::size_t column = 0; column < schema.fields.size(); ++column) {
    const std::string& name = schema.fields[column].name;
    if (columns.as_object().find(name) == columns.as_object().end()) {
      return refused("column \"" + name + "\" is missing");
    }
    const Value& values = columns[name];
    for (std::size_t row = 0; row < rows; ++row) {
      FALAJ_TRY(add(batch, column, row, values.is_array() ? values.as_array()[row] : values));
    }
  }
  return batch;
}

}  // namespace

Result<Batch> batch_of(const table::Schema& schema, const PushedRows& rows) {
  return rows.form == PushedRows::Form::kRows ? of_rows(schema, rows.rows)
                                              : of_columns(schema, rows.rows);
}

}  // namespace falaj::features
