// api/inference/infer_codec.h — the bytes of an inference request and reply, in the dialect that
// unmodified Triton and KServe clients speak: JSON, JSON followed by binary tensors, raw binary.
//
// Pure functions over outside bytes: bounded, never throwing. Fuzzed by infer_fuzz.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "registry/models.h"
#include "serving/deployments.h"
#include "serving/runtime.h"

namespace falaj::api {

enum class Encoding : std::uint8_t { kJson, kBinary };

struct RequestedOutput {
  std::string name;
  Encoding encoding = Encoding::kJson;
  std::size_t classes = 0;  // Not 0: its so many highest values, as texts (choose_outputs).
};

// Rows of one request; the dialect wants a number, and the bytes of a body are the nearer limit.
inline constexpr std::int64_t kBatchMax = 1 << 20;
inline constexpr std::uint32_t kPriorityMax = 1'000'000;

struct InferRequest {
  std::optional<std::string> id;  // Echoed only when it was given.
  std::vector<serving::Tensor> inputs;
  std::vector<RequestedOutput> outputs;        // Empty: all of them…
  Encoding outputs_default = Encoding::kJson;  // …in this form.
  Duration timeout{};          // How long the answer is worth waiting for; 0: the deployment's slo.
  std::uint32_t priority = 0;  // 1 is the highest; 0: in the middle.
};

// Reads a body whose first `json_bytes` are JSON and whose rest are the binary tensors, in the
// order of the inputs that announce a size. Without the header, all of it is JSON. kInvalidArgument
// says which input or member is wrong, FJ-1001 that it is no JSON.
//
// Data may be flat or nested (to 100 levels). BOOL takes true and false, integers take integers in
// range, floats take numbers and null for a missing value (NaN), BYTES takes texts. FP16 and BF16
// come as binary only; shared memory and sequences are refused by name. Unknown members and
// parameters are ignored. The JSON may have 16 MiB (FJ-1009).
Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> json_bytes);

// A body that is one tensor and nothing else (Inference-Header-Content-Length: 0): one row of the
// model's only input. All outputs are binary.
Result<InferRequest> parse_raw_infer(std::string_view body, const registry::Signature& signature);

// The inputs against the model's signature, in the words that client tooling looks for.
Status check_inputs(const InferRequest& request, const registry::Signature& signature,
                    std::string_view model);

// What answers a request that belongs to a sequence.
Error no_sequences();

struct ChosenOutput {
  serving::Tensor tensor;
  Encoding encoding = Encoding::kJson;
};
// Whether the first dimension counts rows, for the classes of each.
enum class Rows : std::uint8_t { kFirstDimension, kNone };
// The outputs that the request asks for, in its order. One with `classes` becomes BYTES: of each
// row its highest values, highest first, as "value:index", or "value:index:label" where `labels`
// (null: none) has one for the output's class. kInvalidArgument for an output that the
// model does not have or that is asked for twice, and for classes of texts or truth values.
Result<std::vector<ChosenOutput>> choose_outputs(const InferRequest& request,
                                                 std::vector<serving::Tensor> outputs,
                                                 std::string_view model, Rows rows,
                                                 const serving::Labels* labels = nullptr);

struct InferReply {
  std::string_view model;
  std::string_view version;
  const InferRequest* request = nullptr;
  std::vector<serving::Tensor> outputs;  // As the model gave them; the request chooses among them.
  Rows rows = Rows::kFirstDimension;
  const serving::Labels* labels = nullptr;
};

struct EncodedReply {
  std::string body;
  // Set when binary tensors follow the JSON: its length, for Inference-Header-Content-Length.
  std::optional<std::size_t> json_bytes;
};

// kInvalidArgument for an output that the model does not have, and for a value that JSON cannot
// carry (NaN, infinity, half precision): the message says to ask for binary data.
Result<EncodedReply> write_infer_reply(InferReply reply);

}  // namespace falaj::api
