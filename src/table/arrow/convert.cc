#include "table/arrow/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/json.h"
#include "table/internal/csv.h"

namespace falaj::table {
namespace {

using ::arrow::Array;
using ::arrow::DataType;

bool is_text(const DataType& type) {
  switch (type.id()) {
    case ::arrow::Type::STRING:
    case ::arrow::Type::BINARY:
    case ::arrow::Type::LARGE_STRING:
    case ::arrow::Type::LARGE_BINARY:
    case ::arrow::Type::STRING_VIEW:
    case ::arrow::Type::BINARY_VIEW:
      return true;
    case ::arrow::Type::DICTIONARY:
      return is_text(*static_cast<const ::arrow::DictionaryType&>(type).value_type());
    default:
      return false;
  }
}

// The type of ours that holds the column without loss; nullopt: none does.
std::optional<Type> natural_type(const DataType& type) {
  if (is_text(type)) return Type::kString;
  switch (type.id()) {
    case ::arrow::Type::BOOL:
      return Type::kBool;
    case ::arrow::Type::INT8:
    case ::arrow::Type::INT16:
    case ::arrow::Type::INT32:
    case ::arrow::Type::INT64:
    case ::arrow::Type::UINT8:
    case ::arrow::Type::UINT16:
    case ::arrow::Type::UINT32:
    case ::arrow::Type::UINT64:
      return Type::kInt64;
    case ::arrow::Type::FLOAT:
    case ::arrow::Type::DOUBLE:
    case ::arrow::Type::NA:  // A column without any value: missing numbers.
      return Type::kFloat64;
    case ::arrow::Type::TIMESTAMP:
    case ::arrow::Type::DATE32:
    case ::arrow::Type::DATE64:
      return Type::kTimestamp;
    default:
      return std::nullopt;
  }
}

// Besides its natural type a column may be read as: float64 for whole numbers, int64 for floats
// that are whole (pandas turns integers with gaps into floats), timestamps from their text.
bool can_become(const DataType& found, Type wanted) {
  if (found.id() == ::arrow::Type::NA) return true;
  const auto natural = natural_type(found);
  if (natural == wanted) return true;
  if (natural == Type::kInt64) return wanted == Type::kFloat64;
  if (natural == Type::kFloat64) return wanted == Type::kInt64;
  return natural == Type::kString && wanted == Type::kTimestamp;
}

std::vector<std::uint8_t> validity(const Array& array) {
  if (array.null_count() == 0) return {};
  std::vector<std::uint8_t> valid(static_cast<std::size_t>(array.length()));
  for (std::int64_t i = 0; i < array.length(); ++i) {
    valid[static_cast<std::size_t>(i)] = array.IsNull(i) ? 0 : 1;
  }
  return valid;
}

// Calls `use(raw values)` with the array's primitive values; false for another kind of array.
template <class Use>
bool with_numbers(const Array& array, Use use) {
  const auto raw = [&]<class T>(std::type_identity<T>) {
    use(static_cast<const ::arrow::NumericArray<T>&>(array).raw_values());
    return true;
  };
  switch (array.type_id()) {
    case ::arrow::Type::INT8:
      return raw(std::type_identity<::arrow::Int8Type>{});
    case ::arrow::Type::INT16:
      return raw(std::type_identity<::arrow::Int16Type>{});
    case ::arrow::Type::INT32:
      return raw(std::type_identity<::arrow::Int32Type>{});
    case ::arrow::Type::INT64:
      return raw(std::type_identity<::arrow::Int64Type>{});
    case ::arrow::Type::UINT8:
      return raw(std::type_identity<::arrow::UInt8Type>{});
    case ::arrow::Type::UINT16:
      return raw(std::type_identity<::arrow::UInt16Type>{});
    case ::arrow::Type::UINT32:
      return raw(std::type_identity<::arrow::UInt32Type>{});
    case ::arrow::Type::UINT64:
      return raw(std::type_identity<::arrow::UInt64Type>{});
    case ::arrow::Type::FLOAT:
      return raw(std::type_identity<::arrow::FloatType>{});
    case ::arrow::Type::DOUBLE:
      return raw(std::type_identity<::arrow::DoubleType>{});
    case ::arrow::Type::TIMESTAMP:
      return raw(std::type_identity<::arrow::TimestampType>{});
    case ::arrow::Type::DATE32:
      return raw(std::type_identity<::arrow::Date32Type>{});
    case ::arrow::Type::DATE64:
      return raw(std::type_identity<::arrow::Date64Type>{});
    default:
      return false;
  }
}

// Calls `use(typed array)` for an array of texts that answers GetView(row).
template <class Use>
void with_texts(const Array& array, Use use) {
  switch (array.type_id()) {
    case ::arrow::Type::STRING:
    case ::arrow::Type::BINARY:
      return use(static_cast<const ::arrow::BinaryArray&>(array));
    case ::arrow::Type::LARGE_STRING:
    case ::arrow::Type::LARGE_BINARY:
      return use(static_cast<const ::arrow::LargeBinaryArray&>(array));
    case ::arrow::Type::STRING_VIEW:
    case ::arrow::Type::BINARY_VIEW:
      return use(static_cast<const ::arrow::BinaryViewArray&>(array));
    default:
      return;
  }
}

void fault(Faults& faults, std::size_t row, const Field& field, std::string_view problem) {
  faults.try_emplace(row, "column \"" + field.name + "\": " + std::string(problem));
}

// Null rows hold 0, whatever the file had beneath them.
template <class T>
void clear_nulls(std::vector<T>& values, const std::vector<std::uint8_t>& valid) {
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) values[i] = T{};
  }
}

