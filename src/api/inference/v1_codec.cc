#include "api/inference/v1_codec.h"

#include <algorithm>
#include <span>

#include "api/inference/internal/json_data.h"
#include "base/json.h"
#include "serving/tensor_rows.h"

namespace falaj::api {
namespace {

using serving::Tensor;
using simdjson::dom::element;
using simdjson::dom::element_type;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

// The dimensions that the nesting shows, along the first of each list.
Status append_nesting(element value, std::vector<std::int64_t>& shape) {
  while (value.type() == element_type::ARRAY) {
    const simdjson::dom::array list = value.get_array().value_unsafe();
    if (shape.size() >= static_cast<std::size_t>(kNestingMax)) {
      return invalid("lists are nested over " + std::to_string(kNestingMax) + " levels");
    }
    std::size_t count = 0;  // size() stops counting at 2^24.
    for ([[maybe_unused]] const element each : list) ++count;
    shape.push_back(static_cast<std::int64_t>(count));
    if (count == 0) return {};
    value = *list.begin();
  }
  return {};
}

// Whether every list is as long as the first of its level: from dimension `dim` of the shape on, so
// never deeper than it. A total that fits would not do: [[1,2],[3,4,5],[6]].
bool is_regular(element value, std::span<const std::int64_t> shape, std::size_t dim) {
  if (value.type() != element_type::ARRAY) return dim == shape.size();
  if (dim == shape.size()) return false;
  std::int64_t count = 0;
  for (const element each : simdjson::dom::array(value.get_array().value_unsafe())) {
    if (++count > shape[dim] || !is_regular(each, shape, dim + 1)) return false;
  }
  return count == shape[dim];
}

// Appends a value whose lists follow the tensor's shape from dimension `dim` on.
Status append_value(element value, std::size_t dim, Tensor& tensor) {
  if (!is_regular(value, tensor.shape, dim)) {
    return invalid("the lists of input " + in_quotes(tensor.name) +
                   " are not all of the same length");
  }
  const serving::Datatype type = FALAJ_TRY(serving::parse_datatype(tensor.datatype));
  FALAJ_TRY(append_json_data(value, type, tensor.name, tensor.bytes));
  return {};
}

// A missing last dimension of one is added, as [3] for [-1,1].
void finish_shape(const registry::TensorSpec& spec, Tensor& tensor) {
  while (tensor.shape.size() < spec.shape.size() && spec.shape[tensor.shape.size()] == 1) {
    tensor.shape.push_back(1);
  }
}

Result<Tensor> column(element value, const registry::TensorSpec& spec) {
  Tensor tensor{spec.name, spec.datatype, {}, {}};
  FALAJ_TRY(append_nesting(value, tensor.shape));
  FALAJ_TRY(append_value(value, 0, tensor));
  finish_shape(spec, tensor);
  return tensor;
}

// The value of one input in one row: the member of that name, or the row itself.
Result<element> cell(element row, const registry::TensorSpec& spec, std::size_t inputs) {
  if (row.type() != element_type::OBJECT) {
    if (inputs == 1) return row;
    return invalid("each of 'instances' must be an object with the model's " +
                   std::to_string(inputs) + " inputs");
  }
  element value;
  if (row.get_object().value_unsafe().at_key(spec.name).get(value) != simdjson::SUCCESS) {
    return invalid("one of 'instances' has no input " + in_quotes(spec.name));
  }
  return value;
}

Result<Tensor> rows_of_input(const simdjson::dom::array& rows, const registry::TensorSpec& spec,
                             std::size_t inputs) {
  Tensor tensor{spec.name, spec.datatype, {0}, {}};
  for (const element row : rows) {
    const element value = FALAJ_TRY(cell(row, spec, inputs));
    if (tensor.shape[0] == 0) FALAJ_TRY(append_nesting(value, tensor.shape));
    FALAJ_TRY(append_value(value, 1, tensor));
    ++tensor.shape[0];
  }
  finish_shape(spec, tensor);
  return tensor;
}

Status read_rows(element value, const registry::Signature& signature, InferRequest& request) {
  simdjson::dom::array rows;
  if (value.get_array().get(rows) != simdjson::SUCCESS || rows.begin() == rows.end()) {
    return invalid("member 'instances' must be a list with at least one row");
  }
  for (const registry::TensorSpec& spec : signature.inputs) {
    request.inputs.push_back(FALAJ_TRY(rows_of_input(rows, spec, signature.inputs.size())));
  }
  return {};
}

Status read_columns(element value, const registry::Signature& signature, InferRequest& request) {
  simdjson::dom::object named;
  const bool by_name = value.get_object().get(named) == simdjson::SUCCESS;
  if (!by_name && signature.inputs.size() != 1) {
    return invalid("member 'inputs' must be an object with the model's inputs by name");
  }
  for (const registry::TensorSpec& spec : signature.inputs) {
    element of_input = value;
    if (by_name && named.at_key(spec.name).get(of_input) != simdjson::SUCCESS) {
      return invalid("member 'inputs' has no " + in_quotes(spec.name));
    }
    request.inputs.push_back(FALAJ_TRY(column(of_input, spec)));
  }
  return {};
}

Result<V1Request> read_body(const simdjson::dom::object& object,
                            const registry::Signature& signature) {
  V1Request request;
  element instances;
  element inputs;
  const bool rows = object.at_key("instances").get(instances) == simdjson::SUCCESS;
  const bool columns = object.at_key("inputs").get(inputs) == simdjson::SUCCESS;
  if (rows == columns) return invalid("give 'instances' (rows) or 'inputs' (columns), one of them");
  request.form = rows ? V1Form::kRows : V1Form::kColumns;
  FALAJ_TRY(rows ? read_rows(instances, signature, request.infer)
                 : read_columns(inputs, signature, request.infer));
  return request;
}

Status append_named(std::string& out, const std::vector<Tensor>& tensors) {
  out += '{';
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, tensors[i].name);
    out += ':';
    FALAJ_TRY(append_json_list(out, tensors[i], ListForm::kNested));
  }
  out += '}';
  return {};
}

