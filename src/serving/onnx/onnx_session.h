// serving/onnx/onnx_session.h — one loaded model. Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "serving/datatypes.h"
#include "serving/onnx/onnx_library.h"
#include "serving/runtime.h"

namespace falaj::serving {

// Thread-safe: ONNX Runtime's Run is, and each single-row call has a lane of its own.
class OnnxSession final : public Session {
 public:
  // FJ-5002 when the bytes, which are only read here, are no model, or one with an input or output
  // that is no tensor.
  static Result<std::unique_ptr<Session>> load(std::shared_ptr<const OnnxLibrary> library,
                                               std::string_view model, unsigned threads);
  ~OnnxSession() override;

  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override;
  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override;

 private:
  struct Lane;

  explicit OnnxSession(std::shared_ptr<const OnnxLibrary> library);
  Status open(std::string_view model, unsigned threads);
  Status read_signature();
  Status read_features();
  Status find_score_output();
  Result<OnnxPtr<OrtValue>> wrap(void* data, std::size_t bytes, std::span<const std::int64_t> shape,
                                 ONNXTensorElementDataType type) const;
  Result<OnnxPtr<OrtValue>> wrap_texts(const Tensor& tensor) const;
  Status copy_texts(const OrtValue* value, std::size_t count, std::string& packed) const;
  Result<Tensor> copy_out(std::size_t output, OrtValue* value) const;
  Status score_many(std::span<const float> matrix, std::vector<float>& scores) const;
  Result<std::unique_ptr<Lane>> make_lane() const;
  Result<std::unique_ptr<Lane>> take_lane() const;
  void return_lane(std::unique_ptr<Lane> lane) const;
  Status check(OrtStatus* status, ErrorId id) const { return library_->check(status, id); }
  const OrtApi& api() const { return library_->api(); }

  std::shared_ptr<const OnnxLibrary> library_;
  OnnxPtr<OrtSession> session_;
  OnnxPtr<OrtMemoryInfo> memory_;
  registry::Signature signature_;
  std::vector<Datatype> input_types_;
  std::vector<const char*> input_names_;   // Into signature_.
  std::vector<const char*> output_names_;  // Into signature_.

  // The short cut of score(): the model's one float input and the float output that holds the
  // score.
  std::size_t columns_ = 0;  // 0: the model has another form, score() refuses.
  std::size_t score_output_ = 0;
  std::size_t score_width_ = 0;

  // Idle lanes. As many as threads that score at once; one more is made when all are in use.
  static constexpr std::size_t kIdleLanes = 32;
  mutable std::array<std::atomic<Lane*>, kIdleLanes> idle_{};
};

}  // namespace falaj::serving
