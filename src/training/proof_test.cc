#include "training/proof.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "training/export.h"
#include "training/lightgbm/model_text.h"
#include "training/lightgbm/trainer.h"
#include "training/testing/samples.h"

namespace falaj::training {
namespace {

using testing::LabelKind;

// A trained model, and how to prove any graph against it.
class ProofTest : public ::testing::Test {
 protected:
  void train(LabelKind kind, std::uint64_t seed, std::int64_t rounds = 40) {
    data_ = testing::sample_data(4'000, 8, kind, seed);
    lightgbm::Params params;
    params.rounds = rounds;
    const auto names = testing::feature_names(8);
    auto trained =
        lightgbm::train(testing::library(), {data_, names, params, 2, [](const Value&) {}});
    ASSERT_TRUE(trained.ok()) << trained.error().message;
    text_ = trained->model_text;
    auto model = lightgbm::read_model_text(text_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = *model;
  }

  Result<Proof> prove(const onnx::Trees& trees,
                      const OnnxRunner& runner = testing::walking_runner()) {
    const std::string graph = onnx::write_trees(trees, {});
    auto booster = FALAJ_TRY(lightgbm::Booster::load(testing::library(), text_));
    const EnginePredictor engine{
        [&](std::span<const float> rows) {
          return booster.scores({rows, model_.features});
        },
        [&](std::span<const float> rows) {
          return booster.leaves({rows, model_.features}, model_.trees.size());
        }};
    return prove_equal({model_, graph, engine, runner, data_.valid.values, 20'000, 1, {}});
  }

  TrainingData data_;
  std::string text_;
  TreeModel model_;
};

TEST_F(ProofTest, an_exact_export_has_no_mismatch) {
  for (const LabelKind kind : {LabelKind::kClasses, LabelKind::kAmounts}) {
    train(kind, 11);
    const auto proof = prove(to_onnx_trees(model_));
    ASSERT_TRUE(proof.ok()) << proof.error().message;
    EXPECT_EQ(proof->mismatches, 0) << proof->first_mismatch;
    EXPECT_GE(proof->rows, 20'000);
    EXPECT_GT(proof->rows_real, 0);
    std::int64_t splits = 0;
    for (const Tree& tree : model_.trees) splits += static_cast<std::int64_t>(tree.nodes.size());
    EXPECT_EQ(proof->rows_aimed, 4 * splits);
  }
}

TEST_F(ProofTest, thresholds_rounded_to_nearest_are_caught) {
  train(LabelKind::kClasses, 12);
  onnx::Trees trees = to_onnx_trees(model_);
  std::size_t at = 0;
  int raised = 0;
  for (const Tree& tree : model_.trees) {
    for (const TreeNode& node : tree.nodes) {
      const auto nearest = static_cast<float>(node.threshold);
      raised += nearest > trees.values[at] ? 1 : 0;
      trees.values[at++] = nearest;
    }
    at += tree.leaves.size();
  }
  ASSERT_GT(raised, 0);
  const auto proof = prove(trees);
  ASSERT_TRUE(proof.ok()) << proof.error().message;
  EXPECT_GT(proof->mismatches, 0);
  EXPECT_NE(proof->first_mismatch.find("leaf"), std::string::npos);
}

// LightGBM reads tiny values as zero: a split between zero and the negatives must be moved, too.
TEST_F(ProofTest, thresholds_merely_rounded_down_are_caught_beside_zero) {
  train(LabelKind::kClasses, 16);
  onnx::Trees trees = to_onnx_trees(model_);
  int beside_zero = 0;
  for (float& value : trees.values) {
    if (value != std::nextafter(-1e-35f, -1.0f)) continue;
    value = -1e-35f;
    ++beside_zero;
  }
  ASSERT_GT(beside_zero, 0);
  EXPECT_GT(prove(trees)->mismatches, 0);
}

// Each single fault must be found, wherever in the ensemble it stands: rows are aimed at each
// split.
TEST_F(ProofTest, one_wrong_split_anywhere_is_caught) {
  train(LabelKind::kClasses, 13, 15);
  const onnx::Trees good = to_onnx_trees(model_);
  for (std::size_t i = 7; i < good.modes.size(); i += 61) {
    if (good.modes[i] == onnx::Mode::kLeaf) continue;
    SCOPED_TRACE(i);
    onnx::Trees up = good;
    up.values[i] = std::nextafter(up.values[i], std::numeric_limits<float>::infinity());
    EXPECT_GT(prove(up)->mismatches, 0);
    onnx::Trees missing = good;
    missing.missing_value_tracks_true[i] ^= 1;
    EXPECT_GT(prove(missing)->mismatches, 0);
  }
}

TEST_F(ProofTest, a_runtime_that_computes_something_else_is_caught) {
  train(LabelKind::kClasses, 14, 10);
  const OnnxRunner exact = testing::walking_runner();
  const auto off = prove(to_onnx_trees(model_),
                         [&](std::string_view graph, std::span<const float> rows,
                             std::size_t columns) -> Result<std::vector<float>> {
                           auto scores = FALAJ_TRY(exact(graph, rows, columns));
                           scores.front() += 1e-3f;
                           return scores;
                         });
  ASSERT_TRUE(off.ok());
  EXPECT_GT(off->mismatches, 0);
  const auto nan = prove(to_onnx_trees(model_),
                         [&](std::string_view graph, std::span<const float> rows,
                             std::size_t columns) -> Result<std::vector<float>> {
                           auto scores = FALAJ_TRY(exact(graph, rows, columns));
                           scores.back() = std::nanf("");
                           return scores;
                         });
  EXPECT_GT(nan->mismatches, 0);
}

TEST_F(ProofTest, a_graph_with_a_tree_less_is_refused) {
  train(LabelKind::kClasses, 15, 5);
  TreeModel shorter = model_;
  shorter.trees.pop_back();
  const auto proof = prove(to_onnx_trees(shorter));
  ASSERT_FALSE(proof.ok());
  EXPECT_EQ(proof.error().id, ErrorId::kOnnxMismatch);
}

}  // namespace
}  // namespace falaj::training
