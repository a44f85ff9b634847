// serving/testing/drained.h — what a sink held, as values.
#pragma once

#include <vector>

#include "serving/prediction_sink.h"

namespace falaj::serving::testing {

inline std::vector<Prediction> drained(PredictionSink& sink) {
  std::vector<Prediction> all;
  sink.drain([&](const Prediction& one) { all.push_back(one); });
  return all;
}

}  // namespace falaj::serving::testing
