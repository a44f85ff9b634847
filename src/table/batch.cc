#include "table/batch.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace falaj::table {
namespace {

bool is_int(Type type) { return type == Type::kInt64 || type == Type::kTimestamp; }

std::vector<std::uint8_t> checked(std::vector<std::uint8_t> valid, std::size_t rows) {
  FALAJ_CHECK(valid.empty() || valid.size() == rows);
  // Empty without a null, so that equal columns compare equal however they were made.
  if (std::find(valid.begin(), valid.end(), std::uint8_t{0}) == valid.end()) return {};
  return valid;
}

template <class T>
std::vector<T> gather(const std::vector<T>& from, const std::vector<std::uint32_t>& rows) {
  // Made in one go: zeros first would be a second pass over fresh memory.
  static const T nothing{};
  const auto values = rows | std::views::transform([&](std::uint32_t row) -> const T& {
                        return row == Column::kNoRow ? nothing : from[row];
                      });
  return std::vector<T>(values.begin(), values.end());
}

StringColumn gather(const StringColumn& from, const std::vector<std::uint32_t>& rows) {
  std::size_t bytes = 0;
  for (const std::uint32_t row : rows) {
    if (row != Column::kNoRow) bytes += from[row].size();
  }
  StringColumn out;
  out.reserve(rows.size(), bytes);
  for (const std::uint32_t row : rows) {
    out.push(row == Column::kNoRow ? std::string_view() : from[row]);
  }
  return out;
}

}  // namespace

void StringColumn::push(std::string_view text) {
  bytes_.append(text);
  offsets_.push_back(bytes_.size());
}

void StringColumn::reserve(std::size_t rows, std::size_t bytes) {
  bytes_.reserve(bytes);
  offsets_.reserve(rows + 1);
}

void StringColumn::append(const StringColumn& from) {
  const std::uint64_t start = bytes_.size();
  bytes_.append(from.bytes_);
  offsets_.reserve(offsets_.size() + from.size());
  for (std::size_t i = 1; i < from.offsets_.size(); ++i) {
    offsets_.push_back(start + from.offsets_[i]);
  }
}

Column::Column(Type type) : type_(type) {
  switch (type) {
    case Type::kInt64:
    case Type::kTimestamp:
      break;  // The variant's first alternative.
    case Type::kFloat64:
      data_ = std::vector<double>();
      break;
    case Type::kBool:
      data_ = std::vector<std::uint8_t>();
      break;
    case Type::kString:
      data_ = StringColumn();
      break;
  }
}

std::size_t Column::size() const {
  return std::visit([](const auto& data) { return data.size(); }, data_);
}

void Column::reserve(std::size_t rows) {
  if (auto* ints = std::get_if<0>(&data_)) ints->reserve(rows);
  if (auto* doubles = std::get_if<1>(&data_)) doubles->reserve(rows);
  if (auto* bools = std::get_if<2>(&data_)) bools->reserve(rows);
  if (auto* strings = std::get_if<3>(&data_)) strings->reserve(rows, rows * 8);
}

std::size_t Column::null_count() const {
  return static_cast<std::size_t>(std::count(valid_.begin(), valid_.end(), std::uint8_t{0}));
}

const std::vector<std::int64_t>& Column::ints() const {
  FALAJ_CHECK(is_int(type_));
  return std::get<0>(data_);
}
const std::vector<double>& Column::doubles() const {
  FALAJ_CHECK(type_ == Type::kFloat64);
  return std::get<1>(data_);
}
const std::vector<std::uint8_t>& Column::bools() const {
  FALAJ_CHECK(type_ == Type::kBool);
  return std::get<2>(data_);
}
const StringColumn& Column::strings() const {
  FALAJ_CHECK(type_ == Type::kString);
  return std::get<3>(data_);
}

void Column::push_int(std::int64_t v) {
  FALAJ_CHECK(is_int(type_));
  std::get<0>(data_).push_back(v);
  if (!valid_.empty()) valid_.push_back(1);
}
void Column::push_double(double v) {
  FALAJ_CHECK(type_ == Type::kFloat64);
  std::get<1>(data_).push_back(v);
  if (!valid_.empty()) valid_.push_back(1);
}
void Column::push_bool(bool v) {
  FALAJ_CHECK(type_ == Type::kBool);
  std::get<2>(data_).push_back(v ? 1 : 0);
  if (!valid_.empty()) valid_.push_back(1);
}
void Column::push_string(std::string_view v) {
  FALAJ_CHECK(type_ == Type::kString);
  std::get<3>(data_).push(v);
  if (!valid_.empty()) valid_.push_back(1);
}

void Column::push_null() {
  if (valid_.empty()) valid_.assign(size(), 1);
  valid_.push_back(0);
  if (auto* ints = std::get_if<0>(&data_)) ints->push_back(0);
  if (auto* doubles = std::get_if<1>(&data_)) doubles->push_back(0);
  if (auto* bools = std::get_if<2>(&data_)) bools->push_back(0);
  if (auto* strings = std::get_if<3>(&data_)) strings->push({});
}

