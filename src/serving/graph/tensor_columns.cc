#include "serving/graph/tensor_columns.h"

#include <cstring>
#include <limits>
#include <vector>

#include "base/json.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace falaj::serving {
namespace {

Error mismatch(std::string text) { return Error(ErrorId::kTensorMismatch, std::move(text)); }

template <class Number>
Number take(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

template <class Number>
void put(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

void push_element(Datatype type, const char* bytes, table::Column& column) {
  switch (type) {
    case Datatype::kFp32:
      return column.push_double(take<float>(bytes));
    case Datatype::kFp64:
      return column.push_double(take<double>(bytes));
    case Datatype::kBool:
      return column.push_bool(*bytes != 0);
    case Datatype::kUint8:
      return column.push_int(take<std::uint8_t>(bytes));
    case Datatype::kUint16:
      return column.push_int(take<std::uint16_t>(bytes));
    case Datatype::kUint32:
      return column.push_int(take<std::uint32_t>(bytes));
    case Datatype::kInt8:
      return column.push_int(take<std::int8_t>(bytes));
    case Datatype::kInt16:
      return column.push_int(take<std::int16_t>(bytes));
    case Datatype::kInt32:
      return column.push_int(take<std::int32_t>(bytes));
    case Datatype::kInt64:
      return column.push_int(take<std::int64_t>(bytes));
    default:
      break;
  }
  const auto number = take<std::uint64_t>(bytes);
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return column.push_null();
  }
  column.push_int(static_cast<std::int64_t>(number));
}

double number_of(const table::Column& column, std::size_t row) { return column.number_at(row); }

std::int64_t whole_of(const table::Column& column, std::size_t row) {
  return column.type() == table::Type::kBool ? column.bools()[row] : column.ints()[row];
}

Status append_answer(const table::Column& column, std::size_t row, const Tensor& tensor,
                     std::string& out) {
  if (tensor.datatype == "FP32") {
    put(out, static_cast<float>(number_of(column, row)));
    return {};
  }
  if (tensor.datatype == "FP64") {
    put(out, number_of(column, row));
    return {};
  }
  if (column.is_null(row)) {
    return Error(ErrorId::kInvalidArgument, "rule '" + tensor.name + "' has no answer for row " +
                                                std::to_string(row) +
                                                "; say with coalesce() what it is then");
  }
  if (tensor.datatype == "BYTES") return append_packed(out, column.strings()[row]);
  const std::int64_t whole = whole_of(column, row);
  if (tensor.datatype == "INT64") {
    put(out, whole);
  } else if (tensor.datatype == "INT32") {
    if (whole < std::numeric_limits<std::int32_t>::min() ||
        whole > std::numeric_limits<std::int32_t>::max()) {
      return Error(ErrorId::kInvalidArgument, "rule '" + tensor.name + "' answers row " +
                                                  std::to_string(row) + " with " +
                                                  std::to_string(whole) + ", which is no INT32");
    }
    put(out, static_cast<std::int32_t>(whole));
  } else {
    out.push_back(whole != 0 ? '\1' : '\0');
  }
  return {};
}

}  // namespace

Result<table::Type> rule_type(std::string_view datatype) {
  switch (FALAJ_TRY(parse_datatype(datatype))) {
    case Datatype::kFp32:
    case Datatype::kFp64:
      return table::Type::kFloat64;
    case Datatype::kBool:
      return table::Type::kBool;
    case Datatype::kBytes:
      return table::Type::kString;
    case Datatype::kFp16:
    case Datatype::kBf16:
      return mismatch("a rule does not read " + std::string(datatype));
    default:
      return table::Type::kInt64;
  }
}

Result<std::string> rule_datatype(table::Type type, std::string_view as) {
  std::vector<std::string_view> fit;
  if (type == table::Type::kFloat64) fit = {"FP64", "FP32"};
  if (type == table::Type::kInt64) fit = {"INT64", "INT32", "FP32", "FP64"};
  if (type == table::Type::kBool) fit = {"BOOL", "FP32", "FP64", "INT32", "INT64"};
  if (type == table::Type::kString) fit = {"BYTES"};
  for (const std::string_view each : fit) {
    if (as.empty() || as == each) return std::string(each);
  }
  return mismatch("its value is " + std::string(table::type_name(type)) +
                  (as.empty() ? ", which is no tensor" : ", which cannot be " + std::string(as)));
}

Result<table::Column> column_of(const Tensor& tensor, std::size_t rows, std::size_t width,
                                std::size_t element) {
  const Datatype type = FALAJ_TRY(parse_datatype(tensor.datatype));
  table::Column column(FALAJ_TRY(rule_type(tensor.datatype)));
  column.reserve(rows);
  if (type == Datatype::kBytes) {
    const auto texts = FALAJ_TRY(unpack_texts(tensor.bytes, rows * width));
    for (std::size_t row = 0; row < rows; ++row) {
      const std::string_view text = texts[row * width + element];
      // A rule reads texts; bytes are none.
      if (is_valid_utf8(text)) {
        column.push_string(text);
      } else {
        column.push_null();
      }
    }
    return column;
  }
  const std::size_t bytes = element_bytes(type);
  if (tensor.bytes.size() != rows * width * bytes) {
    return mismatch("tensor '" + tensor.name + "' has other bytes than its shape");
  }
  for (std::size_t row = 0; row < rows; ++row) {
    push_element(type, tensor.bytes.data() + (row * width + element) * bytes, column);
  }
  return column;
}

Result<Tensor> tensor_of(const table::Column& column, const std::string& name,
                         const std::string& datatype) {
  Tensor tensor{name, datatype, {static_cast<std::int64_t>(column.size())}, {}};
  std::string bytes;
  for (std::size_t row = 0; row < column.size(); ++row) {
    FALAJ_TRY(append_answer(column, row, tensor, bytes));
  }
  tensor.bytes = std::move(bytes);
  return tensor;
}

}  // namespace falaj::serving
