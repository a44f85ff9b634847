// serving/testing/held_session.h — a model whose first run waits until a test lets it go.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "serving/runtime.h"

namespace falaj::serving::testing {

inline Tensor row(float value, std::int64_t rows = 1) {
  Tensor tensor{"x", "FP32", {rows, 1}, {}};
  for (std::int64_t i = 0; i < rows; ++i) {
    const float each = value + static_cast<float>(i);
    tensor.bytes.append(reinterpret_cast<const char*>(&each), sizeof(each));
  }
  return tensor;
}

inline float value_of(const Tensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data(), sizeof(value));
  return value;
}

// Gives back what it gets; keeps the first run waiting until it is told.
class HeldSession final : public Session {
 public:
  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    MutexLock lock(mutex_);
    runs_.push_back(inputs[0].shape[0]);
    changed_.notify_all();
    if (runs_.size() == 1) {
      changed_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return released_; });
    }
    if (value_of(inputs[0]) < 0) return Error(ErrorId::kTensorMismatch, "below zero");
    Tensor output{"y", inputs[0].datatype, inputs[0].shape, inputs[0].bytes};
    return std::vector<Tensor>{std::move(output)};
  }
  Status score(std::span<const float>, std::size_t, std::vector<float>&) const override {
    return Error(Code::kUnimplemented, "");
  }
  void wait_for_first() const {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return !runs_.empty(); });
  }
  void release() const {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::vector<std::int64_t> runs() const {
    MutexLock lock(mutex_);
    return runs_;
  }

 private:
  registry::Signature signature_{{{"x", "FP32", {-1, 1}}}, {{"y", "FP32", {-1, 1}}}, {}};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable std::vector<std::int64_t> runs_ FALAJ_GUARDED_BY(mutex_);
  mutable bool released_ FALAJ_GUARDED_BY(mutex_) = false;
};

}  // namespace falaj::serving::testing
