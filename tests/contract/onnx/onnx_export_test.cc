// The exported graph in ONNX Runtime against LightGBM itself, on over 100 000 rows; and what our
// own trees say of each feature against what LightGBM says of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/json.h"
#include "serving/runtime.h"
#include "serving/trees/trees_runtime.h"
#include "table/io.h"
#include "training/engine.h"
#include "training/export.h"
#include "training/lightgbm/model_text.h"
#include "training/lightgbm/trainer.h"
#include "training/proof.h"
#include "training/proof_rows.h"
#include "training/testing/samples.h"

namespace falaj::training {
namespace {

using testing::LabelKind;

serving::Runtime& runtime() {
  static const auto opened = [] {
    auto runtime = serving::open_onnx_runtime({FALAJ_ONNXRUNTIME, 1});
    EXPECT_TRUE(runtime.ok()) << runtime.error().message;
    return std::move(runtime).value();
  }();
  return *opened;
}

// Loads the file once.
OnnxRunner runtime_runner() {
  auto session = std::make_shared<std::unique_ptr<serving::Session>>();
  return [session](std::string_view graph, std::span<const float> matrix,
                   std::size_t columns) -> Result<std::vector<float>> {
    if (*session == nullptr) *session = FALAJ_TRY(runtime().load_bytes(graph));
    std::vector<float> scores;
    FALAJ_TRY((*session)->score(matrix, columns, scores));
    return scores;
  };
}

class OnnxExport : public ::testing::Test {
 protected:
  void train(LabelKind kind, std::uint64_t seed, lightgbm::Params params = {}) {
    data_ = testing::sample_data(20'000, 12, kind, seed);
    train_on(data_, params);
  }

  void train_on(const TrainingData& data, const lightgbm::Params& params) {
    const auto names = testing::feature_names(data.columns);
    auto trained =
        lightgbm::train(testing::library(), {data, names, params, 2, [](const Value&) {}});
    ASSERT_TRUE(trained.ok()) << trained.error().message;
    text_ = trained->model_text;
    auto model = lightgbm::read_model_text(text_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
  }

  Result<Proof> prove(const onnx::Trees& trees) {
    const std::string graph = onnx::write_trees(trees, {});
    auto booster = FALAJ_TRY(lightgbm::Booster::load(testing::library(), text_));
    booster.set_threads(2);
    const EnginePredictor engine{
        [&](std::span<const float> rows) {
          return booster.scores({rows, model_.features});
        },
        [&](std::span<const float> rows) {
          return booster.leaves({rows, model_.features}, model_.trees.size());
        }};
    return prove_equal(
        {model_, graph, engine, runtime_runner(), data_.valid.values, 100'000, 1, {}});
  }

  void expect_equal() {
    const auto proof = prove(to_onnx_trees(model_));
    ASSERT_TRUE(proof.ok()) << proof.error().message;
    EXPECT_EQ(proof->mismatches, 0) << proof->first_mismatch;
    EXPECT_GE(proof->rows, 100'000);
    RecordProperty("rows", std::to_string(proof->rows));
    RecordProperty("max_abs_diff", std::to_string(proof->max_abs_diff));
  }

  // Our own trees against ONNX Runtime, bit by bit, on the rows of the proof.
  void expect_own_trees_to_answer_alike() {
    const std::string bytes = onnx::write_trees(to_onnx_trees(model_), {});
    telemetry::Metrics metrics;
    const auto own_runtime = serving::with_own_trees(
        serving::open_onnx_runtime({FALAJ_ONNXRUNTIME, 1}).value(), 1, metrics);
    const auto own = own_runtime->load_bytes(bytes).value();
    const auto theirs = runtime().load_bytes(bytes).value();
    ASSERT_NE(metrics.exposition().find("models_loaded_total{scorer=\"trees\"} 1"),
              std::string::npos);
    ProofRows source({model_, data_.valid.values, 50'000, 2});
    std::vector<float> chunk;
    std::vector<float> got;
    std::vector<float> expected;
    std::size_t rows = 0;
    while (source.next(1'000, chunk)) {
      ASSERT_TRUE(own->score(chunk, model_.features, got).ok());
      ASSERT_TRUE(theirs->score(chunk, model_.features, expected).ok());
      ASSERT_EQ(got.size(), expected.size());
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
      rows += got.size();
    }
    EXPECT_GE(rows, 50'000u);
    RecordProperty("own_rows", std::to_string(rows));
  }

  // What each feature added, against LightGBM's own account of it. Leaves are rounded to float32 on
  // export, and nothing else differs.
  void expect_own_trees_to_explain_alike() {
    telemetry::Metrics metrics;
    const auto own_runtime = serving::with_own_trees(
        serving::open_onnx_runtime({FALAJ_ONNXRUNTIME, 1}).value(), 1, metrics);
    const auto own = own_runtime->load_bytes(onnx::write_trees(to_onnx_trees(model_), {})).value();
    const serving::RowExplainer* const explainer = own->explainer();
    ASSERT_NE(explainer, nullptr);
    const auto booster = lightgbm::Booster::load(testing::library(), text_).value();
    const std::size_t columns = model_.features;
    const std::size_t rows = std::min<std::size_t>(1'000, data_.valid.values.size() / columns);
    const auto matrix = std::span<const float>(data_.valid.values).first(rows * columns);
    const std::vector<double> expected = booster.contributions({matrix, columns}).value();
    std::vector<double> got(columns);
    for (std::size_t row = 0; row < rows; ++row) {
      ASSERT_TRUE(
          explainer->explain(matrix.subspan(row * columns, columns), got, [] { return false; })
              .ok());
      const double* const theirs = &expected[row * (columns + 1)];
      for (std::size_t i = 0; i < columns; ++i) {
        ASSERT_NEAR(got[i], theirs[i], 1e-6 * (1 + std::abs(theirs[i]))) << row << " " << i;
      }
      const double base = theirs[columns];
      ASSERT_NEAR(explainer->base(), base, 1e-6 * (1 + std::abs(base)));
    }
  }

  // Runs all valid rows and compares each label with its probabilities.
  void expect_labels_to_follow(serving::Session& session) {
    const auto rows = static_cast<std::int64_t>(data_.valid.count());
    const auto columns = static_cast<std::int64_t>(data_.columns);
    serving::Tensor input{"input", "FP32", {rows, columns}, {}};
    input.bytes.resize(data_.valid.values.size() * sizeof(float));
    std::memcpy(input.bytes.data(), data_.valid.values.data(), input.bytes.size());
    const auto outputs = session.run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    std::vector<std::int64_t> labels(data_.valid.count());
    std::vector<float> probabilities(2 * data_.valid.count());
    ASSERT_EQ((*outputs)[0].bytes.size(), labels.size() * sizeof(std::int64_t));
    ASSERT_EQ((*outputs)[1].bytes.size(), probabilities.size() * sizeof(float));
    std::memcpy(labels.data(), (*outputs)[0].bytes.data(), (*outputs)[0].bytes.size());
    std::memcpy(probabilities.data(), (*outputs)[1].bytes.data(), (*outputs)[1].bytes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      ASSERT_NEAR(probabilities[2 * i] + probabilities[2 * i + 1], 1, 1e-6);
      ASSERT_EQ(labels[i], probabilities[2 * i + 1] > 0.5f ? 1 : 0) << "row " << i;
    }
  }

  testing::TempFolder folder_;
  TrainingData data_;
  std::string text_;
  TreeModel model_;
};

TEST_F(OnnxExport, a_classifier_equals_lightgbm_on_every_row) {
  train(LabelKind::kClasses, 31);
  expect_equal();
  expect_own_trees_to_answer_alike();
  expect_own_trees_to_explain_alike();
}

TEST_F(OnnxExport, a_regression_equals_lightgbm_on_every_row) {
  train(LabelKind::kAmounts, 32);
  expect_equal();
  expect_own_trees_to_explain_alike();
  expect_own_trees_to_answer_alike();
}

// The runtime takes such weights for probabilities, and labels by another threshold.
TEST_F(OnnxExport, a_classifier_whose_leaves_are_all_positive_keeps_its_labels) {
  data_ = testing::sample_data(4'000, 5, LabelKind::kClasses, 33);
  // A little over half is of class 1: each sum lies between 0 and 0.5.
  for (std::size_t i = 0; i < data_.train.count(); ++i) {
    data_.train.labels[i] = i % 7 < 4 ? 1.0f : 0.0f;
  }
  lightgbm::Params params;
  params.rounds = 1;
  params.num_leaves = 3;
  train_on(data_, params);
  for (const double leaf : model_.trees[0].leaves) ASSERT_TRUE(leaf > 0 && leaf < 0.5) << leaf;
  expect_equal();
  auto session = runtime().load_bytes(onnx::write_trees(to_onnx_trees(model_), {}));
  ASSERT_TRUE(session.ok()) << session.error().message;
  expect_labels_to_follow(**session);
}

TEST_F(OnnxExport, a_constant_model_runs) {
  data_ = testing::sample_data(4'000, 5, LabelKind::kClasses, 34);
  for (float& label : data_.train.labels) label = 0;
  train_on(data_, {});
  ASSERT_TRUE(model_.trees[0].nodes.empty());
  expect_equal();
}

TEST_F(OnnxExport, thresholds_rounded_to_nearest_are_caught) {
  train(LabelKind::kClasses, 35);
  onnx::Trees trees = to_onnx_trees(model_);
  std::size_t at = 0;
  for (const Tree& tree : model_.trees) {
    for (const TreeNode& node : tree.nodes) trees.values[at++] = static_cast<float>(node.threshold);
    at += tree.leaves.size();
  }
  const auto proof = prove(trees);
  ASSERT_TRUE(proof.ok()) << proof.error().message;
  EXPECT_GT(proof->mismatches, 0);
}

TEST_F(OnnxExport, outputs_are_the_declared_tensors) {
  train(LabelKind::kClasses, 36);
  auto session = runtime().load_bytes(onnx::write_trees(to_onnx_trees(model_), {}));
  ASSERT_TRUE(session.ok()) << session.error().message;
  const registry::Signature& signature = (*session)->signature();
  ASSERT_EQ(signature.inputs.size(), 1u);
  EXPECT_EQ(signature.inputs[0], (registry::TensorSpec{"input", "FP32", {-1, 12}}));
  ASSERT_EQ(signature.outputs.size(), 2u);
  EXPECT_EQ(signature.outputs[0], (registry::TensorSpec{"label", "INT64", {-1}}));
  EXPECT_EQ(signature.outputs[1], (registry::TensorSpec{"probabilities", "FP32", {-1, 2}}));
  expect_labels_to_follow(**session);
}

TEST_F(OnnxExport, the_engine_proves_its_model_in_the_runtime) {
  EngineConfig config;
  TextWriter data;
  ASSERT_TRUE(table::write_table(data, table::Format::kParquet,
                                 testing::sample_batch(20'000, 12, LabelKind::kClasses, 37))
                  .ok());
  config.features = testing::feature_names(12);
  config.label = "label";
  config.engine = "lightgbm";
  config.library = FALAJ_LIGHTGBM;
  const auto output =
      run_engine(config, TextReader(data.take()), runtime_runner(), [](const Value&) {});
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->result["proof"].integer("mismatches", -1), 0);
  EXPECT_GE(output->result["proof"].integer("rows"), 100'000);
}

}  // namespace
}  // namespace falaj::training
