#include "serving/onnx/onnx_session.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "serving/input_order.h"
#include "serving/packed_texts.h"

namespace falaj::serving {
namespace {

// How a trained model names its columns: a JSON list under this key of its metadata.
constexpr const char* kFeaturesKey = "features";
constexpr std::size_t kRowsPerRun = 4096;  // Bounds what one bulk run allocates.

Result<Datatype> datatype_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return Datatype::kBool;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return Datatype::kUint8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return Datatype::kUint16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return Datatype::kUint32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return Datatype::kUint64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return Datatype::kInt8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
      return Datatype::kInt16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return Datatype::kInt32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return Datatype::kInt64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return Datatype::kFp16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return Datatype::kFp32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return Datatype::kFp64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return Datatype::kBf16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING:
      return Datatype::kBytes;
    default:
      return Error(ErrorId::kModelCorrupt,
                   "the model has a tensor of ONNX type " + std::to_string(type) +
                       ", which Falaj does not serve (complex, 8-bit and 4-bit floats)");
  }
}

ONNXTensorElementDataType onnx_type(Datatype type) {
  switch (type) {
    case Datatype::kBool:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
    case Datatype::kUint8:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    case Datatype::kUint16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16;
    case Datatype::kUint32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32;
    case Datatype::kUint64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64;
    case Datatype::kInt8:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8;
    case Datatype::kInt16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16;
    case Datatype::kInt32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case Datatype::kInt64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case Datatype::kFp16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case Datatype::kFp32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case Datatype::kFp64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    case Datatype::kBf16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    case Datatype::kBytes:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Error mismatch(std::string text) { return Error(ErrorId::kTensorMismatch, std::move(text)); }

Status set_options(const OnnxLibrary& library, OrtSessionOptions* options, unsigned threads) {
  const OrtApi& api = library.api();
  const auto must = [&](OrtStatus* status) {
    return library.check(status, ErrorId::kRuntimeUnavailable);
  };
  if (threads > 1) {
    // The pool that all sessions share: many models do not make many threads.
    FALAJ_TRY(must(api.DisablePerSessionThreads(options)));
  } else {
    FALAJ_TRY(must(api.SetIntraOpNumThreads(options, 1)));
    FALAJ_TRY(must(api.SetInterOpNumThreads(options, 1)));
  }
  FALAJ_TRY(must(api.SetSessionExecutionMode(options, ORT_SEQUENTIAL)));
  FALAJ_TRY(must(api.SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL)));
  // Small models: the arena and its patterns cost more memory than they save in time.
  FALAJ_TRY(must(api.DisableCpuMemArena(options)));
  FALAJ_TRY(must(api.DisableMemPattern(options)));
  // A spinning pool would burn the core that serves the next request.
  FALAJ_TRY(must(api.AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0")));
  return must(api.AddSessionConfigEntry(options, "session.inter_op.allow_spinning", "0"));
}

}  // namespace

// What one single-row call needs, made once: buffers, the tensors over them, and their binding.
struct OnnxSession::Lane {
  std::vector<float> input;
  std::vector<float> output;
  OnnxPtr<OrtValue> input_value;
  OnnxPtr<OrtValue> output_value;
  OnnxPtr<OrtIoBinding> binding;
};

OnnxSession::OnnxSession(std::shared_ptr<const OnnxLibrary> library)
    : library_(std::move(library)) {}

OnnxSession::~OnnxSession() {
  for (std::atomic<Lane*>& slot : idle_) delete slot.load(std::memory_order_acquire);
}

Result<std::unique_ptr<Session>> OnnxSession::load(std::shared_ptr<const OnnxLibrary> library,
                                                   std::string_view model, unsigned threads) {
  std::unique_ptr<OnnxSession> session(new OnnxSession(std::move(library)));
  FALAJ_TRY(session->open(model, threads));
  FALAJ_TRY(session->read_signature());
  FALAJ_TRY(session->read_features());
  FALAJ_TRY(session->find_score_output());
  return std::unique_ptr<Session>(std::move(session));
}

Status OnnxSession::open(std::string_view model, unsigned threads) {
  OrtSessionOptions* raw_options = nullptr;
  FALAJ_TRY(check(api().CreateSessionOptions(&raw_options), ErrorId::kRuntimeUnavailable));
  const auto options = onnx_own(raw_options, api().ReleaseSessionOptions);
  FALAJ_TRY(set_options(*library_, options.get(), threads));

  OrtSession* session = nullptr;
  const Status made = check(api().CreateSessionFromArray(library_->env(), model.data(),
                                                         model.size(), options.get(), &session),
                            ErrorId::kModelCorrupt);
  if (!made.ok()) return made.error().within("load model");
  session_ = onnx_own(session, api().ReleaseSession);

  OrtMemoryInfo* memory = nullptr;
  FALAJ_TRY(check(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory),
                  ErrorId::kRuntimeUnavailable));
  memory_ = onnx_own(memory, api().ReleaseMemoryInfo);
  return {};
}

Status OnnxSession::read_signature() {
  OrtAllocator* allocator = nullptr;
  FALAJ_TRY(check(api().GetAllocatorWithDefaultOptions(&allocator), ErrorId::kModelCorrupt));

  const auto describe = [&](char* raw_name, OrtTypeInfo* raw_type,
                            registry::TensorSpec& spec) -> Result<Datatype> {
    const auto type = onnx_own(raw_type, api().ReleaseTypeInfo);
    spec.name = raw_name;
    FALAJ_TRY(check(api().AllocatorFree(allocator, raw_name), ErrorId::kModelCorrupt));
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;  // Owned by `type`.
    FALAJ_TRY(check(api().CastTypeInfoToTensorInfo(type.get(), &tensor), ErrorId::kModelCorrupt));
    if (tensor == nullptr) {
      return Error(ErrorId::kModelCorrupt, "'" + spec.name +
                                               "' of the model is no tensor; export " +
                                               "the model without ZipMap or sequences");
    }
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    FALAJ_TRY(check(api().GetTensorElementType(tensor, &element), ErrorId::kModelCorrupt));
    const Datatype datatype = FALAJ_TRY(datatype_of(element));
    spec.datatype = datatype_name(datatype);
    std::size_t rank = 0;
    FALAJ_TRY(check(api().GetDimensionsCount(tensor, &rank), ErrorId::kModelCorrupt));
    spec.shape.resize(rank);
    FALAJ_TRY(check(api().GetDimensions(tensor, spec.shape.data(), rank), ErrorId::kModelCorrupt));
    return datatype;
  };

  std::size_t inputs = 0;
  std::size_t outputs = 0;
  FALAJ_TRY(check(api().SessionGetInputCount(session_.get(), &inputs), ErrorId::kModelCorrupt));
  FALAJ_TRY(check(api().SessionGetOutputCount(session_.get(), &outputs), ErrorId::kModelCorrupt));
  signature_.inputs.resize(inputs);
  signature_.outputs.resize(outputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    char* name = nullptr;
    OrtTypeInfo* type = nullptr;
    FALAJ_TRY(check(api().SessionGetInputName(session_.get(), i, allocator, &name),
                    ErrorId::kModelCorrupt));
    FALAJ_TRY(
        check(api().SessionGetInputTypeInfo(session_.get(), i, &type), ErrorId::kModelCorrupt));
    input_types_.push_back(FALAJ_TRY(describe(name, type, signature_.inputs[i])));
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    char* name = nullptr;
    OrtTypeInfo* type = nullptr;
    FALAJ_TRY(check(api().SessionGetOutputName(session_.get(), i, allocator, &name),
                    ErrorId::kModelCorrupt));
    FALAJ_TRY(
        check(api().SessionGetOutputTypeInfo(session_.get(), i, &type), ErrorId::kModelCorrupt));
    FALAJ_TRY(describe(name, type, signature_.outputs[i]));
  }
  for (const registry::TensorSpec& spec : signature_.inputs) {
    input_names_.push_back(spec.name.c_str());
  }
  for (const registry::TensorSpec& spec : signature_.outputs) {
    output_names_.push_back(spec.name.c_str());
  }
  return {};
}

Status OnnxSession::read_features() {
  OrtModelMetadata* raw = nullptr;
  FALAJ_TRY(check(api().SessionGetModelMetadata(session_.get(), &raw), ErrorId::kModelCorrupt));
  const auto metadata = onnx_own(raw, api().ReleaseModelMetadata);
  OrtAllocator* allocator = nullptr;
  FALAJ_TRY(check(api().GetAllocatorWithDefaultOptions(&allocator), ErrorId::kModelCorrupt));
  char* text = nullptr;
  FALAJ_TRY(check(
      api().ModelMetadataLookupCustomMetadataMap(metadata.get(), allocator, kFeaturesKey, &text),
      ErrorId::kModelCorrupt));
  if (text == nullptr) return {};
  const std::string json = text;
  FALAJ_TRY(check(api().AllocatorFree(allocator, text), ErrorId::kModelCorrupt));

  const Result<Value> names = parse_json(json);
  const bool list = names.ok() && names->is_array();
  if (!list) {
    return Error(ErrorId::kModelCorrupt,
                 std::string("the model's metadata '") + kFeaturesKey + "' is no list of names");
  }
  for (const Value& name : names->as_array()) {
    if (name.is_string()) signature_.features.push_back(name.as_string());
  }
  return {};
}

// Finds the form that score() serves, and proves it by one run on a row of zeros: this also warms
// the model, so that the first request is as quick as the rest.
Status OnnxSession::find_score_output() {
  if (signature_.inputs.size() != 1 || input_types_[0] != Datatype::kFp32) return {};
  const std::vector<std::int64_t>& shape = signature_.inputs[0].shape;
  if (shape.size() != 2 || shape[0] > 1) return {};
  const std::size_t columns =
      shape[1] > 0 ? static_cast<std::size_t>(shape[1]) : signature_.features.size();
  const auto output =
      std::find_if(signature_.outputs.begin(), signature_.outputs.end(),
                   [](const registry::TensorSpec& spec) { return spec.datatype == "FP32"; });
  if (columns == 0 || output == signature_.outputs.end()) return {};
  const auto index = static_cast<std::size_t>(output - signature_.outputs.begin());

  Tensor zeros;
  zeros.name = signature_.inputs[0].name;
  zeros.datatype = "FP32";
  zeros.shape = {1, static_cast<std::int64_t>(columns)};
  zeros.bytes.assign(columns * sizeof(float), '\0');
  const Result<std::vector<Tensor>> answer = run(std::span<const Tensor>(&zeros, 1));
  if (!answer.ok()) return Error(ErrorId::kModelCorrupt, answer.error().message).within("warm-up");
  const std::size_t width = (*answer)[index].bytes.size() / sizeof(float);
  if (width == 0 || (*answer)[index].shape.empty() || (*answer)[index].shape[0] != 1) return {};
  columns_ = columns;
  score_output_ = index;
  score_width_ = width;
  return {};
}

Result<OnnxPtr<OrtValue>> OnnxSession::wrap(void* data, std::size_t bytes,
                                            std::span<const std::int64_t> shape,
                                            ONNXTensorElementDataType type) const {
  OrtValue* value = nullptr;
  FALAJ_TRY(check(api().CreateTensorWithDataAsOrtValue(memory_.get(), data, bytes, shape.data(),
                                                       shape.size(), type, &value),
                  ErrorId::kInternal));
  return onnx_own(value, api().ReleaseValue);
}

// A tensor of texts has no bytes that could be lent: the runtime copies each element.
Result<OnnxPtr<OrtValue>> OnnxSession::wrap_texts(const Tensor& tensor) const {
  const std::size_t count = FALAJ_TRY(element_count(tensor.shape));
  const std::vector<std::string_view> texts = FALAJ_TRY(unpack_texts(tensor.bytes, count));
  OrtAllocator* allocator = nullptr;
  FALAJ_TRY(check(api().GetAllocatorWithDefaultOptions(&allocator), ErrorId::kInternal));
  OrtValue* raw = nullptr;
  FALAJ_TRY(check(api().CreateTensorAsOrtValue(allocator, tensor.shape.data(), tensor.shape.size(),
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &raw),
                  ErrorId::kInternal));
  OnnxPtr<OrtValue> value = onnx_own(raw, api().ReleaseValue);
  for (std::size_t i = 0; i < count; ++i) {
    char* room = nullptr;
    FALAJ_TRY(check(api().GetResizedStringTensorElementBuffer(raw, i, texts[i].size(), &room),
                    ErrorId::kInternal));
    if (!texts[i].empty()) std::memcpy(room, texts[i].data(), texts[i].size());
  }
  return value;
}

Status OnnxSession::copy_texts(const OrtValue* value, std::size_t count,
                               std::string& packed) const {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t length = 0;
    FALAJ_TRY(check(api().GetStringTensorElementLength(value, i, &length), ErrorId::kInternal));
    text.resize(length);
    FALAJ_TRY(
        check(api().GetStringTensorElement(value, length, i, text.data()), ErrorId::kInternal));
    FALAJ_TRY(append_packed(packed, text));
  }
  return {};
}

