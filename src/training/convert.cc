#include "training/convert.h"

#include <random>
#include <utility>

#include "training/export.h"
#include "training/lightgbm/library.h"
#include "training/lightgbm/model_text.h"
#include "training/lightgbm/predictor.h"
#include "training/proof.h"
#include "training/xgboost/library.h"
#include "training/xgboost/model_json.h"

namespace falaj::training {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kPlainRows = 1'000;

// Ordinary numbers of several sizes: what stands in for rows of data, of which we have none.
std::vector<float> plain_rows(std::size_t features) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kPlainRows * features);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    constexpr float kScales[] = {1, 10, 1000, 0.01f};
    rows[i] = normal(random) * kScales[(i / features) % std::size(kScales)];
  }
  return rows;
}

Result<Converted> proven(const ConvertRequest& request, const TreeModel& model,
                         const EnginePredictor& engine, const std::string& name) {
  Converted out;
  out.onnx = onnx::write_trees(to_onnx_trees(model), {{"producer", "falaj"}, {"engine", name}});
  const std::vector<float> rows = plain_rows(model.features);
  const Proof proof = FALAJ_TRY(prove_equal(
      {model, out.onnx, engine, request.onnx, rows, request.verify_rows, kSeed, nullptr}));
  if (proof.mismatches > 0) {
    return Error(ErrorId::kOnnxMismatch,
                 "the ONNX graph differs from the model on " + std::to_string(proof.mismatches) +
                     " of " + std::to_string(proof.rows) + " rows (" + proof.first_mismatch + ")");
  }
  out.proof = to_value(proof);
  return out;
}

Result<Converted> convert_lightgbm(const ConvertRequest& request) {
  const std::string text(request.bytes);
  const TreeModel model = FALAJ_TRY(lightgbm::read_model_text(text));
  const auto library =
      FALAJ_TRY(lightgbm::open_library(request.library_folder + "/lib_lightgbm.so"));
  const lightgbm::Booster booster = FALAJ_TRY(lightgbm::Booster::load(library, text));
  return proven(request, model, lightgbm::predictor_of(booster, model), "lightgbm");
}

// XGBoost's node numbers as leaves of the model.
Result<std::vector<std::int32_t>> leaves_of(const xgboost::JsonModel& model,
                                            std::vector<std::int32_t> nodes) {
  const std::size_t trees = model.leaf_of_node.size();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<std::int32_t>& known = model.leaf_of_node[i % trees];
    const auto node = static_cast<std::size_t>(nodes[i]);
    if (nodes[i] < 0 || node >= known.size()) {
      return Error(ErrorId::kOnnxMismatch, "XGBoost names a node that its model does not have");
    }
    nodes[i] = known[node];
  }
  return nodes;
}

Result<Converted> convert_xgboost(const ConvertRequest& request) {
  const xgboost::JsonModel model = FALAJ_TRY(xgboost::read_model_json(request.bytes));
  const auto library = FALAJ_TRY(xgboost::open_library(request.library_folder + "/libxgboost.so"));
  const xgboost::Booster booster = FALAJ_TRY(xgboost::Booster::load(library, request.bytes));
  const std::size_t columns = model.trees.features;
  const EnginePredictor engine{
      [&](std::span<const float> rows) { return booster.scores(rows, columns); },
      [&](std::span<const float> rows) -> Result<std::vector<std::int32_t>> {
        return leaves_of(model, FALAJ_TRY(booster.leaf_nodes(rows, columns)));
      }};
  return proven(request, model.trees, engine, "xgboost");
}

}  // namespace

Result<Converted> convert_saved(const ConvertRequest& request) {
  return request.saved == Saved::kLightGbmText ? convert_lightgbm(request)
                                               : convert_xgboost(request);
}

}  // namespace falaj::training
