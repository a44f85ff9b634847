#include "api/inference/infer_codec.h"
#include "api/inference/internal/json_data.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace falaj::api {
namespace {

using serving::Datatype;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::size_t kTensorsMax = 1024;
constexpr std::int64_t kTimeoutMicrosMax = std::int64_t{24} * 3600 * 1'000'000;
constexpr std::uint64_t kClassesMax = 1 << 20;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

// The members of one input that decide where its data is.
struct InputMembers {
  std::optional<element> data;
  std::optional<std::uint64_t> binary_bytes;
  bool shared_memory = false;
};

Result<std::string> text_member(element value, std::string_view key) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) {
    return invalid("member " + in_quotes(key) + " must be a text");
  }
  return std::string(text);
}

Result<std::vector<std::int64_t>> shape_member(element value) {
  simdjson::dom::array dims;
  if (value.get_array().get(dims) != simdjson::SUCCESS) {
    return invalid("member 'shape' must be a list of integers");
  }
  std::vector<std::int64_t> shape;
  for (const element dim : dims) {
    std::int64_t size = 0;
    if (dim.get_int64().get(size) != simdjson::SUCCESS || size < 0) {
      return invalid("member 'shape' must be a list of integers, none negative");
    }
    if (shape.size() == static_cast<std::size_t>(kNestingMax)) {
      return invalid("member 'shape' has over " + std::to_string(kNestingMax) + " dimensions");
    }
    shape.push_back(size);
  }
  return shape;
}

Status read_input_parameters(element value, InputMembers& members) {
  simdjson::dom::object parameters;
  if (value.get_object().get(parameters) != simdjson::SUCCESS) {
    return invalid("member 'parameters' of an input must be an object");
  }
  for (const auto [key, parameter] : parameters) {
    if (key == "binary_data_size") {
      std::uint64_t bytes = 0;
      if (parameter.get_uint64().get(bytes) != simdjson::SUCCESS) {
        return invalid("parameter 'binary_data_size' must be an integer, not negative");
      }
      members.binary_bytes = bytes;
    }
    if (key == "shared_memory_region") members.shared_memory = true;
  }
  return {};
}

// One of three places holds the data; the message lists which were given.
Status check_one_source(const std::string& input, const InputMembers& members) {
  std::string given;
  if (members.data.has_value()) given += " 'data'";
  if (members.binary_bytes.has_value()) given += " 'binary_data_size'";
  if (members.shared_memory) given += " 'shared_memory_region'";
  if (members.shared_memory && given == " 'shared_memory_region'") {
    return invalid("input " + in_quotes(input) + ": shared memory is not supported, send the data");
  }
  const int count =
      (members.data ? 1 : 0) + (members.binary_bytes ? 1 : 0) + (members.shared_memory ? 1 : 0);
  if (count == 1) return {};
  return invalid("input " + in_quotes(input) + " must have exactly one of 'data', " +
                 "'binary_data_size' and 'shared_memory_region', it has" +
                 (given.empty() ? " none" : given));
}

Status fill_from_json(element data, Datatype type, std::size_t elements, serving::Tensor& tensor) {
  if (type == Datatype::kFp16 || type == Datatype::kBf16) {
    return invalid("input " + in_quotes(tensor.name) + " is " + tensor.datatype +
                   ", which JSON cannot carry; use the binary data format");
  }
  if (data.type() != element_type::ARRAY) {
    return invalid("data of input " + in_quotes(tensor.name) + " must be a list");
  }
  const std::size_t count = FALAJ_TRY(append_json_data(data, type, tensor.name, tensor.bytes));
  if (count != elements) {
    return invalid("data of input " + in_quotes(tensor.name) + " has " + std::to_string(count) +
                   " elements, its shape " + serving::shape_text(tensor.shape) + " needs " +
                   std::to_string(elements));
  }
  return {};
}

// Takes the next bytes of what follows the JSON.
Status fill_from_binary(std::uint64_t bytes, Datatype type, std::size_t elements,
                        std::string_view& binary, serving::Tensor& tensor) {
  const std::size_t expected = elements * serving::element_bytes(type);
  if (type != Datatype::kBytes && bytes != expected) {
    return invalid("unexpected size for input " + in_quotes(tensor.name) +
                   ": 'binary_data_size' is " + std::to_string(bytes) + ", its shape " +
                   serving::shape_text(tensor.shape) + " needs " + std::to_string(expected) +
                   " bytes");
  }
  if (bytes > binary.size()) {
    return invalid("unexpected size for input " + in_quotes(tensor.name) + ": it announces " +
                   std::to_string(bytes) + " bytes, the body has " + std::to_string(binary.size()) +
                   " left");
  }
  tensor.bytes.assign(binary.substr(0, bytes));
  binary.remove_prefix(bytes);
  if (type != Datatype::kBytes) return {};
  const auto texts = serving::unpack_texts(tensor.bytes, elements);
  if (texts.ok()) return {};
  return invalid("unexpected size for input " + in_quotes(tensor.name) + ": " +
                 texts.error().message);
}