Result<Tensor> OnnxSession::copy_out(std::size_t output, OrtValue* value) const {
  Tensor tensor;
  tensor.name = signature_.outputs[output].name;
  tensor.datatype = signature_.outputs[output].datatype;
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  FALAJ_TRY(check(api().GetTensorTypeAndShape(value, &raw), ErrorId::kInternal));
  const auto info = onnx_own(raw, api().ReleaseTensorTypeAndShapeInfo);
  std::size_t rank = 0;
  FALAJ_TRY(check(api().GetDimensionsCount(info.get(), &rank), ErrorId::kInternal));
  tensor.shape.resize(rank);
  FALAJ_TRY(check(api().GetDimensions(info.get(), tensor.shape.data(), rank), ErrorId::kInternal));
  const Datatype type = FALAJ_TRY(parse_datatype(tensor.datatype));
  const std::size_t count = FALAJ_TRY(element_count(tensor.shape));
  if (type == Datatype::kBytes) {
    FALAJ_TRY(copy_texts(value, count, tensor.bytes));
    return tensor;
  }
  void* data = nullptr;
  FALAJ_TRY(check(api().GetTensorMutableData(value, &data), ErrorId::kInternal));
  const std::size_t bytes = count * element_bytes(type);
  if (bytes > 0) tensor.bytes.assign(static_cast<const char*>(data), bytes);
  return tensor;
}

