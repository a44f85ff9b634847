#include "training/xgboost/library.h"

#include <cmath>
#include <limits>
#include <utility>

#include "training/c_library.h"

namespace falaj::training::xgboost {

using Size = std::uint64_t;  // bst_ulong

struct Functions {
  const char* (*last_error)();
  int (*matrix_create)(const float* data, Size rows, Size columns, float missing, void** out);
  int (*matrix_free)(void* matrix);
  int (*booster_create)(void* const* matrices, Size count, void** out);
  int (*booster_set)(void* booster, const char* name, const char* value);
  int (*booster_load)(void* booster, const void* bytes, Size size);
  int (*booster_predict)(void* booster, void* matrix, const char* config, const Size** shape,
                         Size* dimensions, const float** out);
  int (*booster_free)(void* booster);
};

namespace {

constexpr const char* kValues =
    R"({"type":0,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":false})";
constexpr const char* kLeaves =
    R"({"type":6,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":false})";

Error failed(const Functions& functions, const std::string& what) {
  return Error(Code::kInternal, "XGBoost, " + what + ": " + functions.last_error());
}

}  // namespace

Result<Library> open_library(const std::string& path) {
  const CLibrary library = FALAJ_TRY(CLibrary::open(path, "XGBoost 2 or 3"));
  auto f = std::make_shared<Functions>();
  FALAJ_TRY(library.bind("XGBGetLastError", f->last_error));
  FALAJ_TRY(library.bind("XGDMatrixCreateFromMat", f->matrix_create));
  FALAJ_TRY(library.bind("XGDMatrixFree", f->matrix_free));
  FALAJ_TRY(library.bind("XGBoosterCreate", f->booster_create));
  FALAJ_TRY(library.bind("XGBoosterSetParam", f->booster_set));
  FALAJ_TRY(library.bind("XGBoosterLoadModelFromBuffer", f->booster_load));
  FALAJ_TRY(library.bind("XGBoosterPredictFromDMatrix", f->booster_predict));
  FALAJ_TRY(library.bind("XGBoosterFree", f->booster_free));
  return Library(std::move(f));
}

Booster::Booster(Library library, void* handle)
    : library_(std::move(library)),
      handle_(handle, [keep = library_](void* h) { keep->booster_free(h); }) {}

Result<Booster> Booster::load(const Library& library, std::string_view json) {
  void* handle = nullptr;
  if (library->booster_create(nullptr, 0, &handle) != 0) return failed(*library, "starting");
  Booster booster(library, handle);
  if (library->booster_set(handle, "nthread", "1") != 0 ||
      library->booster_load(handle, json.data(), json.size()) != 0) {
    return failed(*library, "loading the model");
  }
  return booster;
}

Result<std::vector<float>> Booster::predict(std::span<const float> matrix, std::size_t columns,
                                            const char* config) const {
  std::vector<float> cells(matrix.begin(), matrix.end());
  for (float& cell : cells) {
    if (std::isinf(cell)) cell = std::copysign(std::numeric_limits<float>::max(), cell);
  }
  void* rows = nullptr;
  if (library_->matrix_create(cells.data(), cells.size() / columns, columns,
                              std::numeric_limits<float>::quiet_NaN(), &rows) != 0) {
    return failed(*library_, "reading rows");
  }
  const std::shared_ptr<void> owned(rows, [&](void* h) { library_->matrix_free(h); });
  const Size* shape = nullptr;
  Size dimensions = 0;
  const float* out = nullptr;
  if (library_->booster_predict(handle_.get(), rows, config, &shape, &dimensions, &out) != 0) {
    return failed(*library_, "predicting");
  }
  Size count = 1;
  for (Size i = 0; i < dimensions; ++i) count *= shape[i];
  return std::vector<float>(out, out + count);
}

Result<std::vector<double>> Booster::scores(std::span<const float> matrix,
                                            std::size_t columns) const {
  const std::vector<float> out = FALAJ_TRY(predict(matrix, columns, kValues));
  return std::vector<double>(out.begin(), out.end());
}

Result<std::vector<std::int32_t>> Booster::leaf_nodes(std::span<const float> matrix,
                                                      std::size_t columns) const {
  const std::vector<float> out = FALAJ_TRY(predict(matrix, columns, kLeaves));
  std::vector<std::int32_t> nodes(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) nodes[i] = static_cast<std::int32_t>(out[i]);
  return nodes;
}

}  // namespace falaj::training::xgboost
