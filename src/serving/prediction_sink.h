// serving/prediction_sink.h — what was predicted, handed to monitoring without ever holding up a
// request: a bounded ring that drops and counts when it is full.
#pragma once

#include <atomic>
#include <cstdint>
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

// Many writers, one reader. Thread-safe.
class PredictionSink {
 public:
  explicit PredictionSink(std::size_t capacity);
  ~PredictionSink();
  // False (and counted) when full. Never blocks on the reader.
  bool offer(Prediction prediction);
  // Takes everything that is there, oldest first.
  std::vector<Prediction> drain();
  std::uint64_t accepted() const;
  std::uint64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::serving
