// training/proof.h — the exported graph against the engine, row by row; no proof, no registration.
//
// Two comparisons on each row. Routing: the leaf of every tree, from the arrays read back out of
// the file and walked in float32, equals the engine's; no tolerance. Score: what the runtime
// computes is within a rounding error of the engine's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "training/engine.h"
#include "training/trees.h"

namespace falaj::training {

// The engine's own answers, on a row-major matrix of the model's width.
struct EnginePredictor {
  std::function<Result<std::vector<double>>(std::span<const float>)> scores;
  // rows × trees.
  std::function<Result<std::vector<std::int32_t>>(std::span<const float>)> leaves;
};

struct ProofRequest {
  const TreeModel& model;
  std::string_view graph;  // The exported ONNX bytes.
  EnginePredictor engine;
  const OnnxRunner& onnx;
  std::span<const float> real_rows;  // Row-major; at least one row.
  std::int64_t rows_min = 100'000;
  std::uint64_t seed = 0;
  std::function<void(double progress)> progress;  // 0–1; may be empty.
};

struct Proof {
  std::int64_t rows = 0;
  std::int64_t rows_aimed = 0;  // At a split: its threshold, one ulp above, one below, NaN.
  std::int64_t rows_real = 0;
  std::int64_t leaves = 0;      // Row-and-tree pairs compared.
  std::int64_t mismatches = 0;  // Rows.
  double max_abs_diff = 0;      // Of the scores.
  double tolerance = 0;
  std::string first_mismatch;  // For a person.
};
Value to_value(const Proof& proof);

// Replays real rows, rows aimed at every split (up to two million, then evenly chosen ones), and
// random mixtures of special values (NaN, ±0, ±inf, tiny, huge, thresholds). Deterministic.
// An error means that the comparison could not be made; a difference is counted in the proof.
// Cost: rows × trees walks in the engine, the runtime and here; memory is bounded by chunks.
Result<Proof> prove_equal(const ProofRequest& request);

}  // namespace falaj::training
