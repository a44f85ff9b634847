#include "training/lightgbm/library.h"

#include <limits>
#include <utility>

#include "training/c_library.h"

namespace falaj::training::lightgbm {

struct Functions {
  const char* (*last_error)();
  int (*dataset_create)(const void* data, int type, std::int32_t rows, std::int32_t columns,
                        int row_major, const char* params, const void* reference, void** out);
  int (*dataset_set_field)(void* dataset, const char* field, const void* data, int count, int type);
  int (*dataset_set_names)(void* dataset, const char** names, int count);
  int (*dataset_free)(void* dataset);
  int (*booster_create)(const void* train, const char* params, void** out);
  int (*booster_load)(const char* text, int* rounds, void** out);
  int (*booster_add_valid)(void* booster, const void* valid);
  int (*booster_update)(void* booster, int* finished);
  int (*booster_count_predict)(void* booster, int data_index, std::int64_t* out);
  int (*booster_get_predict)(void* booster, int data_index, std::int64_t* count, double* out);
  int (*booster_save)(void* booster, int start, int rounds, int importance, std::int64_t capacity,
                      std::int64_t* length, char* out);
  int (*booster_predict)(void* booster, const void* data, int type, std::int32_t rows,
                         std::int32_t columns, int row_major, int kind, int start, int rounds,
                         const char* params, std::int64_t* length, double* out);
  int (*booster_free)(void* booster);
};

namespace {

// Constants of the C ABI.
constexpr int kFloat32 = 0;
constexpr int kRowMajor = 1;
constexpr int kPredictNormal = 0;
constexpr int kPredictLeaf = 2;
constexpr int kPredictContributions = 3;
constexpr int kImportanceGain = 1;

Error failed(const Functions& functions, const std::string& what) {
  return Error(ErrorId::kJobFailed, "LightGBM, " + what + ": " + functions.last_error());
}

Status bind_all(const CLibrary& library, Functions& f) {
  FALAJ_TRY(library.bind("LGBM_GetLastError", f.last_error));
  FALAJ_TRY(library.bind("LGBM_DatasetCreateFromMat", f.dataset_create));
  FALAJ_TRY(library.bind("LGBM_DatasetSetField", f.dataset_set_field));
  FALAJ_TRY(library.bind("LGBM_DatasetSetFeatureNames", f.dataset_set_names));
  FALAJ_TRY(library.bind("LGBM_DatasetFree", f.dataset_free));
  FALAJ_TRY(library.bind("LGBM_BoosterCreate", f.booster_create));
  FALAJ_TRY(library.bind("LGBM_BoosterLoadModelFromString", f.booster_load));
  FALAJ_TRY(library.bind("LGBM_BoosterAddValidData", f.booster_add_valid));
  FALAJ_TRY(library.bind("LGBM_BoosterUpdateOneIter", f.booster_update));
  FALAJ_TRY(library.bind("LGBM_BoosterGetNumPredict", f.booster_count_predict));
  FALAJ_TRY(library.bind("LGBM_BoosterGetPredict", f.booster_get_predict));
  FALAJ_TRY(library.bind("LGBM_BoosterSaveModelToString", f.booster_save));
  FALAJ_TRY(library.bind("LGBM_BoosterPredictForMat", f.booster_predict));
  FALAJ_TRY(library.bind("LGBM_BoosterFree", f.booster_free));
  return {};
}

Result<std::int32_t> row_count(const Matrix& matrix) {
  if (matrix.rows() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return Error(Code::kResourceExhausted, "LightGBM takes at most 2^31 rows, not " +
                                               std::to_string(matrix.rows()) +
                                               "; freeze a training set over a shorter window");
  }
  return static_cast<std::int32_t>(matrix.rows());
}

}  // namespace

Result<Library> open_library(const std::string& path) {
  const CLibrary library = FALAJ_TRY(CLibrary::open(path, "LightGBM 4"));
  auto functions = std::make_shared<Functions>();
  FALAJ_TRY(bind_all(library, *functions));
  return Library(std::move(functions));
}

Dataset::Dataset(Library library, void* handle)
    : library_(std::move(library)),
      handle_(handle, [keep = library_](void* h) { keep->dataset_free(h); }) {}

Result<Dataset> Dataset::create(const Library& library, const Matrix& matrix,
                                std::span<const float> labels, const std::string& params,
                                const Dataset* reference) {
  const std::int32_t rows = FALAJ_TRY(row_count(matrix));
  void* handle = nullptr;
  if (library->dataset_create(matrix.values.data(), kFloat32, rows,
                              static_cast<std::int32_t>(matrix.columns), kRowMajor, params.c_str(),
                              reference == nullptr ? nullptr : reference->handle_.get(),
                              &handle) != 0) {
    return failed(*library, "reading " + std::to_string(rows) + " rows");
  }
  Dataset dataset(library, handle);
  if (library->dataset_set_field(handle, "label", labels.data(), static_cast<int>(labels.size()),
                                 kFloat32) != 0) {
    return failed(*library, "setting labels");
  }
  return dataset;
}

Status Dataset::set_feature_names(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  pointers.reserve(names.size());
  for (const std::string& name : names) pointers.push_back(name.c_str());
  if (library_->dataset_set_names(handle_.get(), pointers.data(),
                                  static_cast<int>(pointers.size())) != 0) {
    return failed(*library_, "naming features");
  }
  return {};
}

Booster::Booster(Library library, void* handle)
    : library_(std::move(library)),
      handle_(handle, [keep = library_](void* h) { keep->booster_free(h); }) {}

Result<Booster> Booster::create(const Library& library, const Dataset& train, const Dataset* valid,
                                const std::string& params) {
  void* handle = nullptr;
  if (library->booster_create(train.handle_.get(), params.c_str(), &handle) != 0) {
    return failed(*library, "starting to train");
  }
  Booster booster(library, handle);
  booster.kept_.push_back(train.handle_);
  if (valid != nullptr) {
    booster.kept_.push_back(valid->handle_);
    if (library->booster_add_valid(handle, valid->handle_.get()) != 0) {
      return failed(*library, "adding the valid rows");
    }
  }
  return booster;
}

Result<Booster> Booster::load(const Library& library, const std::string& model_text) {
  void* handle = nullptr;
  int rounds = 0;
  if (library->booster_load(model_text.c_str(), &rounds, &handle) != 0) {
    return failed(*library, "loading a model");
  }
  return Booster(library, handle);
}

Result<Booster::Step> Booster::train_one_round() {
  int finished = 0;
  if (library_->booster_update(handle_.get(), &finished) != 0) {
    return failed(*library_, "training a round");
  }
  return finished == 0 ? Step::kGrew : Step::kNothingLeftToSplit;
}

Result<std::vector<double>> Booster::valid_scores() const {
  constexpr int kValid = 1;
  std::int64_t count = 0;
  if (library_->booster_count_predict(handle_.get(), kValid, &count) != 0 || count < 0) {
    return failed(*library_, "counting valid scores");
  }
  std::vector<double> scores(static_cast<std::size_t>(count));
  if (library_->booster_get_predict(handle_.get(), kValid, &count, scores.data()) != 0) {
    return failed(*library_, "reading valid scores");
  }
  return scores;
}

Result<std::string> Booster::save(int rounds) const {
  std::string text(1 << 20, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::int64_t length = 0;  // With the closing NUL.
    if (library_->booster_save(handle_.get(), 0, rounds, kImportanceGain,
                               static_cast<std::int64_t>(text.size()), &length, text.data()) != 0) {
      return failed(*library_, "saving the model");
    }
    const bool whole = length <= static_cast<std::int64_t>(text.size());
    text.resize(static_cast<std::size_t>(whole ? length - 1 : length));
    if (whole) return text;
  }
  return Error(Code::kInternal, "LightGBM changed the length of its model while saving it");
}

Result<std::vector<double>> Booster::predict(const Matrix& matrix, int kind,
                                             std::size_t per_row) const {
  const std::int32_t rows = FALAJ_TRY(row_count(matrix));
  std::vector<double> out(matrix.rows() * per_row);
  const std::string params = "verbosity=-1 num_threads=" + std::to_string(threads_);
  std::int64_t length = 0;
  if (library_->booster_predict(handle_.get(), matrix.values.data(), kFloat32, rows,
                                static_cast<std::int32_t>(matrix.columns), kRowMajor, kind, 0, -1,
                                params.c_str(), &length, out.data()) != 0) {
    return failed(*library_, "predicting");
  }
  if (length != static_cast<std::int64_t>(out.size())) {
    return Error(Code::kInternal, "LightGBM predicted " + std::to_string(length) + " values, not " +
                                      std::to_string(out.size()));
  }
  return out;
}

Result<std::vector<double>> Booster::scores(const Matrix& matrix) const {
  return predict(matrix, kPredictNormal, 1);
}

Result<std::vector<std::int32_t>> Booster::leaves(const Matrix& matrix, std::size_t trees) const {
  const std::vector<double> raw = FALAJ_TRY(predict(matrix, kPredictLeaf, trees));
  std::vector<std::int32_t> leaves(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) leaves[i] = static_cast<std::int32_t>(raw[i]);
  return leaves;
}

Result<std::vector<double>> Booster::contributions(const Matrix& matrix) const {
  return predict(matrix, kPredictContributions, matrix.columns + 1);
}

}  // namespace falaj::training::lightgbm
