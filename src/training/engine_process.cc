#include "training/engine_process.h"

#include <fcntl.h>

#include <utility>

#include "base/decode.h"
#include "base/json.h"
#include "exec/memory_file.h"

namespace falaj::training {
namespace {

constexpr std::int64_t kJsonMax = std::int64_t{4} << 20;
constexpr std::int64_t kModelMax = std::int64_t{1} << 30;

Error unusable(const std::string& what) {
  return Error(ErrorId::kJobFailed,
               "the training process ended well but left no usable result: " + what);
}

std::shared_ptr<const Descriptor> shared(Descriptor file) {
  return std::make_shared<const Descriptor>(std::move(file));
}

// A copy, so that reading it to the end does not close ours.
Result<std::string> read_left(const std::shared_ptr<const Descriptor>& file, const char* name,
                              std::int64_t bytes_max) {
  auto reader = open_descriptor(Descriptor(::fcntl(file->get(), F_DUPFD_CLOEXEC, 3)));
  if (!reader.ok()) return unusable(std::string(name) + ": " + reader.error().message);
  auto bytes = read_whole(**reader, bytes_max);
  if (!bytes.ok()) return unusable(std::string(name) + ": " + bytes.error().message);
  return bytes;
}

Result<EngineConfig> take_order(std::string& ticket) {
  const auto file = FALAJ_TRY(open_descriptor(Descriptor(kOrderDescriptor)));
  const Value order = FALAJ_TRY(parse_json(FALAJ_TRY(read_whole(*file, kJsonMax))));
  ticket = order.text("ticket");
  return engine_config_from_value(order["config"]);
}

Status train(const OpenGranted& open, const OnnxRunner& onnx, const Report& report) {
  std::string ticket;
  const EngineConfig config = FALAJ_TRY(take_order(ticket));
  const auto data = FALAJ_TRY(open(Descriptor(kDataDescriptor), ticket));
  const EngineOutput output = FALAJ_TRY(run_engine(config, *data, onnx, report));
  FALAJ_TRY(exec::write_memory_file(kTextDescriptor, output.model_text));
  FALAJ_TRY(exec::write_memory_file(kOnnxDescriptor, output.model_onnx));
  return exec::write_memory_file(kResultDescriptor, to_json(output.result));
}

}  // namespace

Result<EngineFiles> EngineFiles::create(const EngineConfig& config, storage::BlobGrant grant) {
  EngineFiles files;
  Value value;
  value["config"] = to_value(config);
  value["ticket"] = grant.ticket;
  Descriptor order = FALAJ_TRY(exec::make_sealed_memory_file("training-order", to_json(value)));
  files.order_ = shared(std::move(order));
  files.data_ = shared(std::move(grant.file));
  files.text_ = shared(FALAJ_TRY(exec::make_memory_file("model-text")));
  files.onnx_ = shared(FALAJ_TRY(exec::make_memory_file("model-onnx")));
  files.result_ = shared(FALAJ_TRY(exec::make_memory_file("training-result")));
  return files;
}

std::vector<exec::Inherited> EngineFiles::inherited() const {
  return {{kOrderDescriptor, order_},
          {kDataDescriptor, data_},
          {kTextDescriptor, text_},
          {kOnnxDescriptor, onnx_},
          {kResultDescriptor, result_}};
}

Result<EngineFiles::Outcome> EngineFiles::outcome(const std::vector<std::string>& features,
                                                  std::int64_t verify_rows) const {
  const auto value = parse_json(FALAJ_TRY(read_left(result_, "result", kJsonMax)));
  if (!value.ok()) return unusable("result: " + value.error().message);
  Outcome out;
  out.metrics = (*value)["metrics"];
  out.proof = (*value)["proof"];
  out.rounds = value->integer("rounds");
  auto signature = registry::signature_from_value((*value)["signature"]);
  if (!signature.ok()) return unusable(signature.error().message);
  out.signature = *std::move(signature);
  if (!out.metrics.is_object()) return unusable("the result has no metrics");
  if (out.signature.features != features) {
    return unusable("the model has other features than its training set");
  }
  const std::int64_t rows = out.proof.integer("rows", 0);
  const std::int64_t mismatches = out.proof.integer("mismatches", -1);
  if (mismatches != 0 || rows < verify_rows) {
    return Error(ErrorId::kOnnxMismatch, "the proof covers " + std::to_string(rows) +
                                             " rows with " + std::to_string(mismatches) +
                                             " mismatches, where " + std::to_string(verify_rows) +
                                             " without any are needed; nothing is registered");
  }
  out.model_text = FALAJ_TRY(read_left(text_, "model text", kModelMax));
  out.model_onnx = FALAJ_TRY(read_left(onnx_, "model.onnx", kModelMax));
  return out;
}

Error EngineFiles::error(const Error& otherwise) const {
  const auto bytes = read_left(result_, "result", kJsonMax);
  if (!bytes.ok()) return otherwise;
  const auto value = parse_json(*bytes);
  if (!value.ok()) return otherwise;
  const ErrorInfo* info = find_error(value->text("code"));
  const std::string message = value->text("message");
  if (info == nullptr || message.empty()) return otherwise;
  return Error(info->id, message);
}

Status run_engine_process(const OpenGranted& open, const OnnxRunner& onnx, const Report& report) {
  const Status status = train(open, onnx, report);
  if (status.ok()) return status;
  // The server gets the code and the message from here; the log is for people.
  Value error;
  error["code"] = to_string(status.error().id);
  error["message"] = status.error().message;
  FALAJ_TRY(exec::write_memory_file(kResultDescriptor, to_json(error)));
  return status;
}

}  // namespace falaj::training
