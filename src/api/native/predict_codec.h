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
enum class Commits : std::uint8_t { kNo, kYes };
struct PredictAnswer {
  Explain explain = Explain::kNo;
  Commits commits = Commits::kNo;
};

// The first and the last commit that the features of these predictions were read at.
std::pair<std::uint64_t, std::uint64_t> commits_of(
    std::span<const serving::EntityPrediction> predictions);

// {"deployment","model","version"[,"commits":{"first","last"}],
//  "predictions":[{"entity","score"[,"features","statuses"]}]}
std::string write_predictions(std::string_view deployment, const PredictRequest& request,
                              std::span<const serving::EntityPrediction> predictions,
                              PredictAnswer answer);

}  // namespace falaj::api