// Row i of every output, without its dimension of one.
Result<std::vector<Tensor>> row_of(const std::vector<Tensor>& outputs, std::size_t i) {
  std::vector<Tensor> row;
  for (const Tensor& output : outputs) {
    Tensor part = FALAJ_TRY(serving::take_rows(output, i, 1));
    part.shape.erase(part.shape.begin());
    row.push_back(std::move(part));
  }
  return row;
}

Status append_rows(std::string& out, const std::vector<Tensor>& outputs) {
  const auto count = [](const Tensor& t) { return t.shape.empty() ? -1 : t.shape[0]; };
  const std::int64_t rows = outputs.empty() ? 0 : count(outputs[0]);
  const bool alike = std::all_of(outputs.begin(), outputs.end(),
                                 [&](const Tensor& t) { return count(t) == rows && rows >= 0; });
  if (!alike) {
    return invalid("the model's outputs are not one a row; ask with 'inputs' (columns) instead");
  }
  out += '[';
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i > 0) out += ',';
    const std::vector<Tensor> row = FALAJ_TRY(row_of(outputs, static_cast<std::size_t>(i)));
    FALAJ_TRY(append_named(out, row));
  }
  out += ']';
  return {};
}

}  // namespace

Result<V1Request> parse_v1(std::string_view body, const registry::Signature& signature) {
  const simdjson::dom::object object = FALAJ_TRY(parse_object(body));
  Result<V1Request> request = read_body(object, signature);
  forget_object();
  return request;
}

Result<std::string> write_v1(V1Form form, const std::vector<Tensor>& outputs) {
  std::string out = form == V1Form::kRows ? R"({"predictions":)" : R"({"outputs":)";
  if (outputs.size() == 1) {
    FALAJ_TRY(append_json_list(out, outputs[0], ListForm::kNested));
  } else if (form == V1Form::kRows) {
    FALAJ_TRY(append_rows(out, outputs));
  } else {
    FALAJ_TRY(append_named(out, outputs));
  }
  out += '}';
  return out;
}

}  // namespace falaj::api
