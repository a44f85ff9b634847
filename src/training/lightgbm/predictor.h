// training/lightgbm/predictor.h — LightGBM's own answers, as the proof asks for them.
#pragma once

#include "training/lightgbm/library.h"
#include "training/proof.h"

namespace falaj::training::lightgbm {

// Keeps a reference to the booster.
EnginePredictor predictor_of(const Booster& booster, const TreeModel& model);

}  // namespace falaj::training::lightgbm
