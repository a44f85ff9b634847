// training/proof_rows.h — rows that try to tell an exported tree ensemble from the original.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "training/trees.h"

namespace falaj::training {

struct ProofRowsOptions {
  const TreeModel& model;
  std::span<const float> real_rows;  // Row-major; at least one row.
  std::int64_t rows_min = 100'000;
  std::uint64_t seed = 0;
};

// A stream of rows, in this order: aimed ones (four a split: a row that reaches the split by
// satisfying every split above it, with the float at the threshold, one ulp above, one below, and
// NaN), mixtures of special values, real rows as they are. Deterministic. Keeps references to the
// model and the rows.
class ProofRows {
 public:
  explicit ProofRows(const ProofRowsOptions& options);

  // Fills `out` with up to `rows` rows; false, and `out` empty, at the end.
  bool next(std::size_t rows, std::vector<float>& out);
  std::int64_t total() const { return aimed_ + mixed_ + real_; }
  std::int64_t aimed() const { return aimed_; }
  std::int64_t real() const { return real_; }

 private:
  struct Aim {
    std::uint32_t tree = 0;
    std::uint32_t node = 0;
  };
  void collect();
  void fill_aimed(std::int64_t index, std::span<float> row);
  void fill_mixed(std::span<float> row);
  std::span<const float> base_row(std::uint64_t index) const;
  float special(std::size_t feature);

  const TreeModel& model_;
  const std::span<const float> real_rows_;
  std::mt19937_64 random_;
  std::vector<Aim> aims_;
  std::vector<std::vector<std::int32_t>> parents_;  // [tree][node]; -1 for a root.
  std::vector<std::vector<float>> thresholds_;      // [feature]
  std::int64_t aimed_ = 0;
  std::int64_t mixed_ = 0;
  std::int64_t real_ = 0;
  std::int64_t done_ = 0;
};

}  // namespace falaj::training
