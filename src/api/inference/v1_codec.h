// api/inference/v1_codec.h — the bodies of KServe's V1 protocol (TensorFlow Serving's rows and
// columns): JSON lists in, JSON lists out. Pure; fuzzed by v1_fuzz.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/inference/infer_codec.h"

namespace falaj::api {

// kRows: {"instances": [row, …]}, answered by "predictions"; kColumns: {"inputs": {name: tensor}},
// or the tensor alone when the model has one input, answered by "outputs".
enum class V1Form : std::uint8_t { kRows, kColumns };

struct V1Request {
  V1Form form = V1Form::kRows;
  InferRequest infer;
};

// Shapes follow from the nesting, which must be regular, types from the model. A row of a model
// with several inputs is an object. Unknown members ("signature_name") are ignored.
// kInvalidArgument says what is wrong.
Result<V1Request> parse_v1(std::string_view body, const registry::Signature& signature);

// {"predictions": …} or {"outputs": …}: bare when the model has one output, by name otherwise.
Result<std::string> write_v1(V1Form form, const std::vector<serving::Tensor>& outputs);

}  // namespace falaj::api
