// api/native/predict_codec.h — the bytes of :predict, read once and written without a tree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serving/deployments.h"

namespace falaj::api {

using features::EntityKeys;

struct PredictRequest {
  std::vector<EntityKeys> entities;
  static constexpr std::size_t kEntitiesMax = 1000;
};

// {"entity": {…}} or {"entities": [{…}, …]}. Ids are whole numbers or texts.
// FJ-1001 malformed, FJ-1003 unknown member, FJ-1005 wrong type, FJ-1006 too many.
// `into` is overwritten: given again and again, it costs no memory.
Status parse_predict(std::string_view body, PredictRequest& into);

enum class Explain : std::uint8_t { kNo, kYes };

// {"deployment","model","version","predictions":[{"entity","score"[,"features","statuses"]}]}
std::string write_predictions(std::string_view deployment, const PredictRequest& request,
                              std::span<const serving::EntityPrediction> predictions,
                              Explain explain);

}  // namespace falaj::api