bool whole_number(double value) {
  // 2^63 itself is out of range; every double below it converts exactly.
  return value >= -0x1p63 && value < 0x1p63 && std::trunc(value) == value;
}

Column ints_of(const Array& array, const Field& field, Faults& faults) {
  const auto rows = static_cast<std::size_t>(array.length());
  std::vector<std::int64_t> out(rows);
  std::vector<std::uint8_t> valid = validity(array);
  with_numbers(array, [&](const auto* raw) {
    using Raw = std::remove_cvref_t<decltype(*raw)>;
    for (std::size_t i = 0; i < rows; ++i) {
      if constexpr (std::is_floating_point_v<Raw>) {
        if (whole_number(raw[i])) {
          out[i] = static_cast<std::int64_t>(raw[i]);
        } else if (valid.empty() || valid[i] != 0) {
          fault(faults, i, field, std::to_string(raw[i]) + " is not a whole number");
        }
      } else {
        out[i] = static_cast<std::int64_t>(raw[i]);
        if (std::is_same_v<Raw, std::uint64_t> && out[i] < 0 && (valid.empty() || valid[i] != 0)) {
          fault(faults, i, field, "a value is over the largest int64");
        }
      }
    }
  });
  clear_nulls(out, valid);
  return Column::of_ints(Type::kInt64, std::move(out), std::move(valid));
}

Column doubles_of(const Array& array) {
  const auto rows = static_cast<std::size_t>(array.length());
  std::vector<double> out(rows);
  std::vector<std::uint8_t> valid = validity(array);
  with_numbers(array, [&](const auto* raw) {
    for (std::size_t i = 0; i < rows; ++i) out[i] = static_cast<double>(raw[i]);
  });
  clear_nulls(out, valid);
  return Column::of_doubles(std::move(out), std::move(valid));
}

std::int64_t nanos_per_unit(const DataType& type) {
  if (type.id() == ::arrow::Type::DATE32) return 86'400'000'000'000;
  if (type.id() == ::arrow::Type::DATE64) return 1'000'000;
  switch (static_cast<const ::arrow::TimestampType&>(type).unit()) {
    case ::arrow::TimeUnit::SECOND:
      return 1'000'000'000;
    case ::arrow::TimeUnit::MILLI:
      return 1'000'000;
    case ::arrow::TimeUnit::MICRO:
      return 1'000;
    case ::arrow::TimeUnit::NANO:
      break;
  }
  return 1;
}

