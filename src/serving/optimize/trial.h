// serving/optimize/trial.h — two models on the same rows: what they answer, and how fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "onnx/optimize/gate.h"
#include "serving/runtime.h"

namespace falaj::serving {

// Numbers that a row has: the product of the one input's dimensions after the first, which is the
// batch. FJ-5004 for a model with other inputs than one of floats whose size is known.
Result<std::size_t> row_width(const registry::Signature& signature);

// What a model says of all rows, output by output.
struct Answers {
  std::vector<std::vector<float>> floats;  // Of the outputs of floats.
  std::vector<std::string> others;         // Bytes of all others: labels.
};
// `matrix` is row-major, row_width() numbers a row. Asked in pieces, so that memory is bounded.
Result<Answers> answers_of(const Session& session, std::span<const float> matrix);
// The last column of the first output of floats: what is taken as the score of a row.
std::vector<float> scores_of(const Answers& answers, std::size_t rows);

// Over all outputs. FJ-5004 when the two have different outputs.
Result<onnx::Difference> compare(const Answers& before, const Answers& after);

struct TrialOptions {
  std::size_t batch = 64;                // Rows of one call.
  std::size_t rounds = 15;               // At least one.
  std::int64_t slice_ns = 20'000'000;    // That each model runs for in a round, at least.
  std::function<std::int64_t()> now_ns;  // A clock that never goes back.
};
// Both take turns and change who begins, so that what else happens on the machine hits both; each
// warms up for one slice. `matrix` has at least one row; calls walk over it in a circle.
Result<onnx::Speed> measure(const Session& before, const Session& after,
                            std::span<const float> matrix, const TrialOptions& options);

}  // namespace falaj::serving
