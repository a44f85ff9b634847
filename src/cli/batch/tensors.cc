#include "cli/batch/tensors.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/json.h"

namespace falaj::cli::batch {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

// The lowest priority among the caller's own requests: those that somebody waits for go first.
constexpr std::string_view kParameters =
    R"("parameters":{"binary_data_output":true,"priority":1000000,"timeout":600000000})";
constexpr std::size_t kHeadJsonMax = 1u << 20;

enum class Kind : std::uint8_t { kBool, kUnsigned, kSigned, kFloat, kHalf, kBrain, kText };
struct Element {
  Kind kind = Kind::kFloat;
  std::size_t bytes = 4;  // 0: each has its own length.
};

Result<Element> element_of(const TensorForm& form) {
  static constexpr std::pair<std::string_view, Element> kElements[] = {
      {"BOOL", {Kind::kBool, 1}},       {"UINT8", {Kind::kUnsigned, 1}},
      {"UINT16", {Kind::kUnsigned, 2}}, {"UINT32", {Kind::kUnsigned, 4}},
      {"UINT64", {Kind::kUnsigned, 8}}, {"INT8", {Kind::kSigned, 1}},
      {"INT16", {Kind::kSigned, 2}},    {"INT32", {Kind::kSigned, 4}},
      {"INT64", {Kind::kSigned, 8}},    {"FP32", {Kind::kFloat, 4}},
      {"FP64", {Kind::kFloat, 8}},      {"FP16", {Kind::kHalf, 2}},
      {"BF16", {Kind::kBrain, 2}},      {"BYTES", {Kind::kText, 0}}};
  for (const auto& [name, element] : kElements) {
    if (name == form.datatype) return element;
  }
  return Error{Code::kInvalidArgument,
               "tensor '" + form.name + "' has the unknown type '" + form.datatype + "'"};
}

Error usage(std::string text) { return Error{ErrorId::kUsage, std::move(text)}; }
Error invalid(std::string text) { return Error{Code::kInvalidArgument, std::move(text)}; }
Error strange(std::string_view what) {
  return Error{Code::kInternal, "the server's answer is not understood: " + std::string(what)};
}

// Elements of one row: the product of all dimensions but the first; 0 when one of them is open,
// empty or the product is over kWidthMax.
std::size_t width_of(std::span<const std::int64_t> shape) {
  std::size_t width = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (shape[i] < 1 || static_cast<std::uint64_t>(shape[i]) > kWidthMax / width) return 0;
    width *= static_cast<std::size_t>(shape[i]);
  }
  return width;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.emplace_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// What the caller said of this input; empty: nothing.
Result<std::vector<std::string>> given_columns(const TensorForm& form, const Naming& naming) {
  std::vector<std::string> columns;
  for (const std::string& each : naming.given) {
    if (each.substr(0, each.find('=')) != form.name) continue;
    if (!columns.empty()) return usage("--input " + form.name + " is given twice");
    columns = split(std::string_view(each).substr(form.name.size() + 1));
  }
  return columns;
}

Status check_given(const std::vector<TensorForm>& forms, const Naming& naming) {
  for (const std::string& each : naming.given) {
    const std::size_t at = each.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == each.size()) {
      return usage("--input '" + each + "' is not NAME=COLUMN,COLUMN…");
    }
    const auto named = [&](const TensorForm& form) { return form.name == each.substr(0, at); };
    if (std::none_of(forms.begin(), forms.end(), named)) {
      return usage("the model has no input '" + each.substr(0, at) + "'");
    }
  }
  return {};
}

// A shape that is open beside its rows takes what it is given, if one dimension is to be found.
Status close_shape(TensorForm& form, std::size_t columns) {
  std::int64_t* open = nullptr;
  std::size_t known = 1;
  for (std::size_t i = 1; i < form.shape.size(); ++i) {
    if (form.shape[i] < 0 && open != nullptr) {
      return usage("input '" + form.name + "' has several open dimensions: it takes no columns");
    }
    if (form.shape[i] < 0) open = &form.shape[i];
    if (form.shape[i] > 0) known *= static_cast<std::size_t>(form.shape[i]);
  }
  if (open != nullptr && columns > 0 && columns % known == 0) {
    *open = static_cast<std::int64_t>(columns / known);
  }
  return {};
}

