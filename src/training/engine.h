// training/engine.h — what runs inside the training process: data in, model and proof out.
//
// The process gets a folder with `train.json` (EngineConfig) and writes into it: model.txt (the
// engine's own), model.onnx, result.json {metrics, proof, signature}; or, when it fails, error.json
// {code: "FJ-4006", message}. It reports one JSON object a line on descriptor 3: {"progress": 0.4},
// {"metric": "auc", "step": 40, "value": 0.91}.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/value.h"

namespace falaj::training {

// Runs an ONNX file on a float matrix (rows × columns, row-major); returns the probability (or the
// regression value) per row. A port: `app` passes ONNX Runtime, which this module does not know.
using OnnxRunner = std::function<Result<std::vector<float>>(
    const std::string& onnx_path, std::span<const float> matrix, std::size_t columns)>;
using Report = std::function<void(const Value&)>;

struct EngineConfig {
  std::string data;  // Parquet of a frozen training set.
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

// Trains in `folder` as described above. Deterministic: the same config gives the same bytes.
// FJ-4006 when the ONNX graph and the engine disagree on any replayed row: model.onnx is then
// removed and there is no result.json. FJ-4007 when the engine's library cannot be opened.
Status run_engine(const std::string& folder, const OnnxRunner& onnx, const Report& report);

// Area under the ROC curve with ties counted half; 0.5 when one class is missing.
double auc(std::span<const float> scores, std::span<const std::uint8_t> labels);

}  // namespace falaj::training
