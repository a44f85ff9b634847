// training/engine.h — what runs inside the training process: data in, model and proof out.
//
// Nothing of it ever lies in a file: the process gets and gives everything through descriptors
// (training/engine_process.h). It reports one JSON object a line on descriptor 3:
// {"progress": 0.4}, {"metric": "auc", "step": 40, "value": 0.91}.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/value.h"

namespace falaj::training {

// Runs an ONNX model on a float matrix (rows × columns, row-major); returns the probability (or the
// regression value) per row. Called many times with one model. A port: `app` passes ONNX Runtime,
// which this module does not know.
using OnnxRunner = std::function<Result<std::vector<float>>(
    std::string_view onnx, std::span<const float> matrix, std::size_t columns)>;
using Report = std::function<void(const Value&)>;

struct EngineConfig {
  std::vector<std::string> features;
  std::string label;
  std::string engine;  // "lightgbm"
  Value params;
  std::int64_t threads = 2;
  std::int64_t verify_rows = 100'000;
  std::string library;       // lib_lightgbm.so
  std::string training_set;  // Manifest id; kept in the model's metadata.
};
Value to_value(const EngineConfig& config);
Result<EngineConfig> engine_config_from_value(const Value& value);

struct EngineOutput {
  Value result;            // {objective, rounds, rows_train, rows_valid, metrics, proof, signature}
  std::string model_text;  // The engine's own form.
  std::string model_onnx;
};

// Trains on `data`, the Parquet of a frozen training set. Deterministic: the same config and data
// give the same bytes. FJ-4006 when the ONNX graph and the engine disagree on any replayed row.
// FJ-4007 when the engine's library cannot be opened.
Result<EngineOutput> run_engine(const EngineConfig& config, const ByteReader& data,
                                const OnnxRunner& onnx, const Report& report);

// Area under the ROC curve with ties counted half; 0.5 when one class is missing.
double auc(std::span<const float> scores, std::span<const std::uint8_t> labels);

}  // namespace falaj::training
