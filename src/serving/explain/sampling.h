// serving/explain/sampling.h — Shapley values of any function, estimated.
//
// The features of a row are set one by one, in a random order, into a row of the background; what
// each changes in the score is its part. The same order backwards goes with it (an antithetic
// pair), which takes out most of what the order alone would cause. Pure but for what it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"

namespace falaj::serving::explain {

// Rows that are mixed of one explained row and one row of the background each.
struct Mixed {
  std::size_t row = 0;                        // Which is explained.
  std::span<const std::uint32_t> background;  // Of each mixed row: which it is mixed with.
  std::span<const std::uint8_t> taken;        // Of each and each feature: 1 from the explained row.
};
// A score for each mixed row, in order.
using Score = std::function<Result<std::vector<double>>(const Mixed& mixed)>;

struct SamplingOptions {
  std::size_t rows = 0;
  std::size_t background = 0;
  std::size_t features = 0;
  std::size_t pairs_max = 256;  // Of each row; at least two.
  std::uint64_t seed = 0;
  std::size_t call_rows_max = 2048;  // Mixed rows of one call of `score`; or those of one pair.
  std::function<bool()> late;        // Asked before each call, which begin small and grow.
};

struct Sampled {
  double base = 0;   // Mean score of the background rows that were drawn.
  double value = 0;  // Of the row itself: base + the sum of contributions.
  std::vector<double> contributions;
  std::vector<double> errors;  // One standard error of each.
  std::size_t pairs = 0;
};

// One for each row. Stops at pairs_max or once it is late; every row has the same number of pairs,
// or one call's more. FJ-0013 when it is late before each has two; FJ-0006 when a score is not
// finite; an error of `score` is passed on. Equal input and answers give equal numbers.
Result<std::vector<Sampled>> sample(const SamplingOptions& options, const Score& score);

}  // namespace falaj::serving::explain
