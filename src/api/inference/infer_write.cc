#include <algorithm>
#include <cstring>
#include <numeric>

#include "api/inference/infer_codec.h"
#include "api/inference/internal/json_data.h"
#include "base/json.h"
#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace falaj::api {
namespace {

using serving::Datatype;
using serving::Tensor;

Error invalid(std::string text) { return Error(ErrorId::kInvalidArgument, std::move(text)); }

std::string classes_type_error(const Tensor& tensor) {
  return "class result not available for output '" + tensor.name + "' due to unsupported type '" +
         tensor.datatype + "'";
}

// Which classes are told, and how.
struct Classes {
  std::size_t rows = 0;
  std::size_t wanted = 0;
  const std::vector<std::string>* labels = nullptr;
};

// "0.731059:1" or "0.731059:1:fraud": what a client's parser splits at the colons.
template <class T>
std::string class_text(T value, std::size_t index, const std::vector<std::string>* labels) {
  std::string text = std::to_string(value) + ":" + std::to_string(index);
  if (labels != nullptr && index < labels->size()) text += ":" + (*labels)[index];
  return text;
}

template <class T>
Status append_classes(const Tensor& tensor, const Classes& classes, Tensor& named) {
  const std::size_t rows = classes.rows;
  const std::size_t wanted = classes.wanted;
  const std::size_t width = rows == 0 ? 0 : tensor.bytes.size() / sizeof(T) / rows;
  const std::size_t count = std::min(wanted, width);
  std::vector<T> row(width);
  std::vector<std::size_t> order(width);
  for (std::size_t at = 0; at < rows; ++at) {
    if (width > 0) {
      std::memcpy(row.data(), tensor.bytes.data() + at * width * sizeof(T), width * sizeof(T));
    }
    std::iota(order.begin(), order.end(), std::size_t{0});
    // A NaN is below every number: an order must not depend on where it stands.
    const auto higher = [&row](std::size_t a, std::size_t b) {
      if (row[a] != row[a] || row[b] != row[b]) return row[a] == row[a] && row[b] != row[b];
      return row[a] > row[b];
    };
    std::stable_sort(order.begin(), order.end(), higher);
    for (std::size_t i = 0; i < count; ++i) {
      FALAJ_TRY(
          serving::append_packed(named.bytes, class_text(row[order[i]], order[i], classes.labels)));
    }
  }
  return {};
}

Status fill_classes(const Tensor& tensor, const Classes& classes, Tensor& named) {
  switch (FALAJ_TRY(serving::parse_datatype(tensor.datatype))) {
    case Datatype::kUint8:
      return append_classes<std::uint8_t>(tensor, classes, named);
    case Datatype::kUint16:
      return append_classes<std::uint16_t>(tensor, classes, named);
    case Datatype::kUint32:
      return append_classes<std::uint32_t>(tensor, classes, named);
    case Datatype::kUint64:
      return append_classes<std::uint64_t>(tensor, classes, named);
    case Datatype::kInt8:
      return append_classes<std::int8_t>(tensor, classes, named);
    case Datatype::kInt16:
      return append_classes<std::int16_t>(tensor, classes, named);
    case Datatype::kInt32:
      return append_classes<std::int32_t>(tensor, classes, named);
    case Datatype::kInt64:
      return append_classes<std::int64_t>(tensor, classes, named);
    case Datatype::kFp32:
      return append_classes<float>(tensor, classes, named);
    case Datatype::kFp64:
      return append_classes<double>(tensor, classes, named);
    case Datatype::kBool:
    case Datatype::kFp16:
    case Datatype::kBf16:
    case Datatype::kBytes:
      break;
  }
  return invalid(classes_type_error(tensor));
}

Result<Tensor> as_classes(const Tensor& tensor, std::size_t wanted, Rows rows,
                          const serving::Labels* labels) {
  const bool by_row = rows == Rows::kFirstDimension && !tensor.shape.empty();
  const std::size_t elements = FALAJ_TRY(serving::element_count(tensor.shape));
  const std::size_t count = by_row ? static_cast<std::size_t>(tensor.shape[0]) : 1;
  const std::size_t width = count == 0 ? 0 : elements / count;
  Tensor named{tensor.name, "BYTES", {}, {}};
  if (by_row) named.shape.push_back(tensor.shape[0]);
  named.shape.push_back(static_cast<std::int64_t>(std::min(wanted, width)));
  Classes classes{count, wanted, nullptr};
  if (labels != nullptr) {
    const auto found = labels->find(tensor.name);
    if (found != labels->end()) classes.labels = &found->second;
  }
  FALAJ_TRY(fill_classes(tensor, classes, named));
  return named;
}

Status append_output(std::string& out, const ChosenOutput& chosen) {
  const Tensor& tensor = chosen.tensor;
  out += R"({"name":)";
  append_json_string(out, tensor.name);
  out += R"(,"datatype":)";
  append_json_string(out, tensor.datatype);
  out += R"(,"shape":)" + serving::shape_text(tensor.shape);
  if (chosen.encoding == Encoding::kBinary) {
    out += R"(,"parameters":{"binary_data_size":)" + std::to_string(tensor.bytes.size()) + "}}";
    return {};
  }
  out += R"(,"data":)";
  FALAJ_TRY(append_json_list(out, tensor, ListForm::kFlat));
  out += '}';
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
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const Tensor& tensor = request.inputs[i];
    const bool twice =
        std::any_of(request.inputs.begin(), request.inputs.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Tensor& earlier) { return earlier.name == tensor.name; });
    if (twice)
      return mismatch("input '" + tensor.name + "' stands twice in the request" + of_model);
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
    if (!spec->shape.empty() && spec->shape[0] < 0 && tensor.shape[0] > kBatchMax) {
      return mismatch("inference request batch-size must be <= " + std::to_string(kBatchMax) +
                      " for '" + std::string(model) + "'");
    }
  }
  return {};
}

