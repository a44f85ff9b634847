#include "serving/explain/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace falaj::serving::explain {
namespace {

// Rows of a game whose Shapley values are known: f = 3a + b·c + 1, over two backgrounds.
constexpr std::size_t kFeatures = 3;
const std::vector<std::vector<double>> kRows{{2, 3, 4}, {-1, 0.5, 2}};
const std::vector<std::vector<double>> kBackground{{0, 1, 1}, {1, 0, 2}};

double f(const std::vector<double>& x) { return 3 * x[0] + x[1] * x[2] + 1; }

Result<std::vector<double>> score(const Mixed& mixed) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < mixed.background.size(); ++i) {
    std::vector<double> x = kBackground[mixed.background[i]];
    for (std::size_t j = 0; j < kFeatures; ++j) {
      if (mixed.taken[i * kFeatures + j] != 0) x[j] = kRows[mixed.row][j];
    }
    scores.push_back(f(x));
  }
  return scores;
}

SamplingOptions options() {
  SamplingOptions made;
  made.rows = kRows.size();
  made.background = kBackground.size();
  made.features = kFeatures;
  return made;
}

// Of f against one background: a is linear, b and c share their product's change.
std::vector<double> exact(const std::vector<double>& x) {
  std::vector<double> out(kFeatures, 0.0);
  for (const auto& b : kBackground) {
    out[0] += 3 * (x[0] - b[0]) / 2;
    out[1] += ((x[1] - b[1]) * b[2] + (x[1] - b[1]) * x[2]) / 2 / 2;
    out[2] += ((x[2] - b[2]) * b[1] + (x[2] - b[2]) * x[1]) / 2 / 2;
  }
  return out;
}

// A pair holds both orders of b and c, so that two backgrounds drawn equally often leave no error.
TEST(Sampling, finds_the_values_of_a_known_game) {
  const auto sampled = sample(options(), score).value();
  ASSERT_EQ(sampled.size(), kRows.size());
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    const std::vector<double> expected = exact(kRows[row]);
    EXPECT_EQ(sampled[row].pairs, 256u);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      EXPECT_NEAR(sampled[row].contributions[i], expected[i], 1e-12) << row << " " << i;
      EXPECT_GT(sampled[row].errors[i], 0);
    }
    EXPECT_NEAR(sampled[row].base, (f(kBackground[0]) + f(kBackground[1])) / 2, 1e-12);
    EXPECT_EQ(sampled[row].value, f(kRows[row]));
  }
}

TEST(Sampling, adds_up_whenever_it_stops) {
  for (int calls = 2; calls < 12; ++calls) {
    SamplingOptions short_of = options();
    int asked = 0;
    // Two looks for the rows themselves, then one before each call.
    short_of.late = [&] { return ++asked > 2 + 2 * calls; };
    for (const Sampled& each : sample(short_of, score).value()) {
      EXPECT_LT(each.pairs, 256u);
      EXPECT_GE(each.pairs, 2u);
      const double sum =
          std::accumulate(each.contributions.begin(), each.contributions.end(), each.base);
      EXPECT_NEAR(sum, each.value, 1e-12);
    }
  }
}

TEST(Sampling, says_when_there_was_no_time) {
  for (int looks = 0; looks < 6; ++looks) {
    SamplingOptions none = options();
    int asked = 0;
    none.late = [&] { return ++asked > looks; };
    const auto refused = sample(none, score);
    ASSERT_FALSE(refused.ok()) << looks;
    EXPECT_EQ(refused.error().id, ErrorId::kDeadlineExceeded);
  }
}

// Sixteen pairs of a seed against the truth, over many seeds: the error it states is the error it
// makes.
TEST(Sampling, states_its_error_truly) {
  SamplingOptions few = options();
  few.pairs_max = 16;
  const Score noisy = [](const Mixed& mixed) -> Result<std::vector<double>> {
    std::vector<double> scores = score(mixed).value();
    // Depends on the order of all three features.
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::uint8_t* const taken = &mixed.taken[i * kFeatures];
      scores[i] += 5 * taken[0] * taken[1] * (1 - taken[2]);
    }
    return scores;
  };
  double squares = 0;
  double stated = 0;
  SamplingOptions many = few;
  many.pairs_max = 20'000;
  const double truth = sample(many, noisy).value()[0].contributions[2];
  constexpr std::uint64_t kSeeds = 400;
  for (few.seed = 1; few.seed <= kSeeds; ++few.seed) {
    const Sampled each = sample(few, noisy).value()[0];
    squares += std::pow(each.contributions[2] - truth, 2) / kSeeds;
    stated += std::pow(each.errors[2], 2) / kSeeds;
  }
  // The background is gone through evenly, which makes it a little better than stated.
  EXPECT_LT(squares, stated * 1.2);
  EXPECT_GT(squares, stated * 0.2);
}

TEST(Sampling, equal_questions_have_equal_answers) {
  SamplingOptions same = options();
  same.pairs_max = 7;
  same.seed = 9;
  EXPECT_EQ(sample(same, score).value()[1].contributions,
            sample(same, score).value()[1].contributions);
}

TEST(Sampling, a_single_feature_has_all_of_it) {
  SamplingOptions one = options();
  one.features = 1;
  one.rows = 1;
  const auto sampled = sample(one, [](const Mixed& mixed) -> Result<std::vector<double>> {
    std::vector<double> scores;
    for (std::size_t i = 0; i < mixed.background.size(); ++i) {
      scores.push_back(mixed.taken[i] != 0 ? 10 : 1);
    }
    return scores;
  });
  EXPECT_EQ(sampled.value()[0].contributions, std::vector<double>{9});
}

TEST(Sampling, passes_on_what_the_model_does_wrong) {
  const auto failing = sample(options(), [](const Mixed&) -> Result<std::vector<double>> {
    return Error(ErrorId::kTensorMismatch, "no");
  });
  EXPECT_EQ(failing.error().id, ErrorId::kTensorMismatch);
  const auto infinite = sample(options(), [](const Mixed& mixed) -> Result<std::vector<double>> {
    return std::vector<double>(mixed.background.size(), std::nan(""));
  });
  EXPECT_EQ(infinite.error().id, ErrorId::kFailedPrecondition);
  const auto short_of = sample(
      options(), [](const Mixed&) -> Result<std::vector<double>> { return std::vector<double>(); });
  EXPECT_EQ(short_of.error().id, ErrorId::kTensorMismatch);
  SamplingOptions none = options();
  none.background = 0;
  EXPECT_FALSE(sample(none, score).ok());
}

}  // namespace
}  // namespace falaj::serving::explain