Result<std::vector<Tensor>> OnnxSession::run(std::span<const Tensor> inputs) const {
  std::vector<const Tensor*> ordered;
  FALAJ_TRY(order_inputs(signature_.inputs, input_types_, inputs, ordered));
  std::vector<OnnxPtr<OrtValue>> values;
  std::vector<const OrtValue*> raw_inputs;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (input_types_[i] == Datatype::kBytes) {
      values.push_back(FALAJ_TRY(wrap_texts(*ordered[i])));
    } else {
      // Only read by the runtime, though its interface asks for a mutable pointer.
      void* data = const_cast<char*>(ordered[i]->bytes.data());
      values.push_back(FALAJ_TRY(
          wrap(data, ordered[i]->bytes.size(), ordered[i]->shape, onnx_type(input_types_[i]))));
    }
    raw_inputs.push_back(values.back().get());
  }
  std::vector<OrtValue*> raw_outputs(output_names_.size(), nullptr);
  FALAJ_TRY(check(
      api().Run(session_.get(), nullptr, input_names_.data(), raw_inputs.data(), raw_inputs.size(),
                output_names_.data(), output_names_.size(), raw_outputs.data()),
      ErrorId::kInternal));
  std::vector<OnnxPtr<OrtValue>> owned;
  for (OrtValue* value : raw_outputs) owned.push_back(onnx_own(value, api().ReleaseValue));
  std::vector<Tensor> answer;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    answer.push_back(FALAJ_TRY(copy_out(i, owned[i].get())));
  }
  return answer;
}

