#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "api/inference/infer_codec.h"
#include "base/json.h"
#include "serving/datatypes.h"

namespace falaj::api {
namespace {

using serving::Datatype;
using serving::Tensor;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

template <class T>
void append_number(std::string& out, T number) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, end);
}

// The flat list of a tensor's elements, each in the shortest form that reads back to the same bits.
template <class T>
Status append_elements(std::string& out, const Tensor& tensor) {
  const std::size_t count = tensor.bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    if (i > 0) out += ',';
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(element)) {
        return invalid("output '" + tensor.name + "' has a value that JSON cannot carry (NaN or " +
                       "infinity) at element " + std::to_string(i) +
                       "; ask for it with binary_data");
      }
    }
    append_number(out, element);
  }
  return {};
}

Status append_data(std::string& out, const Tensor& tensor) {
  switch (FALAJ_TRY(serving::parse_datatype(tensor.datatype))) {
    case Datatype::kBool:
      for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
        if (i > 0) out += ',';
        out += tensor.bytes[i] != 0 ? "true" : "false";
      }
      return {};
    case Datatype::kUint8:
      return append_elements<std::uint8_t>(out, tensor);
    case Datatype::kUint16:
      return append_elements<std::uint16_t>(out, tensor);
    case Datatype::kUint32:
      return append_elements<std::uint32_t>(out, tensor);
    case Datatype::kUint64:
      return append_elements<std::uint64_t>(out, tensor);
    case Datatype::kInt8:
      return append_elements<std::int8_t>(out, tensor);
    case Datatype::kInt16:
      return append_elements<std::int16_t>(out, tensor);
    case Datatype::kInt32:
      return append_elements<std::int32_t>(out, tensor);
    case Datatype::kInt64:
      return append_elements<std::int64_t>(out, tensor);
    case Datatype::kFp32:
      return append_elements<float>(out, tensor);
    case Datatype::kFp64:
      return append_elements<double>(out, tensor);
    case Datatype::kFp16:
    case Datatype::kBf16:
    case Datatype::kBytes:
      break;
  }
  return invalid("output '" + tensor.name + "' is " + tensor.datatype +
                 ", which JSON cannot carry; ask for it with binary_data");
}

struct Chosen {
  const Tensor* tensor = nullptr;
  Encoding encoding = Encoding::kJson;
};

Result<std::vector<Chosen>> choose(const InferReply& reply) {
  std::vector<Chosen> chosen;
  const InferRequest& request = *reply.request;
  if (request.outputs.empty()) {
    for (const Tensor& tensor : reply.outputs) chosen.push_back({&tensor, request.outputs_default});
    return chosen;
  }
  for (const RequestedOutput& wanted : request.outputs) {
    const auto found = std::find_if(reply.outputs.begin(), reply.outputs.end(),
                                    [&](const Tensor& t) { return t.name == wanted.name; });
    if (found == reply.outputs.end()) {
      return invalid("unexpected inference output '" + wanted.name + "' for model '" +
                     std::string(reply.model) + "'");
    }
    chosen.push_back({&*found, wanted.encoding});
  }
  return chosen;
}

Status append_output(std::string& out, const Chosen& chosen) {
  const Tensor& tensor = *chosen.tensor;
  out += R"({"name":)";
  append_json_string(out, tensor.name);
  out += R"(,"datatype":)";
  append_json_string(out, tensor.datatype);
  out += R"(,"shape":)" + serving::shape_text(tensor.shape);
  if (chosen.encoding == Encoding::kBinary) {
    out += R"(,"parameters":{"binary_data_size":)" + std::to_string(tensor.bytes.size()) + "}}";
    return {};
  }
  out += R"(,"data":[)";
  FALAJ_TRY(append_data(out, tensor));
  out += "]}";
  return {};
}

bool fits(const std::vector<std::int64_t>& expected, const std::vector<std::int64_t>& got) {
  return std::equal(expected.begin(), expected.end(), got.begin(), got.end(),
                    [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; });
}

}  // namespace

Status check_inputs(const InferRequest& request, const registry::Signature& signature,
                    std::string_view model) {
  const auto mismatch = [](std::string text) {
    return Error(ErrorId::kTensorMismatch, std::move(text));
  };
  const std::string of_model = " for model '" + std::string(model) + "'";
  if (request.inputs.size() != signature.inputs.size()) {
    return mismatch("expected " + std::to_string(signature.inputs.size()) + " inputs but got " +
                    std::to_string(request.inputs.size()) + " inputs" + of_model);
  }
  for (const Tensor& tensor : request.inputs) {
    const auto spec =
        std::find_if(signature.inputs.begin(), signature.inputs.end(),
                     [&](const registry::TensorSpec& s) { return s.name == tensor.name; });
    if (spec == signature.inputs.end()) {
      return mismatch("unexpected inference input '" + tensor.name + "'" + of_model);
    }
    if (spec->datatype != tensor.datatype) {
      return mismatch("inference input '" + tensor.name + "' data-type is '" + tensor.datatype +
                      "', but model '" + std::string(model) + "' expects '" + spec->datatype + "'");
    }
    if (!fits(spec->shape, tensor.shape)) {
      return mismatch("unexpected shape for input '" + tensor.name + "'" + of_model +
                      ". Expected " + serving::shape_text(spec->shape) + ", got " +
                      serving::shape_text(tensor.shape));
    }
  }
  return {};
}

Result<EncodedReply> write_infer_reply(const InferReply& reply) {
  const std::vector<Chosen> chosen = FALAJ_TRY(choose(reply));
  EncodedReply encoded;
  std::string& out = encoded.body;
  out += '{';
  if (reply.request->id.has_value()) {
    out += R"("id":)";
    append_json_string(out, *reply.request->id);
    out += ',';
  }
  out += R"("model_name":)";
  append_json_string(out, reply.model);
  out += R"(,"model_version":)";
  append_json_string(out, reply.version);
  out += R"(,"outputs":[)";
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (i > 0) out += ',';
    FALAJ_TRY(append_output(out, chosen[i]));
  }
  out += "]}";
  const std::size_t json_bytes = out.size();
  for (const Chosen& one : chosen) {
    if (one.encoding == Encoding::kBinary) out += one.tensor->bytes;
  }
  if (out.size() != json_bytes) encoded.json_bytes = json_bytes;
  return encoded;
}

}  // namespace falaj::api
