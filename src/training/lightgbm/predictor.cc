#include "training/lightgbm/predictor.h"

namespace falaj::training::lightgbm {

EnginePredictor predictor_of(const Booster& booster, const TreeModel& model) {
  const std::size_t columns = model.features;
  const std::size_t trees = model.trees.size();
  return {[&booster, columns](std::span<const float> rows) {
            return booster.scores(Matrix{rows, columns});
          },
          [&booster, columns, trees](std::span<const float> rows) {
            return booster.leaves(Matrix{rows, columns}, trees);
          }};
}

}  // namespace falaj::training::lightgbm
