#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "api/inference/infer_codec.h"
#include "serving/datatypes.h"

namespace falaj::api {
namespace {

using serving::Datatype;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr int kNestingMax = 100;
constexpr std::size_t kTensorsMax = 1024;
constexpr std::size_t kKeptBytesMax = 1 << 20;  // A parser grown past this is not kept.

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text.substr(0, 128)) + "'";
}

// Appends JSON elements to a tensor's bytes. One instance a tensor.
class Flattener {
 public:
  Flattener(Datatype type, std::string_view input, std::string& out)
      : type_(type), input_(input), out_(out) {}

  Status append(element value, int depth) {
    if (value.type() != element_type::ARRAY) {
      ++count_;
      return scalar(value);
    }
    if (depth >= kNestingMax) {
      return invalid("data of input " + in_quotes(input_) + " is nested over " +
                     std::to_string(kNestingMax) + " levels");
    }
    for (const element child : simdjson::dom::array(value.get_array().value_unsafe())) {
      FALAJ_TRY(append(child, depth + 1));
    }
    return {};
  }
  std::size_t count() const { return count_; }

 private:
  template <class T>
  void put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  Error wrong(std::string_view expected) const {
    return invalid("data of input " + in_quotes(input_) + ": element " +
                   std::to_string(count_ - 1) + " must be " + std::string(expected) + " for " +
                   std::string(serving::datatype_name(type_)));
  }

  Status scalar(element value) {
    switch (type_) {
      case Datatype::kBool:
        if (value.type() != element_type::BOOL) return wrong("true or false");
        put(static_cast<std::uint8_t>(value.get_bool().value_unsafe() ? 1 : 0));
        return {};
      case Datatype::kUint8:
        return integer<std::uint8_t>(value);
      case Datatype::kUint16:
        return integer<std::uint16_t>(value);
      case Datatype::kUint32:
        return integer<std::uint32_t>(value);
      case Datatype::kUint64:
        return integer<std::uint64_t>(value);
      case Datatype::kInt8:
        return integer<std::int8_t>(value);
      case Datatype::kInt16:
        return integer<std::int16_t>(value);
      case Datatype::kInt32:
        return integer<std::int32_t>(value);
      case Datatype::kInt64:
        return integer<std::int64_t>(value);
      case Datatype::kFp32:
        return real<float>(value);
      case Datatype::kFp64:
        return real<double>(value);
      case Datatype::kFp16:
      case Datatype::kBf16:
      case Datatype::kBytes:
        break;
    }
    return wrong("sent in the binary data format");
  }

  template <class T>
  Status integer(element value) {
    if (value.type() == element_type::INT64) {
      const std::int64_t number = value.get_int64().value_unsafe();
      if (!std::in_range<T>(number)) return wrong("in range");
      put(static_cast<T>(number));
      return {};
    }
    if (value.type() == element_type::UINT64) {
      const std::uint64_t number = value.get_uint64().value_unsafe();
      if (!std::in_range<T>(number)) return wrong("in range");
      put(static_cast<T>(number));
      return {};
    }
    return wrong("an integer");
  }

  template <class T>
  Status real(element value) {
    if (value.type() == element_type::NULL_VALUE) {
      put(std::numeric_limits<T>::quiet_NaN());
      return {};
    }
    double number = 0;
    if (value.type() == element_type::DOUBLE) {
      number = value.get_double().value_unsafe();
    } else if (value.type() == element_type::INT64) {
      number = static_cast<double>(value.get_int64().value_unsafe());
    } else if (value.type() == element_type::UINT64) {
      number = static_cast<double>(value.get_uint64().value_unsafe());
    } else {
      return wrong("a number or null");
    }
    const T narrow = static_cast<T>(number);
    if (!std::isfinite(narrow)) return wrong("in range");
    put(narrow);
    return {};
  }

  Datatype type_;
  std::string_view input_;
  std::string& out_;
  std::size_t count_ = 0;
};

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
  Flattener flattener(type, tensor.name, tensor.bytes);
  FALAJ_TRY(flattener.append(data, 0));
  if (flattener.count() != elements) {
    return invalid("data of input " + in_quotes(tensor.name) + " has " +
                   std::to_string(flattener.count()) + " elements, its shape " +
                   serving::shape_text(tensor.shape) + " needs " + std::to_string(elements));
  }
  return {};
}

// Takes the next bytes of what follows the JSON.
Status fill_from_binary(std::uint64_t bytes, std::size_t expected, std::string_view& binary,
                        serving::Tensor& tensor) {
  if (bytes != expected) {
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
  tensor.bytes.assign(binary.substr(0, expected));
  binary.remove_prefix(expected);
  return {};
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
  if (type == Datatype::kBytes) {
    return invalid("input " + in_quotes(tensor.name) + " is BYTES, which no model here takes");
  }
  const std::size_t elements = FALAJ_TRY(serving::element_count(tensor.shape));
  if (members.data) {
    FALAJ_TRY(fill_from_json(*members.data, type, elements, tensor));
  } else {
    FALAJ_TRY(fill_from_binary(*members.binary_bytes, elements * serving::element_bytes(type),
                               binary, tensor));
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
};

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
      if (name == "classification" || name.starts_with("shared_memory")) {
        return invalid("output parameter " + in_quotes(name) + " is not supported");
      }
    }
  }
  if (output.name.empty()) return invalid("an output has no 'name'");
  return output;
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
    if (key == "binary_data_output") {
      request.outputs_default = FALAJ_TRY(binary_flag(parameter, key));
    }
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
      request.outputs.push_back({parsed.name, parsed.encoding.value_or(request.outputs_default)});
    }
  }
  return request;
}

}  // namespace

Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> json_bytes) {
  if (json_bytes.value_or(0) > body.size()) {
    return invalid("Inference-Header-Content-Length is " + std::to_string(*json_bytes) +
                   ", the body has " + std::to_string(body.size()) + " bytes");
  }
  const std::string_view json = body.substr(0, json_bytes.value_or(body.size()));
  std::string_view binary = body.substr(json.size());
  // Keeps its buffers: a parser a thread costs no allocation after the first request.
  thread_local simdjson::dom::parser parser;
  simdjson::dom::element document;
  // The parser copies the text once, to read past its end safely.
  const auto failure =
      parser.parse(reinterpret_cast<const std::uint8_t*>(json.data()), json.size(), true)
          .get(document);
  if (failure != simdjson::SUCCESS) {
    return Error(ErrorId::kMalformedJson, std::string("failed to parse the request JSON buffer: ") +
                                              simdjson::error_message(failure));
  }
  simdjson::dom::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    return invalid("the request must be a JSON object");
  }
  Result<InferRequest> request = read_request(object, binary);
  if (json.size() > kKeptBytesMax) parser = simdjson::dom::parser();
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
  if (width == 0) return invalid("raw input cannot be BYTES");
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