Result<std::vector<ChosenOutput>> choose_outputs(const InferRequest& request,
                                                 std::vector<Tensor> outputs,
                                                 std::string_view model, Rows rows,
                                                 const serving::Labels* labels) {
  std::vector<ChosenOutput> chosen;
  if (request.outputs.empty()) {
    for (Tensor& tensor : outputs) chosen.push_back({std::move(tensor), request.outputs_default});
    return chosen;
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const RequestedOutput& wanted = request.outputs[i];
    const auto here = request.outputs.begin() + static_cast<std::ptrdiff_t>(i);
    const bool again =
        std::any_of(request.outputs.begin(), here,
                    [&](const RequestedOutput& earlier) { return earlier.name == wanted.name; });
    if (again) {
      return invalid("output '" + wanted.name + "' is asked for twice for model '" +
                     std::string(model) + "'");
    }
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const Tensor& t) { return t.name == wanted.name; });
    if (found == outputs.end()) {
      return invalid("unexpected inference output '" + wanted.name + "' for model '" +
                     std::string(model) + "'");
    }
    if (wanted.classes > 0) {
      Tensor classes = FALAJ_TRY(as_classes(*found, wanted.classes, rows, labels));
      chosen.push_back({std::move(classes), wanted.encoding});
    } else {
      chosen.push_back({std::move(*found), wanted.encoding});
    }
  }
  return chosen;
}

Result<EncodedReply> write_infer_reply(InferReply reply) {
  const std::vector<ChosenOutput> chosen = FALAJ_TRY(choose_outputs(
      *reply.request, std::move(reply.outputs), reply.model, reply.rows, reply.labels));
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
  for (const ChosenOutput& one : chosen) {
    if (one.encoding == Encoding::kBinary) out += one.tensor.bytes;
  }
  if (out.size() != json_bytes) encoded.json_bytes = json_bytes;
  return encoded;
}

}  // namespace falaj::api