Status check_columns(const InputPlan& plan, const table::Schema& file, Typed typed) {
  const Element element = FALAJ_TRY(element_of(plan.form));
  if (element.kind == Kind::kHalf || element.kind == Kind::kBrain) {
    return usage("input '" + plan.form.name + "' is " + plan.form.datatype +
                 ", which files do not have");
  }
  for (const std::string& column : plan.columns) {
    const auto at = file.find(column);
    if (!at) {
      return Error{ErrorId::kSchemaMismatch,
                   "the file has no column '" + column + "', which input '" + plan.form.name +
                       "' of the model reads; name others with --input " + plan.form.name +
                       "=…, or give --key for features that the server looks up"};
    }
    const table::Type type = type_to_read(plan.form, file.fields[*at].type, typed);
    const bool text = type == table::Type::kString;
    if (text != (element.kind == Kind::kText)) {
      return Error{ErrorId::kSchemaMismatch,
                   "column '" + column + "' is " + std::string(table::type_name(type)) +
                       ", and input '" + plan.form.name + "' wants " + plan.form.datatype};
    }
  }
  return {};
}

Result<InputPlan> plan_input(TensorForm form, const Naming& naming, std::size_t inputs,
                             const table::Schema& file, Typed typed) {
  if (form.shape.empty() || (form.shape[0] != -1 && form.shape[0] != 1)) {
    return usage("input '" + form.name +
                 "' has no dimension for rows: such a model is asked tensor by tensor");
  }
  InputPlan plan;
  plan.columns = FALAJ_TRY(given_columns(form, naming));
  if (plan.columns.empty() && inputs == 1) plan.columns = naming.features;
  if (plan.columns.empty() && width_of(form.shape) == 1) plan.columns = {form.name};
  if (plan.columns.empty()) {
    return usage("which columns are input '" + form.name + "'? Say --input " + form.name +
                 "=COLUMN,COLUMN… in the model's order");
  }
  FALAJ_TRY(close_shape(form, plan.columns.size()));
  plan.form = std::move(form);
  if (width_of(plan.form.shape) != plan.columns.size()) {
    return usage("a row of input '" + plan.form.name + "' has " +
                 std::to_string(width_of(plan.form.shape)) + " elements, and " +
                 std::to_string(plan.columns.size()) + " columns are named");
  }
  FALAJ_TRY(check_columns(plan, file, typed));
  return plan;
}

template <class Number>
void put(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

Error cannot_hold(const TensorForm& form, const std::string& column, std::uint64_t line,
                  std::string_view what) {
  return invalid("line " + std::to_string(line) + ", column '" + column +
                 "': " + std::string(what) + ", and input '" + form.name + "' is " + form.datatype);
}

// A whole number of the column; false for a missing one, a fraction or what int64 cannot hold.
bool whole_at(const table::Column& column, std::size_t row, std::int64_t& whole) {
  if (column.is_null(row) || column.type() == table::Type::kString) return false;
  if (column.type() == table::Type::kBool) {
    whole = column.bools()[row];
    return true;
  }
  if (column.type() != table::Type::kFloat64) {
    whole = column.ints()[row];
    return true;
  }
  const double number = column.doubles()[row];
  // 2^63 itself is a double and no int64.
  if (!(number >= -0x1p63 && number < 0x1p63) || number != std::trunc(number)) return false;
  whole = static_cast<std::int64_t>(number);
  return true;
}

bool holds(const Element& element, std::int64_t whole) {
  if (element.kind == Kind::kBool) return whole == 0 || whole == 1;
  if (element.kind == Kind::kUnsigned) {
    return whole >= 0 && (element.bytes == 8 || whole < (std::int64_t{1} << (8 * element.bytes)));
  }
  if (element.bytes == 8) return true;
  const std::int64_t limit = std::int64_t{1} << (8 * element.bytes - 1);
  return whole >= -limit && whole < limit;
}

// Where and as what a cell goes.
struct Cell {
  const InputPlan& plan;
  const Element& element;
  const table::Column& column;
  const std::string& name;
  std::size_t row;
  std::uint64_t line;
};

Status append_cell(const Cell& cell, std::string& out) {
  const auto refuse = [&](std::string_view what) {
    return cannot_hold(cell.plan.form, cell.name, cell.line, what);
  };
  if (cell.element.kind == Kind::kFloat) {
    const double number = cell.column.number_at(cell.row);
    if (cell.element.bytes == 4) {
      put(out, static_cast<float>(number));
    } else {
      put(out, number);
    }
    return {};
  }
  if (cell.column.is_null(cell.row)) return refuse("nothing is there");
  if (cell.element.kind == Kind::kText) {
    const std::string_view text = cell.column.strings()[cell.row];
    put(out, static_cast<std::uint32_t>(text.size()));  // Cells are far below 4 GiB.
    out += text;
    return {};
  }
  std::int64_t whole = 0;
  if (!whole_at(cell.column, cell.row, whole) || !holds(cell.element, whole)) {
    return refuse("its value does not fit");
  }
  char bytes[sizeof whole];
  std::memcpy(bytes, &whole, sizeof whole);
  out.append(bytes, cell.element.bytes);
  return {};
}

double half_number(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(fraction + 1024, exponent - 25);
}

template <class Number>
Number take(std::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

double float_number(const Element& element, std::string_view bytes) {
  if (element.kind == Kind::kHalf) return half_number(take<std::uint16_t>(bytes));
  if (element.kind == Kind::kBrain) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(take<std::uint16_t>(bytes)) << 16);
  }
  return element.bytes == 4 ? take<float>(bytes) : take<double>(bytes);
}

