#include "api/inference/grpc_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "onnx/wire.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace falaj::api {
namespace {

using onnx::WireField;
using onnx::WireReader;
using onnx::WireWriter;
using serving::Datatype;
using serving::Tensor;

constexpr std::size_t kTensorsMax = 1024;
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kBytes = 2;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }
Error damaged() { return invalid("the message is not what its method takes: it cannot be read"); }

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text.substr(0, 128)) + "'";
}

// Calls `use` for every field; what it does not know it ignores.
template <class Use>
Status for_each_field(std::string_view message, Use use) {
  WireReader reader(message);
  while (true) {
    const Result<std::optional<WireField>> field = reader.next();
    if (!field.ok()) return damaged();
    if (!field->has_value()) return {};
    FALAJ_TRY(use(**field));
  }
}

// ---- Parameters --------------------------------------------------------------------------------

// InferParameter and ModelRepositoryParameter: {bool 1, int64 2, string 3, double 4 or bytes 4,
// uint64 5}.
Result<Value> parameter_value(std::string_view message) {
  Value value;
  FALAJ_TRY(for_each_field(message, [&](const WireField& field) -> Status {
    if (field.type == kVarint && field.number == 1) value = field.integer != 0;
    if (field.type == kVarint && (field.number == 2 || field.number == 5)) {
      value = static_cast<std::int64_t>(field.integer);
    }
    if (field.type == kBytes && (field.number == 3 || field.number == 4)) value = field.bytes;
    if (field.type == 1 && field.number == 4) value = std::bit_cast<double>(field.integer);
    return {};
  }));
  return value;
}

// An entry of a map: {key 1, value 2}.
Status read_entry(const WireField& entry, std::string& key, Value& value) {
  if (entry.type != kBytes) return damaged();
  return for_each_field(entry.bytes, [&](const WireField& field) -> Status {
    if (field.type != kBytes) return {};
    if (field.number == 1) key = field.bytes;
    if (field.number == 2) value = FALAJ_TRY(parameter_value(field.bytes));
    return {};
  });
}

Result<std::int64_t> count_of(const std::string& key, const Value& value, std::int64_t max) {
  if (value.is_int() && value.as_int() >= 0 && value.as_int() <= max) return value.as_int();
  return invalid("parameter " + in_quotes(key) + " must be an integer from 0 to " +
                 std::to_string(max));
}

Status read_request_parameter(const WireField& entry, InferRequest& request) {
  std::string key;
  Value value;
  FALAJ_TRY(read_entry(entry, key, value));
  if (key == "timeout") {
    constexpr std::int64_t kMicrosMax = std::int64_t{24} * 3600 * 1'000'000;
    request.timeout = Duration{FALAJ_TRY(count_of(key, value, kMicrosMax)) * 1000};
  }
  if (key == "priority") {
    request.priority = static_cast<std::uint32_t>(FALAJ_TRY(count_of(key, value, kPriorityMax)));
  }
  const bool some_number = value.is_int() && value.as_int() != 0;
  const bool some_text = value.is_string() && !value.as_string().empty();
  if (key == "sequence_id" && (some_number || some_text)) return no_sequences();
  return {};
}

// ---- Tensors -----------------------------------------------------------------------------------

struct Contents {
  std::array<std::vector<std::int64_t>, 6> integers;  // By field number, 1 to 5.
  std::vector<float> floats;
  std::string doubles;
  std::string texts;  // Packed.
  std::size_t text_count = 0;
};

Status read_contents(std::string_view message, Contents& contents) {
  return for_each_field(message, [&](const WireField& field) -> Status {
    if (field.number >= 1 && field.number <= 5) {
      return onnx::append_integers(field, contents.integers[field.number]).ok() ? Status{}
                                                                                : damaged();
    }
    if (field.number == 6) {
      return onnx::append_numbers(field, contents.floats).ok() ? Status{} : damaged();
    }
    if (field.number == 7 && field.type == kBytes && field.bytes.size() % sizeof(double) == 0) {
      contents.doubles.append(field.bytes);
      return {};
    }
    if (field.number == 7 && field.type == 1) {
      contents.doubles.append(reinterpret_cast<const char*>(&field.integer), sizeof(double));
      return {};
    }
    if (field.number == 8 && field.type == kBytes) {
      ++contents.text_count;
      return serving::append_packed(contents.texts, field.bytes);
    }
    return field.number <= 8 ? damaged() : Status{};
  });
}