Column times_of(const Array& array, const Field& field, Faults& faults) {
  const auto rows = static_cast<std::size_t>(array.length());
  const std::int64_t scale = nanos_per_unit(*array.type());
  std::vector<std::int64_t> out(rows);
  std::vector<std::uint8_t> valid = validity(array);
  with_numbers(array, [&](const auto* raw) {
    for (std::size_t i = 0; i < rows; ++i) {
      if (__builtin_mul_overflow(static_cast<std::int64_t>(raw[i]), scale, &out[i]) &&
          (valid.empty() || valid[i] != 0)) {
        fault(faults, i, field, "a time is outside the years 1677 to 2262");
      }
    }
  });
  clear_nulls(out, valid);
  return Column::of_ints(Type::kTimestamp, std::move(out), std::move(valid));
}

Column bools_of(const Array& array) {
  const auto& typed = static_cast<const ::arrow::BooleanArray&>(array);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(array.length()));
  std::vector<std::uint8_t> valid = validity(array);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    out[static_cast<std::size_t>(i)] = typed.Value(i) ? 1 : 0;
  }
  clear_nulls(out, valid);
  return Column::of_bools(std::move(out), std::move(valid));
}

// A text that must not be kept: NUL would cut it in C interfaces, other bytes break JSON.
std::string_view text_fault(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c > 0;  // char is signed here: ASCII without NUL.
  if (plain) return {};
  if (text.find('\0') != std::string_view::npos) return "a text holds a NUL byte";
  return is_valid_utf8(text) ? std::string_view() : "a text is not valid UTF-8";
}

// Calls `use(row, text)` for each row that is not null.
template <class Use>
void each_text(const Array& array, Use use) {
  const auto visit = [&](const Array& values, auto row_of) {
    with_texts(values, [&](const auto& typed) {
      for (std::int64_t i = 0; i < array.length(); ++i) {
        const std::int64_t row = array.IsNull(i) ? -1 : row_of(i);
        const bool missing = row < 0 || typed.IsNull(row);
        use(static_cast<std::size_t>(i),
            missing ? std::optional<std::string_view>() : std::string_view(typed.GetView(row)));
      }
    });
  };
  if (array.type_id() != ::arrow::Type::DICTIONARY) {
    return visit(array, [](std::int64_t i) { return i; });
  }
  const auto& coded = static_cast<const ::arrow::DictionaryArray&>(array);
  visit(*coded.dictionary(), [&](std::int64_t i) { return coded.GetValueIndex(i); });
}

Column texts_of(const Array& array, const Field& field, Faults& faults) {
  Column out(Type::kString);
  out.reserve(static_cast<std::size_t>(array.length()));
  each_text(array, [&](std::size_t row, std::optional<std::string_view> text) {
    if (!text) return out.push_null();
    if (const auto problem = text_fault(*text); !problem.empty()) {
      fault(faults, row, field, problem);
      return out.push_null();
    }
    out.push_string(*text);
  });
  return out;
}

Column times_of_texts(const Array& array, const Field& field, Faults& faults) {
  Column out(Type::kTimestamp);
  out.reserve(static_cast<std::size_t>(array.length()));
  each_text(array, [&](std::size_t row, std::optional<std::string_view> text) {
    if (!text) return out.push_null();
    const Result<Timestamp> time = parse_timestamp(*text);
    if (time.ok()) return out.push_int(time->nanos);
    fault(faults, row, field,
          "\"" + printable_row(text->substr(0, 64)) + "\" is not a valid timestamp");
    out.push_null();
  });
  return out;
}

Column nulls_of(std::int64_t rows, Type type) {
  Column out(type);
  out.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) out.push_null();
  return out;
}

std::string raw_row(const ::arrow::RecordBatch& record, std::int64_t row) {
  std::string out;
  for (int i = 0; i < record.num_columns() && out.size() < 4096; ++i) {
    if (i > 0) out.push_back(',');
    if (record.column(i)->IsNull(row)) continue;
    const auto scalar = record.column(i)->GetScalar(row);
    if (scalar.ok()) out += (*scalar)->ToString();
  }
  return printable_row(out);
}