Result<serving::Tensor> read_input(element value, std::string_view& binary) {
  simdjson::dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return invalid("each of 'inputs' must be an object");
  }
  serving::Tensor tensor;
  InputMembers members;
  bool shaped = false;
  for (const auto [key, member] : object) {
    if (key == "name") tensor.name = FALAJ_TRY(text_member(member, key));
    if (key == "datatype") tensor.datatype = FALAJ_TRY(text_member(member, key));
    if (key == "parameters") FALAJ_TRY(read_input_parameters(member, members));
    if (key == "data") members.data = member;
    if (key == "shape") {
      tensor.shape = FALAJ_TRY(shape_member(member));
      shaped = true;
    }
  }
  if (tensor.name.empty()) return invalid("an input has no 'name'");
  if (!shaped) return invalid("input " + in_quotes(tensor.name) + " has no 'shape'");
  if (tensor.datatype.empty())
    return invalid("input " + in_quotes(tensor.name) + " has no 'datatype'");
  FALAJ_TRY(check_one_source(tensor.name, members));

  const Datatype type = FALAJ_TRY(serving::parse_datatype(tensor.datatype));
  const std::size_t elements = FALAJ_TRY(serving::element_count(tensor.shape));
  if (members.data) {
    FALAJ_TRY(fill_from_json(*members.data, type, elements, tensor));
  } else {
    FALAJ_TRY(fill_from_binary(*members.binary_bytes, type, elements, binary, tensor));
  }
  return tensor;
}

Result<Encoding> binary_flag(element value, std::string_view key) {
  bool wanted = false;
  if (value.get_bool().get(wanted) != simdjson::SUCCESS) {
    return invalid("parameter " + in_quotes(key) + " must be true or false");
  }
  return wanted ? Encoding::kBinary : Encoding::kJson;
}

struct ParsedOutput {
  std::string name;
  std::optional<Encoding> encoding;
  std::size_t classes = 0;
};

Result<std::uint64_t> count_parameter(element value, std::string_view key, std::uint64_t max) {
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) != simdjson::SUCCESS || number > max) {
    return invalid("parameter " + in_quotes(key) + " must be an integer from 0 to " +
                   std::to_string(max));
  }
  return number;
}

Result<ParsedOutput> read_output(element value) {
  simdjson::dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return invalid("each of 'outputs' must be an object");
  }
  ParsedOutput output;
  for (const auto [key, member] : object) {
    if (key == "name") output.name = FALAJ_TRY(text_member(member, key));
    if (key != "parameters") continue;
    simdjson::dom::object parameters;
    if (member.get_object().get(parameters) != simdjson::SUCCESS) {
      return invalid("member 'parameters' of an output must be an object");
    }
    for (const auto [name, parameter] : parameters) {
      if (name == "binary_data") output.encoding = FALAJ_TRY(binary_flag(parameter, name));
      if (name == "classification") {
        output.classes = FALAJ_TRY(count_parameter(parameter, name, kClassesMax));
      }
      if (name.starts_with("shared_memory")) {
        return invalid("output parameter " + in_quotes(name) +
                       " is not supported: this server has no shared memory");
      }
    }
  }
  if (output.name.empty()) return invalid("an output has no 'name'");
  return output;
}

// The reserved ones; all others are the model's, and none of ours reads them.
Status read_parameter(std::string_view key, element value, InferRequest& request) {
  if (key == "binary_data_output") request.outputs_default = FALAJ_TRY(binary_flag(value, key));
  if (key == "timeout") {
    const auto micros = FALAJ_TRY(count_parameter(value, key, kTimeoutMicrosMax));
    request.timeout = Duration{static_cast<std::int64_t>(micros) * 1000};
  }
  if (key == "priority") {
    const auto priority = FALAJ_TRY(count_parameter(value, key, kPriorityMax));
    request.priority = static_cast<std::uint32_t>(priority);
  }
  if (key == "sequence_id") {
    std::uint64_t number = 0;
    std::string_view text;
    const bool none = value.get_uint64().get(number) == simdjson::SUCCESS
                          ? number == 0
                          : value.get_string().get(text) == simdjson::SUCCESS && text.empty();
    if (!none) return no_sequences();
  }
  return {};
}

Status read_parameters(element value, InferRequest& request) {
  simdjson::dom::object parameters;
  if (value.get_object().get(parameters) != simdjson::SUCCESS) {
    return invalid("member 'parameters' must be an object");
  }
  for (const auto [key, parameter] : parameters) {
    if (key.starts_with("triton_")) {
      return invalid("parameter " + in_quotes(key) + " is reserved");
    }
    const element_type type = parameter.type();
    if (type == element_type::ARRAY || type == element_type::OBJECT ||
        type == element_type::NULL_VALUE) {
      return invalid("parameter " + in_quotes(key) + " must be a text, a number or a truth value");
    }
    FALAJ_TRY(read_parameter(key, parameter, request));
  }
  return {};
}

