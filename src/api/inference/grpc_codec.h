// api/inference/grpc_codec.h — the messages of inference.GRPCInferenceService, by their field
// numbers. Pure functions over outside bytes: bounded, never throwing. Fuzzed by
// grpc_infer_fuzz.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/inference/infer_codec.h"
#include "base/value.h"

namespace falaj::api {

struct GrpcInfer {
  std::string model;
  std::string version;  // "": whichever serves.
  InferRequest infer;
};

// ModelInferRequest. Data comes as raw_input_contents, one for each input, or as typed contents in
// the inputs (FP16 and BF16 only raw). Parameters that are not known are ignored. kInvalidArgument
// says what is wrong.
Result<GrpcInfer> parse_grpc_infer(std::string_view message);

// ModelInferResponse: every output in raw_output_contents, in order. In a stream it says that it is
// the last for its request, as each here is.
enum class Within : std::uint8_t { kCall, kStream };
struct GrpcReplyForm {
  Within within = Within::kCall;
  std::vector<std::pair<std::string, std::string>> parameters;  // Texts about the answer.
};
std::string write_grpc_infer(const GrpcInfer& request, std::string_view version,
                             const std::vector<ChosenOutput>& outputs, const GrpcReplyForm& form);
// ModelStreamInferResponse around a response, or around an error of the request with that id.
std::string wrap_stream_response(std::string_view response);
std::string wrap_stream_error(std::string_view text, std::string_view id);

// The requests of the other methods, as far as any of them has such a field.
struct GrpcQuery {
  std::string name;  // Of the model.
  std::string version;
  std::string id;      // ModelInfer: of the request.
  bool ready = false;  // RepositoryIndex: only what answers.
  Value parameters;    // RepositoryModelLoad: name → text, number or truth value; null: none.
};
// Which number is which differs by method. kModel also reads whose ModelInferRequest it is, without
// its tensors: what comes before the caller is known.
enum class QueryForm : std::uint8_t { kNothing, kModel, kIndex, kRepositoryModel };
Result<GrpcQuery> parse_grpc_query(std::string_view message, QueryForm form);

// The responses, from the JSON documents of the same questions over HTTP.
std::string write_grpc_truth(bool value);  // ServerLive, ServerReady, ModelReady.
std::string write_server_metadata(const Value& document);
std::string write_model_metadata(const Value& document);
std::string write_model_config(const Value& document);
std::string write_statistics(const Value& document);
std::string write_index(const Value& document);

}  // namespace falaj::api