Result<std::int64_t> whole_number(const TensorForm& form, const Element& element,
                                  std::string_view bytes) {
  std::uint64_t low = 0;
  std::memcpy(&low, bytes.data(), element.bytes);
  if (element.kind == Kind::kSigned && element.bytes < 8) {
    const std::uint64_t sign = std::uint64_t{1} << (8 * element.bytes - 1);
    low = (low ^ sign) - sign;  // Carries the sign up; unsigned, so it wraps as it should.
  }
  const auto whole = static_cast<std::int64_t>(low);
  if (element.kind == Kind::kUnsigned && whole < 0) {
    return invalid("output '" + form.name + "' has the number " + std::to_string(low) +
                   ", which is beyond int64");
  }
  return whole;
}

table::Type column_type(const Element& element) {
  switch (element.kind) {
    case Kind::kBool:
      return table::Type::kBool;
    case Kind::kUnsigned:
    case Kind::kSigned:
      return table::Type::kInt64;
    case Kind::kText:
      return table::Type::kString;
    default:
      return table::Type::kFloat64;
  }
}

// The next element; `rest` begins behind it afterwards.
Result<std::string_view> next_element(const Element& element, std::string_view& rest) {
  std::size_t bytes = element.bytes;
  if (element.kind == Kind::kText) {
    if (rest.size() < 4) return strange("a text is cut off");
    bytes = take<std::uint32_t>(rest);
    rest.remove_prefix(4);
  }
  if (rest.size() < bytes) return strange("a tensor is cut off");
  const std::string_view taken = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return taken;
}

Status push_element(const TensorForm& form, const Element& element, std::string_view bytes,
                    table::Column& column) {
  switch (column_type(element)) {
    case table::Type::kBool:
      column.push_bool(bytes[0] != 0);
      return {};
    case table::Type::kInt64:
      column.push_int(FALAJ_TRY(whole_number(form, element, bytes)));
      return {};
    case table::Type::kString:
      if (!is_valid_utf8(bytes)) return invalid("output '" + form.name + "' has bytes, no text");
      column.push_string(bytes);
      return {};
    default:
      column.push_double(float_number(element, bytes));
      return {};
  }
}

void append_shape(std::string& out, const std::vector<std::int64_t>& shape, std::size_t rows) {
  out += std::to_string(rows);
  for (std::size_t i = 1; i < shape.size(); ++i) out += "," + std::to_string(shape[i]);
}

}  // namespace

Result<std::vector<TensorForm>> tensor_forms(const Value& list) {
  if (!list.is_array()) return strange("no list of tensors");
  std::vector<TensorForm> forms;
  for (const Value& each : list.as_array()) {
    TensorForm form{each.text("name"), each.text("datatype"), {}};
    if (form.name.empty() || !each["shape"].is_array()) return strange("a tensor without shape");
    for (const Value& dim : each["shape"].as_array()) {
      if (!dim.is_int()) return strange("a shape without numbers");
      form.shape.push_back(dim.as_int());
    }
    forms.push_back(std::move(form));
  }
  return forms;
}

table::Type type_to_read(const TensorForm& form, table::Type found, Typed typed) {
  if (typed == Typed::kByFile) return found;
  if (form.datatype == "BYTES") return table::Type::kString;
  const bool guessed = found == table::Type::kString || found == table::Type::kInt64;
  if (!guessed) return found;
  if (form.datatype.starts_with("FP")) return table::Type::kFloat64;
  return form.datatype == "BOOL" ? found : table::Type::kInt64;
}

Result<std::vector<InputPlan>> plan_inputs(const std::vector<TensorForm>& forms,
                                           const Naming& naming, const table::Schema& file,
                                           Typed typed) {
  FALAJ_TRY(check_given(forms, naming));
  std::vector<InputPlan> plans;
  for (const TensorForm& form : forms) {
    plans.push_back(FALAJ_TRY(plan_input(form, naming, forms.size(), file, typed)));
  }
  return plans;
}

Together together_of(const std::vector<TensorForm>& inputs,
                     const std::vector<TensorForm>& outputs) {
  const auto open = [](const TensorForm& form) { return !form.shape.empty() && form.shape[0] < 0; };
  return std::all_of(inputs.begin(), inputs.end(), open) &&
                 std::all_of(outputs.begin(), outputs.end(), open)
             ? Together::kYes
             : Together::kNo;
}

