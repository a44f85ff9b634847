// serving/prediction_sink.h — what was predicted, handed to monitoring without ever holding up a
// request: a bounded ring that drops and counts when it is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"

namespace falaj::serving {

struct Prediction {
  std::string deployment;  // "payments/fraud"
  std::int64_t version = 0;
  Timestamp at{};
  std::vector<float> features;  // In the model's order; NaN for missing.
  float score = 0;
  std::string request_id;
};

// Many writers, one reader. Thread-safe. A cell keeps its buffers from lap to lap, so that neither
// side allocates once every cell was used.
class PredictionSink {
 public:
  explicit PredictionSink(std::size_t capacity);
  ~PredictionSink();
  // False (and counted) when full. Never blocks on the reader.
  bool offer(const Prediction& prediction);
  // Shows everything that is there, oldest first, each valid during its call; one lap at most.
  // Returns their number.
  std::size_t drain(const std::function<void(const Prediction&)>& each);
  std::uint64_t accepted() const;
  std::uint64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::serving