template <class T>
Status put_integers(const std::vector<std::int64_t>& values, Tensor& tensor) {
  tensor.bytes.reserve(values.size() * sizeof(T));
  for (const std::int64_t value : values) {
    const bool fits = std::is_same_v<T, std::uint64_t> || std::in_range<T>(value);
    if (!fits) {
      return invalid("contents of input " + in_quotes(tensor.name) + ": " + std::to_string(value) +
                     " is out of range for " + tensor.datatype);
    }
    const T narrow = static_cast<T>(value);
    tensor.bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(T));
  }
  return {};
}

Status put_contents(const Contents& contents, Datatype type, Tensor& tensor) {
  switch (type) {
    case Datatype::kBool:
      for (const std::int64_t value : contents.integers[1])
        tensor.bytes += value != 0 ? '\1' : '\0';
      return {};
    case Datatype::kInt8:
      return put_integers<std::int8_t>(contents.integers[2], tensor);
    case Datatype::kInt16:
      return put_integers<std::int16_t>(contents.integers[2], tensor);
    case Datatype::kInt32:
      return put_integers<std::int32_t>(contents.integers[2], tensor);
    case Datatype::kInt64:
      return put_integers<std::int64_t>(contents.integers[3], tensor);
    case Datatype::kUint8:
      return put_integers<std::uint8_t>(contents.integers[4], tensor);
    case Datatype::kUint16:
      return put_integers<std::uint16_t>(contents.integers[4], tensor);
    case Datatype::kUint32:
      return put_integers<std::uint32_t>(contents.integers[4], tensor);
    case Datatype::kUint64:
      return put_integers<std::uint64_t>(contents.integers[5], tensor);
    case Datatype::kFp32:
      tensor.bytes.assign(reinterpret_cast<const char*>(contents.floats.data()),
                          contents.floats.size() * sizeof(float));
      return {};
    case Datatype::kFp64:
      tensor.bytes = contents.doubles;
      return {};
    case Datatype::kBytes:
      tensor.bytes = contents.texts;
      return {};
    case Datatype::kFp16:
    case Datatype::kBf16:
      break;
  }
  return invalid("input " + in_quotes(tensor.name) + " is " + tensor.datatype +
                 ", which has no typed contents; use raw_input_contents");
}

struct GrpcInput {
  Tensor tensor;
  std::optional<std::string_view> contents;
  bool shared_memory = false;
};

Status append_shape(const WireField& field, std::vector<std::int64_t>& shape) {
  constexpr std::size_t kDimensionsMax = 100;
  if (!onnx::append_integers(field, shape).ok()) return damaged();
  return shape.size() <= kDimensionsMax ? Status{}
                                        : Status(invalid("a shape has over 100 dimensions"));
}

Result<GrpcInput> read_input(std::string_view message) {
  GrpcInput input;
  FALAJ_TRY(for_each_field(message, [&](const WireField& field) -> Status {
    if (field.number == 3) return append_shape(field, input.tensor.shape);
    if (field.number > 5) return {};
    if (field.type != kBytes) return damaged();
    if (field.number == 1) input.tensor.name = field.bytes;
    if (field.number == 2) input.tensor.datatype = field.bytes;
    if (field.number == 5) input.contents = field.bytes;
    if (field.number == 4) {
      std::string key;
      Value value;
      FALAJ_TRY(read_entry(field, key, value));
      if (key == "shared_memory_region") input.shared_memory = true;
    }
    return {};
  }));
  if (input.tensor.name.empty()) return invalid("an input has no name");
  if (input.shared_memory) {
    return invalid("input " + in_quotes(input.tensor.name) +
                   ": shared memory is not supported, send the data");
  }
  return input;
}

// From its raw bytes, or from its typed contents.
Status fill(GrpcInput& input, const std::string_view* raw) {
  Tensor& tensor = input.tensor;
  const Datatype type = FALAJ_TRY(serving::parse_datatype(tensor.datatype));
  const std::size_t elements = FALAJ_TRY(serving::element_count(tensor.shape));
  if (raw != nullptr) {
    tensor.bytes = *raw;
  } else {
    Contents contents;
    FALAJ_TRY(read_contents(input.contents.value_or(""), contents));
    FALAJ_TRY(put_contents(contents, type, tensor));
  }
  if (type == Datatype::kBytes) {
    const auto texts = serving::unpack_texts(tensor.bytes, elements);
    if (texts.ok()) return {};
    return invalid("unexpected size for input " + in_quotes(tensor.name) + ": " +
                   texts.error().message);
  }
  const std::size_t expected = elements * serving::element_bytes(type);
  if (tensor.bytes.size() == expected) return {};
  return invalid("unexpected size for input " + in_quotes(tensor.name) + ": it has " +
                 std::to_string(tensor.bytes.size()) + " bytes, its shape " +
                 serving::shape_text(tensor.shape) + " needs " + std::to_string(expected));
}