Status append_input(const InputPlan& plan, const Rows& rows, std::string& out) {
  const Element element = FALAJ_TRY(element_of(plan.form));
  std::vector<const table::Column*> columns;
  for (const std::string& name : plan.columns) {
    columns.push_back(rows.batch.find(name));
    if (columns.back() == nullptr) return invalid("there is no column '" + name + "'");
  }
  for (std::size_t row = rows.from; row < rows.from + rows.count; ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      FALAJ_TRY(
          append_cell({plan, element, *columns[i], plan.columns[i], row, rows.lines[row]}, out));
    }
  }
  return {};
}

std::string infer_head(const std::vector<InputPlan>& plans, std::size_t rows,
                       const std::vector<std::size_t>& sizes) {
  std::string head = "{\"inputs\":[";
  for (std::size_t i = 0; i < plans.size(); ++i) {
    head += i == 0 ? "{\"name\":" : ",{\"name\":";
    append_json_string(head, plans[i].form.name);
    head += ",\"datatype\":\"" + plans[i].form.datatype + "\",\"shape\":[";
    append_shape(head, plans[i].form.shape, rows);
    head += "],\"parameters\":{\"binary_data_size\":" + std::to_string(sizes[i]) + "}}";
  }
  head += "],";
  head += kParameters;
  head += '}';
  const std::size_t bytes = rows == std::numeric_limits<std::size_t>::max() ? 0 : head_bytes(plans);
  if (head.size() < bytes) head.append(bytes - head.size(), ' ');
  return head;
}

std::size_t head_bytes(const std::vector<InputPlan>& plans) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  return infer_head(plans, kMost, std::vector<std::size_t>(plans.size(), kMost)).size();
}

Result<Answer> read_answer(std::string_view body, std::string_view json_bytes) {
  std::size_t length = 0;
  const auto [end, failure] =
      std::from_chars(json_bytes.data(), json_bytes.data() + json_bytes.size(), length);
  if (failure != std::errc() || end != json_bytes.data() + json_bytes.size() ||
      length > body.size()) {
    return strange("its head has no length");
  }
  const Result<Value> head = parse_json(body.substr(0, length), {.bytes_max = kHeadJsonMax});
  if (!head.ok()) return strange(head.error().message);
  std::string_view rest = body.substr(length);
  Answer answer{head->text("model_version"), {}};
  std::vector<TensorForm> forms = FALAJ_TRY(tensor_forms((*head)["outputs"]));
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const std::int64_t size =
        (*head)["outputs"].as_array()[i]["parameters"].integer("binary_data_size", -1);
    if (size < 0 || static_cast<std::uint64_t>(size) > rest.size()) {
      return strange("output '" + forms[i].name + "' has no bytes");
    }
    const std::string_view bytes = rest.substr(0, static_cast<std::size_t>(size));
    rest.remove_prefix(bytes.size());
    answer.outputs.push_back({std::move(forms[i]), bytes});
  }
  if (!rest.empty()) return strange("bytes are left over");
  return answer;
}

Result<std::vector<table::Field>> output_fields(const std::vector<TensorForm>& outputs,
                                                std::int64_t rows) {
  std::vector<table::Field> fields;
  for (const TensorForm& form : outputs) {
    const Element element = FALAJ_TRY(element_of(form));
    const std::size_t width = width_of(form.shape);
    if (form.shape.empty() || form.shape[0] != rows || width == 0) {
      return invalid("output '" + form.name +
                     "' has no value for each row: its answer is not a "
                     "column");
    }
    for (std::size_t i = 0; i < width; ++i) {
      fields.push_back(
          {width == 1 ? form.name : form.name + "_" + std::to_string(i), column_type(element)});
    }
  }
  return fields;
}

Status append_outputs(const std::vector<OutputTensor>& outputs, std::size_t rows,
                      std::span<table::Column> columns) {
  std::size_t first = 0;
  for (const OutputTensor& output : outputs) {
    const Element element = FALAJ_TRY(element_of(output.form));
    const std::size_t width = width_of(output.form.shape);
    if (output.form.shape.empty() || output.form.shape[0] != static_cast<std::int64_t>(rows) ||
        width == 0 || width > columns.size() - first) {
      return strange("output '" + output.form.name + "' has another shape than before");
    }
    std::string_view rest = output.bytes;
    for (std::size_t i = 0; i < rows * width; ++i) {
      table::Column& column = columns[first + i % width];
      if (column.type() != column_type(element)) return strange("an output changed its type");
      FALAJ_TRY(push_element(output.form, element, FALAJ_TRY(next_element(element, rest)), column));
    }
    if (!rest.empty()) return strange("output '" + output.form.name + "' is too long");
    first += width;
  }
  if (first != columns.size()) return strange("an output is missing");
  return {};
}

}  // namespace falaj::cli::batch
