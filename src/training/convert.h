// training/convert.h — tree models that LightGBM or XGBoost saved elsewhere, as ONNX.
//
// For a process that may die of what it reads: the engine's own library opens the bytes, to be the
// witness of the proof.
#pragma once

#include <string>
#include <string_view>

#include "base/value.h"
#include "training/engine.h"

namespace falaj::training {

enum class Saved : std::uint8_t { kLightGbmText, kXgboostJson };

struct ConvertRequest {
  std::string_view bytes;
  Saved saved = Saved::kLightGbmText;
  std::string library_folder;  // With lib_lightgbm.so and libxgboost.so.
  const OnnxRunner& onnx;
  std::int64_t verify_rows = 100'000;
};

struct Converted {
  std::string onnx;
  Value proof;  // As of a training: how many rows were compared, and how close they came.
};

// Reads, converts, and compares with the engine row by row: at every split its threshold, the
// floats beside it and NaN; then random rows. FJ-4006 on any difference; the readers' errors for
// what cannot be brought in (lightgbm/model_text.h, xgboost/model_json.h); FJ-4007 without the
// library. Cost: as the proof of a training, seconds.
Result<Converted> convert_saved(const ConvertRequest& request);

}  // namespace falaj::training