Status deliver_piece(const ::arrow::RecordBatch& piece, const Selection& selection,
                     std::uint64_t first_row, const ReadOptions& options, const OnBatch& on_batch) {
  Faults faults;
  Batch batch;
  batch.schema = selection.schema;
  for (int i = 0; i < piece.num_columns(); ++i) {
    const Field& field = selection.schema.fields[static_cast<std::size_t>(i)];
    batch.columns.push_back(to_column(*piece.column(i), field, faults));
  }
  std::vector<std::uint64_t> lines;
  std::vector<std::uint32_t> good;
  for (std::size_t row = 0; row < static_cast<std::size_t>(piece.num_rows()); ++row) {
    const auto found = faults.empty() ? faults.end() : faults.find(row);
    if (found == faults.end()) {
      lines.push_back(first_row + row);
      if (!faults.empty()) good.push_back(static_cast<std::uint32_t>(row));
      continue;
    }
    if (!options.on_bad_row) {
      return Error(ErrorId::kMalformedTable,
                   "row " + std::to_string(first_row + row) + ": " + found->second);
    }
    const auto raw = raw_row(piece, static_cast<std::int64_t>(row));
    options.on_bad_row({first_row + row, std::move(found->second), raw});
  }
  if (lines.empty()) return {};
  if (!faults.empty()) batch = batch.take(good);
  return on_batch(std::move(batch), lines);
}

Result<Selection> select_all(const std::string& path, const ::arrow::Schema& found) {
  // Rows without a column can be claimed for nothing, and a batch could not tell how many it has.
  if (found.num_fields() == 0) return Error(ErrorId::kMalformedTable, path + ": has no columns");
  Selection out;
  for (int i = 0; i < found.num_fields(); ++i) {
    const auto& field = *found.field(i);
    const auto type = natural_type(*field.type());
    if (!type) {
      return Error(ErrorId::kMalformedTable, path + ": column \"" + printable_row(field.name()) +
                                                 "\" has type " + field.type()->ToString() +
                                                 ", which is not supported");
    }
    if (!text_fault(field.name()).empty() || out.schema.find(field.name())) {
      return Error(ErrorId::kMalformedTable, path + ": two columns are named \"" +
                                                 printable_row(field.name()) +
                                                 "\", or the name is not valid text");
    }
    out.schema.fields.push_back({field.name(), *type});
    out.fields.push_back(i);
  }
  return out;
}

std::shared_ptr<::arrow::Buffer> packed_bits(std::size_t rows, const auto& is_set) {
  std::string bits((rows + 7) / 8, '\0');
  for (std::size_t i = 0; i < rows; ++i) {
    if (is_set(i)) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  return ::arrow::Buffer::FromString(std::move(bits));
}

std::shared_ptr<::arrow::ArrayData> to_array_data(const Column& column,
                                                  const std::shared_ptr<DataType>& type) {
  const std::size_t rows = column.size();
  const auto nulls = static_cast<std::int64_t>(column.null_count());
  std::vector<std::shared_ptr<::arrow::Buffer>> buffers(1);
  if (nulls > 0) buffers[0] = packed_bits(rows, [&](std::size_t i) { return !column.is_null(i); });
  switch (column.type()) {
    case Type::kInt64:
    case Type::kTimestamp:
      buffers.push_back(::arrow::Buffer::Wrap(column.ints()));
      break;
    case Type::kFloat64:
      buffers.push_back(::arrow::Buffer::Wrap(column.doubles()));
      break;
    case Type::kBool:
      buffers.push_back(packed_bits(rows, [&](std::size_t i) { return column.bools()[i] != 0; }));
      break;
    case Type::kString:
      buffers.push_back(::arrow::Buffer::Wrap(column.strings().offsets()));
      buffers.push_back(std::make_shared<::arrow::Buffer>(column.strings().bytes()));
      break;
  }
  return ::arrow::ArrayData::Make(type, static_cast<std::int64_t>(rows), std::move(buffers), nulls);
}

std::shared_ptr<DataType> arrow_type(Type type) {
  switch (type) {
    case Type::kBool:
      return ::arrow::boolean();
    case Type::kInt64:
      return ::arrow::int64();
    case Type::kFloat64:
      return ::arrow::float64();
    case Type::kString:
      return ::arrow::large_utf8();
    case Type::kTimestamp:
      break;
  }
  return ::arrow::timestamp(::arrow::TimeUnit::NANO, "UTC");
}

}  // namespace

