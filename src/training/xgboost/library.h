// training/xgboost/library.h — XGBoost through its C ABI, opened at run time: a model that was
// loaded, and its own answers.
//
// Never linked, as LightGBM (training/lightgbm/library.h). Calls on one booster come from one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::training::xgboost {

struct Functions;  // The C functions in use; see library.cc.
using Library = std::shared_ptr<const Functions>;

// FJ-4007 with the path and the loader's words when the library or a function is missing.
Result<Library> open_library(const std::string& path);

class Booster {
 public:
  // From JSON; kInternal with XGBoost's words when it does not take it.
  static Result<Booster> load(const Library& library, std::string_view json);

  // Output (probability, or value) per row of a row-major matrix. NaN is missing; XGBoost takes no
  // infinities, so they are shown to it as the largest floats, which no split tells from them.
  Result<std::vector<double>> scores(std::span<const float> matrix, std::size_t columns) const;
  // rows × trees: XGBoost's number of the node that each row ends in.
  Result<std::vector<std::int32_t>> leaf_nodes(std::span<const float> matrix,
                                               std::size_t columns) const;

 private:
  Booster(Library library, void* handle);
  Result<std::vector<float>> predict(std::span<const float> matrix, std::size_t columns,
                                     const char* config) const;
  Library library_;
  std::shared_ptr<void> handle_;
};

}  // namespace falaj::training::xgboost
