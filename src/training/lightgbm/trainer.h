// training/lightgbm/trainer.h — the boosting loop: rounds, valid metrics, early stopping.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/engine.h"
#include "training/lightgbm/library.h"
#include "training/lightgbm/params.h"
#include "training/training_data.h"

namespace falaj::training::lightgbm {

struct TrainRequest {
  const TrainingData& data;
  const std::vector<std::string>& features;
  const Params& params;
  std::int64_t threads = 1;
  Report report;
};

struct Trained {
  Objective objective = Objective::kBinary;
  std::string model_text;
  std::int64_t rounds = 0;  // Kept: up to the best one when early stopping is on.
  Value metrics;            // On the valid rows: {"auc", "logloss"} or {"rmse"}; else train_….
};

// Trains and reports each round: {"progress"} from 0 to 1, {"metric", "step", "value"} (step counts
// from 1). Early stopping watches the valid loss (logloss or rmse). FJ-3006 when the wanted
// objective does not fit the labels or early stopping has no valid rows to watch.
Result<Trained> train(const Library& library, const TrainRequest& request);

}  // namespace falaj::training::lightgbm