Result<RequestedOutput> read_output(std::string_view message) {
  constexpr std::int64_t kClassesMax = 1 << 20;
  RequestedOutput output;
  output.encoding = Encoding::kBinary;
  FALAJ_TRY(for_each_field(message, [&](const WireField& field) -> Status {
    if (field.number > 2) return {};
    if (field.type != kBytes) return damaged();
    if (field.number == 1) output.name = field.bytes;
    if (field.number != 2) return {};
    std::string key;
    Value value;
    FALAJ_TRY(read_entry(field, key, value));
    if (key == "classification") {
      output.classes = static_cast<std::size_t>(FALAJ_TRY(count_of(key, value, kClassesMax)));
    }
    if (key.starts_with("shared_memory")) {
      return invalid("output parameter " + in_quotes(key) +
                     " is not supported: this server has no shared memory");
    }
    return {};
  }));
  if (output.name.empty()) return invalid("an output has no name");
  return output;
}

struct InferParts {
  std::vector<GrpcInput> inputs;
  std::vector<std::string_view> raw;
};

Status read_infer_field(const WireField& field, GrpcInfer& request, InferParts& parts) {
  if (field.number > 7) return {};
  if (field.type != kBytes) return damaged();
  const bool full = parts.inputs.size() > kTensorsMax || parts.raw.size() > kTensorsMax ||
                    request.infer.outputs.size() > kTensorsMax;
  if (full) return invalid("the request has over " + std::to_string(kTensorsMax) + " tensors");
  switch (field.number) {
    case 1:
      request.model = field.bytes;
      return {};
    case 2:
      request.version = field.bytes;
      return {};
    case 3:
      if (!field.bytes.empty()) request.infer.id = std::string(field.bytes);
      return {};
    case 4:
      return read_request_parameter(field, request.infer);
    case 5:
      parts.inputs.push_back(FALAJ_TRY(read_input(field.bytes)));
      return {};
    case 6:
      request.infer.outputs.push_back(FALAJ_TRY(read_output(field.bytes)));
      return {};
    default:
      parts.raw.push_back(field.bytes);
      return {};
  }
}

// ---- Writing -----------------------------------------------------------------------------------

void add_text(WireWriter& out, std::uint32_t field, std::string_view text) {
  if (!text.empty()) out.bytes(field, text);
}

void add_count(WireWriter& out, std::uint32_t field, std::int64_t count) {
  if (count != 0) out.integer(field, count);
}

void add_texts(WireWriter& out, std::uint32_t field, const Value& list) {
  if (!list.is_array()) return;
  for (const Value& text : list.as_array()) out.bytes(field, text.as_string());
}

std::vector<std::int64_t> integers_of(const Value& list) {
  std::vector<std::int64_t> integers;
  for (const Value& each : list.as_array()) integers.push_back(each.as_int());
  return integers;
}

void add_tensors(WireWriter& out, std::uint32_t field, const Value& list) {
  for (const Value& each : list.as_array()) {
    WireWriter tensor;
    add_text(tensor, 1, each.text("name"));
    add_text(tensor, 2, each.text("datatype"));
    tensor.integers(3, integers_of(each["shape"]));
    out.bytes(field, tensor.str());
  }
}

// The numbers of DataType in the configuration.
std::int64_t type_number(std::string_view name) {
  constexpr std::array<std::string_view, 15> kNames{
      "TYPE_INVALID", "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32",
      "TYPE_UINT64",  "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",  "TYPE_INT64",
      "TYPE_FP16",    "TYPE_FP32", "TYPE_FP64",  "TYPE_STRING", "TYPE_BF16"};
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? 0 : found - kNames.begin();
}

