// training/quality.h — how good scores are, beside auc() in engine.h. Pure.
#pragma once

#include <span>

namespace falaj::training {

// Mean negative log likelihood of 0/1 labels; probabilities are kept 1e-15 away from 0 and 1.
double logloss(std::span<const double> probabilities, std::span<const float> labels);
// Root of the mean squared error.
double rmse(std::span<const double> values, std::span<const float> labels);

}  // namespace falaj::training