Result<simdjson::dom::array> list_member(element value, std::string_view key) {
  simdjson::dom::array list;
  if (value.get_array().get(list) != simdjson::SUCCESS) {
    return invalid("member " + in_quotes(key) + " must be a list");
  }
  if (list.size() > kTensorsMax) {
    return invalid("member " + in_quotes(key) + " has over " + std::to_string(kTensorsMax) +
                   " tensors");
  }
  return list;
}

Result<InferRequest> read_request(const simdjson::dom::object& object, std::string_view& binary) {
  InferRequest request;
  std::optional<simdjson::dom::array> inputs;
  std::optional<simdjson::dom::array> outputs;
  for (const auto [key, member] : object) {
    if (key == "id") request.id = FALAJ_TRY(text_member(member, key));
    if (key == "parameters") FALAJ_TRY(read_parameters(member, request));
    if (key == "inputs") inputs = FALAJ_TRY(list_member(member, key));
    if (key == "outputs") outputs = FALAJ_TRY(list_member(member, key));
  }
  if (!inputs.has_value()) return invalid("the request has no 'inputs'");
  for (const element input : *inputs) {
    request.inputs.push_back(FALAJ_TRY(read_input(input, binary)));
  }
  if (outputs.has_value()) {
    // After the parameters, wherever those stood: they hold the default.
    for (const element output : *outputs) {
      const ParsedOutput parsed = FALAJ_TRY(read_output(output));
      request.outputs.push_back(
          {parsed.name, parsed.encoding.value_or(request.outputs_default), parsed.classes});
    }
  }
  return request;
}

// Raw BYTES: the body is the one element.
Result<InferRequest> raw_text(std::string_view body, const registry::TensorSpec& spec) {
  InferRequest request;
  serving::Tensor& tensor = request.inputs.emplace_back();
  tensor.name = spec.name;
  tensor.datatype = spec.datatype;
  tensor.shape = spec.shape;
  for (std::int64_t& dim : tensor.shape) dim = dim < 0 ? 1 : dim;
  if (FALAJ_TRY(serving::element_count(tensor.shape)) != 1) {
    return invalid("raw input of BYTES is one element, input " + in_quotes(spec.name) +
                   " has shape " + serving::shape_text(spec.shape));
  }
  FALAJ_TRY(serving::append_packed(tensor.bytes, body));
  request.outputs_default = Encoding::kBinary;
  return request;
}

}  // namespace

Error no_sequences() {
  return Error(ErrorId::kUnimplemented,
               "parameter 'sequence_id': models here keep no state between requests");
}

Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> json_bytes) {
  if (json_bytes.value_or(0) > body.size()) {
    return invalid("Inference-Header-Content-Length is " + std::to_string(*json_bytes) +
                   ", the body has " + std::to_string(body.size()) + " bytes");
  }
  const std::string_view json = body.substr(0, json_bytes.value_or(body.size()));
  std::string_view binary = body.substr(json.size());
  const simdjson::dom::object object = FALAJ_TRY(parse_object(json));
  Result<InferRequest> request = read_request(object, binary);
  forget_object();
  if (request.ok() && !binary.empty()) {
    return invalid("unexpected additional input data for model: " + std::to_string(binary.size()) +
                   " bytes after the last tensor");
  }
  return request;
}

Result<InferRequest> parse_raw_infer(std::string_view body, const registry::Signature& signature) {
  if (signature.inputs.size() != 1) {
    return invalid("raw input needs a model with one input, this one has " +
                   std::to_string(signature.inputs.size()));
  }
  const registry::TensorSpec& spec = signature.inputs[0];
  const Datatype type = FALAJ_TRY(serving::parse_datatype(spec.datatype));
  const std::size_t width = serving::element_bytes(type);
  if (type == Datatype::kBytes) return raw_text(body, spec);
  // The batch is one; one other dimension may be open and follows from the size.
  InferRequest request;
  serving::Tensor& tensor = request.inputs.emplace_back();
  tensor.name = spec.name;
  tensor.datatype = spec.datatype;
  tensor.shape = spec.shape;
  if (!tensor.shape.empty() && tensor.shape[0] < 0) tensor.shape[0] = 1;
  std::int64_t* open = nullptr;
  std::size_t known = 1;
  for (std::int64_t& dim : tensor.shape) {
    if (dim >= 0) {
      known *= static_cast<std::size_t>(dim);
      continue;
    }
    if (open != nullptr) {
      return invalid("raw input needs at most one open dimension, input " + in_quotes(spec.name) +
                     " has shape " + serving::shape_text(spec.shape));
    }
    open = &dim;
  }
  if (open != nullptr && known > 0) *open = static_cast<std::int64_t>(body.size() / width / known);
  const std::size_t expected = FALAJ_TRY(serving::element_count(tensor.shape)) * width;
  if (expected != body.size()) {
    return invalid("unexpected size for input " + in_quotes(spec.name) + ": raw input has " +
                   std::to_string(body.size()) + " bytes, shape " +
                   serving::shape_text(tensor.shape) + " needs " + std::to_string(expected));
  }
  tensor.bytes.assign(body);
  request.outputs_default = Encoding::kBinary;
  return request;
}

}  // namespace falaj::api
