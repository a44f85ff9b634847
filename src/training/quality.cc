#include "training/quality.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "training/engine.h"

namespace falaj::training {

double logloss(std::span<const double> probabilities, std::span<const float> labels) {
  constexpr double kEdge = 1e-15;
  FALAJ_CHECK(probabilities.size() == labels.size());
  double sum = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double p = std::clamp(probabilities[i], kEdge, 1 - kEdge);
    sum -= labels[i] > 0.5f ? std::log(p) : std::log1p(-p);
  }
  return labels.empty() ? 0 : sum / static_cast<double>(labels.size());
}

double rmse(std::span<const double> values, std::span<const float> labels) {
  FALAJ_CHECK(values.size() == labels.size());
  double sum = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double error = values[i] - static_cast<double>(labels[i]);
    sum += error * error;
  }
  return labels.empty() ? 0 : std::sqrt(sum / static_cast<double>(labels.size()));
}

// Mann–Whitney: the share of (positive, negative) pairs in the right order, ties counted half.
double auc(std::span<const float> scores, std::span<const std::uint8_t> labels) {
  FALAJ_CHECK(scores.size() == labels.size());
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<float, bool>> ranked(scores.size());  // (score, positive)
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    // NaN has no order, which sorting needs: it ranks below everything.
    ranked[i] = {std::isnan(scores[i]) ? kLowest : scores[i], labels[i] != 0};
  }
  std::sort(ranked.begin(), ranked.end());
  double negatives_below = 0;
  double pairs_won = 0;
  double positives = 0;
  for (std::size_t i = 0; i < ranked.size();) {
    double tied_positives = 0;
    double tied_negatives = 0;
    const float score = ranked[i].first;
    for (; i < ranked.size() && ranked[i].first == score; ++i) {
      (ranked[i].second ? tied_positives : tied_negatives) += 1;
    }
    pairs_won += tied_positives * (negatives_below + tied_negatives / 2);
    positives += tied_positives;
    negatives_below += tied_negatives;
  }
  const double pairs = positives * negatives_below;
  return pairs == 0 ? 0.5 : pairs_won / pairs;
}

}  // namespace falaj::training