void Column::push_from(const Column& from, std::size_t row) {
  FALAJ_CHECK(from.type_ == type_);
  if (from.is_null(row)) return push_null();
  switch (type_) {
    case Type::kInt64:
    case Type::kTimestamp:
      return push_int(from.ints()[row]);
    case Type::kFloat64:
      return push_double(from.doubles()[row]);
    case Type::kBool:
      return push_bool(from.bools()[row] != 0);
    case Type::kString:
      return push_string(from.strings()[row]);
  }
}

void Column::append(const Column& from) {
  FALAJ_CHECK(from.type_ == type_);
  if (!from.valid_.empty() || !valid_.empty()) {
    if (valid_.empty()) valid_.assign(size(), 1);
    if (from.valid_.empty()) {
      valid_.insert(valid_.end(), from.size(), 1);
    } else {
      valid_.insert(valid_.end(), from.valid_.begin(), from.valid_.end());
    }
  }
  if (auto* strings = std::get_if<3>(&data_)) return strings->append(from.strings());
  const auto add = [](auto& to, const auto& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  if (auto* ints = std::get_if<0>(&data_)) add(*ints, std::get<0>(from.data_));
  if (auto* doubles = std::get_if<1>(&data_)) add(*doubles, std::get<1>(from.data_));
  if (auto* bools = std::get_if<2>(&data_)) add(*bools, std::get<2>(from.data_));
}

Column Column::of_ints(Type type, std::vector<std::int64_t> v, std::vector<std::uint8_t> valid) {
  FALAJ_CHECK(is_int(type));
  Column column(type);
  column.valid_ = checked(std::move(valid), v.size());
  column.data_ = std::move(v);
  return column;
}
Column Column::of_doubles(std::vector<double> v, std::vector<std::uint8_t> valid) {
  Column column(Type::kFloat64);
  column.valid_ = checked(std::move(valid), v.size());
  column.data_ = std::move(v);
  return column;
}
Column Column::of_strings(StringColumn v, std::vector<std::uint8_t> valid) {
  Column column(Type::kString);
  column.valid_ = checked(std::move(valid), v.size());
  column.data_ = std::move(v);
  return column;
}
Column Column::of_bools(std::vector<std::uint8_t> v, std::vector<std::uint8_t> valid) {
  Column column(Type::kBool);
  column.valid_ = checked(std::move(valid), v.size());
  column.data_ = std::move(v);
  return column;
}

Column Column::take(const std::vector<std::uint32_t>& rows) const {
  Column out(type_);
  std::visit([&](const auto& data) { out.data_ = gather(data, rows); }, data_);
  const bool missing = std::find(rows.begin(), rows.end(), kNoRow) != rows.end();
  if (valid_.empty() && !missing) return out;

  std::vector<std::uint8_t> valid(rows.size(), 1);
  bool any_null = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kNoRow && !is_null(rows[i])) continue;
    valid[i] = 0;
    any_null = true;
  }
  if (any_null) out.valid_ = std::move(valid);
  return out;
}

double Column::number_at(std::size_t row) const {
  if (is_null(row)) return std::numeric_limits<double>::quiet_NaN();
  switch (type_) {
    case Type::kInt64:
      return static_cast<double>(ints()[row]);
    case Type::kTimestamp:
      return static_cast<double>(ints()[row]) * 1e-9;
    case Type::kFloat64:
      return doubles()[row];
    case Type::kBool:
      return bools()[row] != 0 ? 1.0 : 0.0;
    case Type::kString:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Batch::Batch(Schema s) : schema(std::move(s)) {
  columns.reserve(schema.fields.size());
  for (const Field& field : schema.fields) columns.emplace_back(field.type);
}

const Column* Batch::find(std::string_view name) const {
  const auto index = schema.find(name);
  return index ? &columns[*index] : nullptr;
}

Status Batch::add(Field field, Column column) {
  if (schema.find(field.name)) {
    return Error(Code::kConflict, "the table already has a column \"" + field.name + "\"");
  }
  if (!columns.empty() && column.size() != rows()) {
    return Error(Code::kInvalidArgument, "column \"" + field.name + "\" has " +
                                             std::to_string(column.size()) +
                                             " rows but the table has " + std::to_string(rows()));
  }
  FALAJ_CHECK(field.type == column.type());
  schema.fields.push_back(std::move(field));
  columns.push_back(std::move(column));
  return {};
}

void Batch::append(Batch from) {
  if (columns.empty()) {
    *this = std::move(from);
    return;
  }
  FALAJ_CHECK(schema == from.schema);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].append(from.columns[i]);
}

Batch Batch::take(const std::vector<std::uint32_t>& rows) const {
  Batch out;
  out.schema = schema;
  out.columns.reserve(columns.size());
  for (const Column& column : columns) out.columns.push_back(column.take(rows));
  return out;
}

}  // namespace falaj::table