Error from_arrow(const std::string& path, const ::arrow::Status& status) {
  const bool no_memory = status.IsOutOfMemory();
  return Error(ErrorId::kMalformedTable,
               path +
                   (no_memory ? ": the file asks for more memory than its size allows: " : ": ") +
                   printable_row(status.message()));
}

Result<Selection> select_columns(const std::string& path, const ::arrow::Schema& found,
                                 const Schema& wanted) {
  if (wanted.fields.empty()) return select_all(path, found);
  Selection out;
  out.schema = wanted;
  for (const Field& field : wanted.fields) {
    const std::vector<int> places = found.GetAllFieldIndices(field.name);
    if (places.size() != 1) {
      return Error(ErrorId::kSchemaMismatch,
                   path + ": " + (places.empty() ? "no column" : "more than one column") +
                       " is named \"" + field.name + "\"; the file has " +
                       std::to_string(found.num_fields()) + " columns");
    }
    const DataType& type = *found.field(places[0])->type();
    if (!can_become(type, field.type)) {
      return Error(ErrorId::kSchemaMismatch, path + ": column \"" + field.name + "\" has type " +
                                                 type.ToString() + ", which cannot be read as " +
                                                 std::string(type_name(field.type)));
    }
    out.fields.push_back(places[0]);
  }
  return out;
}

Column to_column(const Array& array, const Field& field, Faults& faults) {
  if (array.type_id() == ::arrow::Type::NA) return nulls_of(array.length(), field.type);
  switch (field.type) {
    case Type::kInt64:
      return ints_of(array, field, faults);
    case Type::kFloat64:
      return doubles_of(array);
    case Type::kBool:
      return bools_of(array);
    case Type::kString:
      return texts_of(array, field, faults);
    case Type::kTimestamp:
      break;
  }
  return is_text(*array.type()) ? times_of_texts(array, field, faults)
                                : times_of(array, field, faults);
}

Status deliver(const std::string& path, const ::arrow::RecordBatch& record,
               const Selection& selection, std::uint64_t first_row, const ReadOptions& options,
               const OnBatch& on_batch) {
  const auto step = static_cast<std::int64_t>(std::max<std::size_t>(options.batch_rows, 1));
  for (std::int64_t at = 0; at < record.num_rows(); at += step) {
    const auto piece = record.Slice(at, step);
    const Status status = deliver_piece(*piece, selection, first_row + static_cast<std::size_t>(at),
                                        options, on_batch);
    if (!status.ok()) return status.error().within(path);
  }
  return {};
}

std::shared_ptr<::arrow::Table> to_arrow(const Batch& batch) {
  std::vector<std::shared_ptr<::arrow::Field>> fields;
  std::vector<std::shared_ptr<Array>> arrays;
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    const auto type = arrow_type(batch.schema.fields[i].type);
    fields.push_back(::arrow::field(batch.schema.fields[i].name, type));
    arrays.push_back(::arrow::MakeArray(to_array_data(batch.columns[i], type)));
  }
  return ::arrow::Table::Make(::arrow::schema(std::move(fields)), std::move(arrays),
                              static_cast<std::int64_t>(batch.rows()));
}

Status check_row_count(const std::string& path, std::int64_t rows, std::int64_t file_bytes) {
  // Runs of one value cost almost nothing, so the bound is wide; it stops a few bytes that claim
  // the work of days.
  const std::int64_t most = 1'000'000 + std::min<std::int64_t>(file_bytes, 1LL << 40) * 20'000;
  if (rows >= 0 && rows <= most) return {};
  return Error(ErrorId::kMalformedTable, path + ": claims " + std::to_string(rows) + " rows in " +
                                             std::to_string(file_bytes) + " bytes");
}

std::int64_t memory_limit(std::int64_t file_bytes) {
  return std::min<std::int64_t>((256LL << 20) + std::min<std::int64_t>(file_bytes, 1LL << 30) * 32,
                                8LL << 30);
}

}  // namespace falaj::table