// ModelInput has its dimensions in field 4, ModelOutput in 3.
void add_config_tensors(WireWriter& out, std::uint32_t field, std::uint32_t dims,
                        const Value& list) {
  for (const Value& each : list.as_array()) {
    WireWriter tensor;
    add_text(tensor, 1, each.text("name"));
    tensor.integer(2, type_number(each.text("data_type")));
    tensor.integers(dims, integers_of(each["dims"]));
    out.bytes(field, tensor.str());
  }
}

WireWriter duration(const Value& value) {
  WireWriter out;
  add_count(out, 1, value.integer("count"));
  add_count(out, 2, value.integer("ns"));
  return out;
}

}  // namespace

Result<GrpcInfer> parse_grpc_infer(std::string_view message) {
  GrpcInfer request;
  request.infer.outputs_default = Encoding::kBinary;
  InferParts parts;
  FALAJ_TRY(for_each_field(
      message, [&](const WireField& field) { return read_infer_field(field, request, parts); }));
  const bool raw = !parts.raw.empty();
  if (raw && parts.raw.size() != parts.inputs.size()) {
    return invalid("expected " + std::to_string(parts.inputs.size()) +
                   " raw_input_contents, one for each input, but got " +
                   std::to_string(parts.raw.size()) + " for model " + in_quotes(request.model));
  }
  for (std::size_t i = 0; i < parts.inputs.size(); ++i) {
    GrpcInput& input = parts.inputs[i];
    // Empty ones are what MLServer's converters leave behind.
    if (raw && !input.contents.value_or("").empty()) {
      return invalid("contents field must not be specified when using raw_input_contents for " +
                     in_quotes(input.tensor.name) + " for model " + in_quotes(request.model));
    }
    FALAJ_TRY(fill(input, raw ? &parts.raw[i] : nullptr));
    request.infer.inputs.push_back(std::move(input.tensor));
  }
  return request;
}

namespace {

// An entry of the map of parameters: what it holds is an InferParameter.
void add_parameter(WireWriter& out, std::string_view name, const WireWriter& value) {
  WireWriter entry;
  entry.bytes(1, name);
  entry.bytes(2, value.str());
  out.bytes(4, entry.str());
}

}  // namespace

std::string write_grpc_infer(const GrpcInfer& request, std::string_view version,
                             const std::vector<ChosenOutput>& outputs, const GrpcReplyForm& form) {
  WireWriter out;
  add_text(out, 1, request.model);
  add_text(out, 2, version);
  add_text(out, 3, request.infer.id.value_or(""));
  if (form.within == Within::kStream) {
    WireWriter truth;
    truth.integer(1, 1);
    add_parameter(out, "triton_final_response", truth);
  }
  for (const auto& [name, text] : form.parameters) {
    WireWriter value;
    value.bytes(3, text);
    add_parameter(out, name, value);
  }
  for (const ChosenOutput& output : outputs) {
    WireWriter tensor;
    add_text(tensor, 1, output.tensor.name);
    add_text(tensor, 2, output.tensor.datatype);
    tensor.integers(3, output.tensor.shape);
    out.bytes(5, tensor.str());
  }
  for (const ChosenOutput& output : outputs) out.bytes(6, output.tensor.bytes);
  return out.str();
}

std::string wrap_stream_response(std::string_view response) {
  WireWriter out;
  out.bytes(2, response);
  return out.str();
}

std::string wrap_stream_error(std::string_view text, std::string_view id) {
  WireWriter response;
  add_text(response, 3, id);
  WireWriter out;
  out.bytes(1, text);
  out.bytes(2, response.str());
  return out.str();
}

Result<GrpcQuery> parse_grpc_query(std::string_view message, QueryForm form) {
  GrpcQuery query;
  FALAJ_TRY(for_each_field(message, [&](const WireField& field) -> Status {
    if (form == QueryForm::kIndex && field.number == 2) query.ready = field.integer != 0;
    if (form == QueryForm::kNothing || form == QueryForm::kIndex || field.number > 3) return {};
    if (field.type != kBytes) return damaged();
    if (form == QueryForm::kModel && field.number == 1) query.name = field.bytes;
    if (form == QueryForm::kModel && field.number == 2) query.version = field.bytes;
    if (form == QueryForm::kModel && field.number == 3) query.id = field.bytes;
    if (form == QueryForm::kRepositoryModel && field.number == 2) query.name = field.bytes;
    if (form == QueryForm::kRepositoryModel && field.number == 3) {
      std::string key;
      Value value;
      FALAJ_TRY(read_entry(field, key, value));
      query.parameters[key] = std::move(value);
    }
    return {};
  }));
  return query;
}

