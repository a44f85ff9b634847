// training/lightgbm/library.h — LightGBM through its C ABI, opened at run time.
//
// The library is never linked: a server that trains nothing does not load it. Handles are owned
// and freed; its error texts become Error. Calls on one handle come from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace falaj::training::lightgbm {

struct Functions;  // The C functions in use; see library.cc.
using Library = std::shared_ptr<const Functions>;

// FJ-4007 with the path and the loader's words when the library or a function is missing.
// The library stays loaded for the life of the process: its OpenMP threads outlive any handle.
Result<Library> open_library(const std::string& path);

// A row-major float matrix, not owned.
struct Matrix {
  std::span<const float> values;
  std::size_t columns = 0;
  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

// Binned training data.
class Dataset {
 public:
  // `reference` (or nullptr) lends its bins: a valid set is binned as its training set.
  static Result<Dataset> create(const Library& library, const Matrix& matrix,
                                std::span<const float> labels, const std::string& params,
                                const Dataset* reference);
  Status set_feature_names(const std::vector<std::string>& names);

 private:
  friend class Booster;
  Dataset(Library library, void* handle);
  Library library_;
  std::shared_ptr<void> handle_;
};

// A model being trained, or one that was loaded.
class Booster {
 public:
  // Keeps both sets alive. `valid` may be nullptr.
  static Result<Booster> create(const Library& library, const Dataset& train, const Dataset* valid,
                                const std::string& params);
  static Result<Booster> load(const Library& library, const std::string& model_text);

  enum class Step : std::uint8_t { kGrew, kNothingLeftToSplit };
  Result<Step> train_one_round();
  // Current output (probability, or value) for each row of the valid set.
  Result<std::vector<double>> valid_scores() const;
  // The model of the first `rounds` rounds as text; splits are counted by gain in its importances.
  Result<std::string> save(int rounds) const;
  // Output per row of `matrix`.
  Result<std::vector<double>> scores(const Matrix& matrix) const;
  // rows × trees: the leaf each row ends in.
  Result<std::vector<std::int32_t>> leaves(const Matrix& matrix, std::size_t trees) const;
  // rows × (features + 1): what each feature added to the sum of the trees, then what that sum is
  // when nothing is known.
  Result<std::vector<double>> contributions(const Matrix& matrix) const;
  // For prediction.
  void set_threads(std::int64_t threads) { threads_ = threads; }

 private:
  Booster(Library library, void* handle);
  Result<std::vector<double>> predict(const Matrix& matrix, int kind, std::size_t per_row) const;
  Library library_;
  std::vector<std::shared_ptr<void>> kept_;  // Data sets, freed after the booster.
  std::shared_ptr<void> handle_;
  std::int64_t threads_ = 1;
};

}  // namespace falaj::training::lightgbm