Result<std::unique_ptr<OnnxSession::Lane>> OnnxSession::make_lane() const {
  auto lane = std::make_unique<Lane>();
  lane->input.resize(columns_);
  lane->output.resize(score_width_);
  const std::array<std::int64_t, 2> in_shape{1, static_cast<std::int64_t>(columns_)};
  // A score output of rank 1 has one value a row; find_score_output saw how many a row of 2.
  const std::array<std::int64_t, 2> out_shape{1, static_cast<std::int64_t>(score_width_)};
  const std::size_t out_rank =
      std::min<std::size_t>(signature_.outputs[score_output_].shape.size(), 2);
  lane->input_value = FALAJ_TRY(wrap(lane->input.data(), columns_ * sizeof(float), in_shape,
                                     ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  lane->output_value =
      FALAJ_TRY(wrap(lane->output.data(), score_width_ * sizeof(float),
                     std::span(out_shape).first(out_rank), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  OrtIoBinding* binding = nullptr;
  FALAJ_TRY(check(api().CreateIoBinding(session_.get(), &binding), ErrorId::kInternal));
  lane->binding = onnx_own(binding, api().ReleaseIoBinding);
  FALAJ_TRY(check(api().BindInput(binding, input_names_[0], lane->input_value.get()),
                  ErrorId::kInternal));
  FALAJ_TRY(check(api().BindOutput(binding, output_names_[score_output_], lane->output_value.get()),
                  ErrorId::kInternal));
  return lane;
}

Result<std::unique_ptr<OnnxSession::Lane>> OnnxSession::take_lane() const {
  for (std::atomic<Lane*>& slot : idle_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (Lane* lane = slot.exchange(nullptr, std::memory_order_acquire)) {
      return std::unique_ptr<Lane>(lane);
    }
  }
  return make_lane();
}

void OnnxSession::return_lane(std::unique_ptr<Lane> lane) const {
  for (std::atomic<Lane*>& slot : idle_) {
    Lane* empty = nullptr;
    if (slot.load(std::memory_order_relaxed) != nullptr) continue;
    if (slot.compare_exchange_strong(empty, lane.get(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
      static_cast<void>(lane.release());
      return;
    }
  }
}

Status OnnxSession::score(std::span<const float> matrix, std::size_t columns,
                          std::vector<float>& scores) const {
  if (columns_ == 0) {
    return mismatch("the model has no single float input and float output; use infer");
  }
  if (columns != columns_ || matrix.size() % columns_ != 0) {
    return mismatch("the model takes rows of " + std::to_string(columns_) + " columns, got " +
                    std::to_string(matrix.size()) + " values in rows of " +
                    std::to_string(columns));
  }
  if (matrix.size() != columns_) return score_many(matrix, scores);

  std::unique_ptr<Lane> lane = FALAJ_TRY(take_lane());
  std::memcpy(lane->input.data(), matrix.data(), columns_ * sizeof(float));
  const Status ran =
      check(api().RunWithBinding(session_.get(), nullptr, lane->binding.get()), ErrorId::kInternal);
  if (!ran.ok()) return ran;  // The lane goes too: its binding may be in any state.
  scores.assign(1, lane->output.back());
  return_lane(std::move(lane));
  return {};
}

Status OnnxSession::score_many(std::span<const float> matrix, std::vector<float>& scores) const {
  const std::size_t rows = matrix.size() / columns_;
  scores.clear();
  scores.reserve(rows);
  std::vector<float> output;
  for (std::size_t first = 0; first < rows; first += kRowsPerRun) {
    const std::size_t part = std::min(kRowsPerRun, rows - first);
    output.resize(part * score_width_);
    const std::array<std::int64_t, 2> in_shape{static_cast<std::int64_t>(part),
                                               static_cast<std::int64_t>(columns_)};
    const std::array<std::int64_t, 2> out_shape{static_cast<std::int64_t>(part),
                                                static_cast<std::int64_t>(score_width_)};
    const std::size_t out_rank =
        std::min<std::size_t>(signature_.outputs[score_output_].shape.size(), 2);
    void* data = const_cast<float*>(matrix.data() + first * columns_);  // Only read.
    const OnnxPtr<OrtValue> in = FALAJ_TRY(
        wrap(data, part * columns_ * sizeof(float), in_shape, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
    const OnnxPtr<OrtValue> out =
        FALAJ_TRY(wrap(output.data(), output.size() * sizeof(float),
                       std::span(out_shape).first(out_rank), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
    const OrtValue* raw_in = in.get();
    OrtValue* raw_out = out.get();
    FALAJ_TRY(check(api().Run(session_.get(), nullptr, input_names_.data(), &raw_in, 1,
                              &output_names_[score_output_], 1, &raw_out),
                    ErrorId::kInternal));
    for (std::size_t row = 0; row < part; ++row) {
      scores.push_back(output[(row + 1) * score_width_ - 1]);
    }
  }
  return {};
}

}  // namespace falaj::serving