std::string write_grpc_truth(bool value) {
  WireWriter out;
  add_count(out, 1, value ? 1 : 0);
  return out.str();
}

std::string write_server_metadata(const Value& document) {
  WireWriter out;
  add_text(out, 1, document.text("name"));
  add_text(out, 2, document.text("version"));
  add_texts(out, 3, document["extensions"]);
  return out.str();
}

std::string write_model_metadata(const Value& document) {
  WireWriter out;
  add_text(out, 1, document.text("name"));
  add_texts(out, 2, document["versions"]);
  add_text(out, 3, document.text("platform"));
  add_tensors(out, 4, document["inputs"]);
  add_tensors(out, 5, document["outputs"]);
  return out.str();
}

namespace {

// A map of texts.
void add_map(WireWriter& out, std::uint32_t field, const Value& map) {
  if (!map.is_object()) return;
  for (const auto& [key, value] : map.as_object()) {
    WireWriter entry;
    add_text(entry, 1, key);
    if (value.is_string()) add_text(entry, 2, value.as_string());
    out.bytes(field, entry.str());
  }
}

void add_ensemble(WireWriter& out, const Value& steps) {
  if (!steps.is_array()) return;
  WireWriter ensemble;
  for (const Value& step : steps.as_array()) {
    WireWriter each;
    add_text(each, 1, step.text("model_name"));
    each.integer(2, step.integer("model_version"));
    add_map(each, 3, step["input_map"]);
    add_map(each, 4, step["output_map"]);
    ensemble.bytes(1, each.str());
  }
  out.bytes(15, ensemble.str());
}

}  // namespace

std::string write_model_config(const Value& document) {
  WireWriter config;
  add_text(config, 1, document.text("name"));
  add_text(config, 2, document.text("platform"));
  add_count(config, 4, document.integer("max_batch_size"));
  add_config_tensors(config, 5, 4, document["input"]);
  add_config_tensors(config, 6, 3, document["output"]);
  if (document.has("dynamic_batching")) config.bytes(11, "");  // Nothing of it is to be set.
  if (document["parameters"].is_object()) {
    for (const auto& [key, value] : document["parameters"].as_object()) {
      WireWriter parameter;
      add_text(parameter, 1, value.text("string_value"));
      WireWriter entry;
      add_text(entry, 1, key);
      entry.bytes(2, parameter.str());
      config.bytes(14, entry.str());
    }
  }
  add_ensemble(config, document["ensemble_scheduling"]["step"]);
  add_text(config, 17, document.text("backend"));
  config.bytes(19, "");  // model_transaction_policy: not decoupled.
  if (document.has("response_cache")) {
    WireWriter cache;
    cache.integer(1, 1);
    config.bytes(24, cache.str());
  }
  WireWriter out;
  out.bytes(1, config.str());
  return out.str();
}

std::string write_statistics(const Value& document) {
  constexpr std::array<std::string_view, 8> kPhases{
      "success",       "fail",           "queue",     "compute_input",
      "compute_infer", "compute_output", "cache_hit", "cache_miss"};
  WireWriter out;
  for (const Value& model : document["model_stats"].as_array()) {
    WireWriter one;
    add_text(one, 1, model.text("name"));
    add_text(one, 2, model.text("version"));
    add_count(one, 3, model.integer("last_inference"));
    add_count(one, 4, model.integer("inference_count"));
    add_count(one, 5, model.integer("execution_count"));
    WireWriter stats;
    for (std::uint32_t i = 0; i < kPhases.size(); ++i) {
      stats.bytes(i + 1, duration(model["inference_stats"][kPhases[i]]).str());
    }
    one.bytes(6, stats.str());
    for (const Value& batch : model["batch_stats"].as_array()) {
      WireWriter size;
      add_count(size, 1, batch.integer("batch_size"));
      size.bytes(3, duration(batch["compute_infer"]).str());
      one.bytes(7, size.str());
    }
    out.bytes(1, one.str());
  }
  return out.str();
}

std::string write_index(const Value& document) {
  WireWriter out;
  for (const Value& model : document.as_array()) {
    WireWriter one;
    add_text(one, 1, model.text("name"));
    add_text(one, 2, model.text("version"));
    add_text(one, 3, model.text("state"));
    add_text(one, 4, model.text("reason"));
    out.bytes(1, one.str());
  }
  return out.str();
}

}  // namespace falaj::api
