#include "training/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "training/engine.h"

namespace falaj::training {
namespace {

TEST(Auc, counts_pairs_in_the_right_order) {
  const std::vector<float> scores{0.1f, 0.4f, 0.35f, 0.8f};
  const std::vector<std::uint8_t> labels{0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(auc(scores, labels), 0.75);
}

TEST(Auc, counts_ties_half) {
  const std::vector<float> scores{0.5f, 0.5f, 0.5f, 0.9f};
  const std::vector<std::uint8_t> labels{0, 1, 0, 1};
  EXPECT_DOUBLE_EQ(auc(scores, labels), 0.75);
}

TEST(Auc, is_a_half_without_one_of_the_classes) {
  EXPECT_DOUBLE_EQ(auc({}, {}), 0.5);
  const std::vector<float> scores{0.2f, 0.7f};
  EXPECT_DOUBLE_EQ(auc(scores, std::vector<std::uint8_t>{1, 1}), 0.5);
}

TEST(Auc, ranks_nan_below_everything) {
  const std::vector<float> scores{std::numeric_limits<float>::quiet_NaN(), 0.1f, 0.2f};
  EXPECT_DOUBLE_EQ(auc(scores, std::vector<std::uint8_t>{0, 1, 1}), 1.0);
}

TEST(Auc, agrees_with_counting_every_pair) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<float> scores;
    std::vector<std::uint8_t> labels;
    for (int i = 0; i < 40; ++i) {
      scores.push_back(static_cast<float>(random() % 12));
      labels.push_back(static_cast<std::uint8_t>(random() % 2));
    }
    double won = 0;
    double pairs = 0;
    for (std::size_t p = 0; p < labels.size(); ++p) {
      for (std::size_t n = 0; n < labels.size(); ++n) {
        if (labels[p] == 0 || labels[n] == 1) continue;
        pairs += 1;
        won += scores[p] > scores[n] ? 1 : scores[p] == scores[n] ? 0.5 : 0;
      }
    }
    EXPECT_NEAR(auc(scores, labels), pairs == 0 ? 0.5 : won / pairs, 1e-12);
  }
}

TEST(Logloss, is_the_mean_and_stays_finite_at_the_edges) {
  const std::vector<double> probabilities{0.25, 0.5};
  const std::vector<float> labels{1, 0};
  EXPECT_NEAR(logloss(probabilities, labels), (std::log(4.0) + std::log(2.0)) / 2, 1e-12);
  EXPECT_TRUE(std::isfinite(logloss(std::vector<double>{0.0}, std::vector<float>{1})));
}

TEST(Rmse, is_the_root_of_the_mean_square) {
  EXPECT_DOUBLE_EQ(rmse(std::vector<double>{1, 5}, std::vector<float>{1, 1}), std::sqrt(8.0));
}

}  // namespace
}  // namespace falaj::training
