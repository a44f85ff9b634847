#include "serving/trees/trees_runtime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "serving/testing/random_trees.h"
#include "serving/testing/tiny_onnx.h"
#include "serving/trees/compiled_trees.h"
#include "serving/trees/probe_rows.h"

namespace falaj::serving {
namespace {

using onnx::Mode;
using onnx::Trees;
using testing::random_trees;
using Shape = testing::TreesShape;

std::unique_ptr<Runtime> onnx_runtime(unsigned threads = 1) {
  return open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", threads}).value();
}

Tensor tensor_of(std::span<const float> rows, std::size_t columns) {
  Tensor tensor{
      "input",
      "FP32",
      {static_cast<std::int64_t>(rows.size() / columns), static_cast<std::int64_t>(columns)},
      {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(rows.data()), rows.size_bytes());
  return tensor;
}

class OwnTrees : public ::testing::Test {
 protected:
  std::uint64_t loaded(const std::string& scorer) {
    const std::string text = metrics_.exposition();
    const std::string series = "models_loaded_total{scorer=\"" + scorer + "\"} ";
    const std::size_t at = text.find(series);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + series.size()));
  }

  // Every answer of the compiled trees against ONNX Runtime's, bit by bit: in batches of 1, 2,
  // 3 … rows, and all at once.
  void expect_equal_bits(const Shape& shape, std::uint64_t seed, std::size_t rows) {
    const Trees trees = random_trees(shape, seed);
    const std::string bytes = onnx::write_trees(trees, {});
    const auto theirs = plain_->load_bytes(bytes).value();
    const std::uint64_t before = loaded("trees");
    const auto ours = runtime_->load_bytes(bytes).value();
    ASSERT_EQ(loaded("trees"), before + 1) << "seed " << seed;
    const std::vector<float> matrix = probe_rows(trees, rows, seed + 1000);
    std::size_t at = 0;
    for (std::size_t size = 1; at < rows; at += size, ++size) {
      size = std::min(size, rows - at);
      const auto part =
          std::span<const float>(matrix).subspan(at * shape.features, size * shape.features);
      expect_same_run(*ours, *theirs, part, shape.features);
      expect_same_scores(*ours, *theirs, part, shape.features);
      compared_ += size;
    }
    // The runtime splits a large batch into blocks.
    const std::size_t all = std::min(rows, kTreeRowsMax) * shape.features;
    expect_same_run(*ours, *theirs, std::span<const float>(matrix).first(all), shape.features);
  }

  static void expect_same_run(const Session& ours, const Session& theirs,
                              std::span<const float> rows, std::size_t columns) {
    const Tensor input = tensor_of(rows, columns);
    const auto got = ours.run({&input, 1}).value();
    const auto expected = theirs.run({&input, 1}).value();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].name, expected[i].name);
      ASSERT_EQ(got[i].datatype, expected[i].datatype);
      ASSERT_EQ(got[i].shape, expected[i].shape);
      ASSERT_TRUE(got[i].bytes == expected[i].bytes) << got[i].name;
    }
  }

  static void expect_same_scores(const Session& ours, const Session& theirs,
                                 std::span<const float> rows, std::size_t columns) {
    std::vector<float> got;
    std::vector<float> expected;
    ASSERT_TRUE(ours.score(rows, columns, got).ok());
    ASSERT_TRUE(theirs.score(rows, columns, expected).ok());
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
  }

  telemetry::Metrics metrics_;
  std::unique_ptr<Runtime> plain_ = onnx_runtime();
  std::unique_ptr<Runtime> runtime_ = with_own_trees(onnx_runtime(), 1, metrics_);
  std::size_t compared_ = 0;
};

TEST_F(OwnTrees, classifiers_answer_bit_for_bit_as_onnx_runtime) {
  Shape shape;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) expect_equal_bits(shape, seed, 5'000);
  shape.scale = 3;  // Sums far from 0, where the logistic saturates.
  expect_equal_bits(shape, 5, 5'000);
  shape.scale = 1e-4f;
  expect_equal_bits(shape, 6, 5'000);
  shape.transform = onnx::Transform::kNone;
  shape.labels = {7, -3};
  expect_equal_bits(shape, 7, 5'000);
  shape.base_values = {0.25f};
  expect_equal_bits(shape, 8, 5'000);
  shape.transform = onnx::Transform::kLogistic;
  expect_equal_bits(shape, 9, 5'000);
  EXPECT_GE(compared_, 45'000u);
}

TEST_F(OwnTrees, classifiers_with_both_columns_do_too) {
  Shape shape;
  shape.two_columns = true;
  for (std::uint64_t seed = 11; seed <= 13; ++seed) expect_equal_bits(shape, seed, 5'000);
  shape.transform = onnx::Transform::kNone;
  expect_equal_bits(shape, 14, 5'000);
  EXPECT_GE(compared_, 20'000u);
}

TEST_F(OwnTrees, regressors_do_too) {
  Shape shape;
  shape.ensemble = onnx::Ensemble::kRegressor;
  shape.transform = onnx::Transform::kNone;
  for (std::uint64_t seed = 21; seed <= 23; ++seed) expect_equal_bits(shape, seed, 5'000);
  shape.base_values = {-12.5f};
  expect_equal_bits(shape, 24, 5'000);
  shape.aggregate = onnx::Aggregate::kAverage;
  shape.trees = 37;
  expect_equal_bits(shape, 25, 5'000);
  shape.base_values.clear();
  expect_equal_bits(shape, 26, 5'000);
  EXPECT_GE(compared_, 30'000u);
}

TEST_F(OwnTrees, every_order_of_comparison_and_kind_of_missing_does_too) {
  Shape shape;
  for (const Mode mode : {Mode::kLt, Mode::kGte, Mode::kGt}) {
    shape.modes = {mode};
    shape.tracks_missing = true;
    expect_equal_bits(shape, 31, 3'000);
    shape.tracks_missing = false;
    expect_equal_bits(shape, 32, 3'000);
  }
  shape.modes = {Mode::kLeq, Mode::kLt, Mode::kGte, Mode::kGt};
  shape.tracks_missing = true;
  expect_equal_bits(shape, 33, 5'000);
  EXPECT_GE(compared_, 23'000u);
}

TEST_F(OwnTrees, odd_sizes_do_too) {
  Shape shape;
  shape.trees = 1;
  shape.splits = 0;
  shape.ensemble = onnx::Ensemble::kRegressor;
  shape.transform = onnx::Transform::kNone;
  expect_equal_bits(shape, 41, 100);  // One leaf.
  shape.splits = 1;
  shape.features = 1;
  expect_equal_bits(shape, 42, 500);
  shape.trees = 700;  // Several blocks, the last one odd.
  shape.splits = 4;
  shape.features = 300;
  expect_equal_bits(shape, 43, 2'000);
  shape.trees = 9;
  shape.splits = 3'000;
  shape.features = 5;
  expect_equal_bits(shape, 44, 2'000);
}

TEST_F(OwnTrees, forms_that_are_not_reproduced_go_to_onnx_runtime) {
  Shape plain;
  plain.ensemble = onnx::Ensemble::kRegressor;
  plain.transform = onnx::Transform::kNone;
  plain.trees = 5;
  std::vector<Trees> others;
  Shape shape = plain;
  shape.modes = {Mode::kNeq};
  others.push_back(random_trees(shape, 1));
  shape = plain;
  shape.aggregate = onnx::Aggregate::kMin;
  others.push_back(random_trees(shape, 2));
  shape = Shape{};
  shape.transform = onnx::Transform::kSoftmax;
  others.push_back(random_trees(shape, 3));
  Trees positive = random_trees(Shape{}, 4);
  for (float& weight : positive.weights) weight = std::abs(weight);
  others.push_back(positive);
  for (const Trees& trees : others) {
    EXPECT_FALSE(CompiledTrees::compile(trees).ok());
    const std::string bytes = onnx::write_trees(trees, {});
    const auto ours = runtime_->load_bytes(bytes);
    ASSERT_TRUE(ours.ok()) << ours.error().message;
    const auto theirs = plain_->load_bytes(bytes).value();
    expect_same_run(**ours, *theirs, probe_rows(trees, 20, 1), trees.features);
  }
  ASSERT_TRUE(runtime_->load_bytes(testing::linear_onnx({1, 2}, 0)).ok());
  EXPECT_EQ(loaded("trees"), 0u);
  EXPECT_EQ(loaded("onnxruntime"), others.size() + 1);
}

TEST_F(OwnTrees, broken_arrays_are_refused) {
  const Trees good = random_trees(Shape{}, 5);
  ASSERT_TRUE(CompiledTrees::compile(good).ok());
  const auto broken = [&](auto&& change) {
    Trees trees = good;
    change(trees);
    return !CompiledTrees::compile(trees).ok();
  };
  std::size_t split = 0;
  while (good.modes[split] == Mode::kLeaf) ++split;
  EXPECT_TRUE(broken([&](Trees& t) { t.truenodeids[split] = 0; })) << "back to the root";
  EXPECT_TRUE(broken([&](Trees& t) { t.truenodeids[split] = t.falsenodeids[split]; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.truenodeids[split] = 1 << 20; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.featureids[split] = 12; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.featureids[split] = -1; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.values[split] = std::nanf(""); }));
  EXPECT_TRUE(broken([&](Trees& t) { t.missing_value_tracks_true[split] = 2; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.weights[3] = std::nanf(""); }));
  EXPECT_TRUE(broken([&](Trees& t) { t.weight_nodeids[3] = 1 << 20; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.weight_ids[3] = 2; }));
  EXPECT_TRUE(broken([&](Trees& t) { t.treeids.back() = 0; }));
  EXPECT_TRUE(broken([&](Trees& t) {
    t.weight_nodeids.pop_back(), t.weight_treeids.pop_back(), t.weight_ids.pop_back(),
        t.weights.pop_back();
  }));
}

// A runtime that rounds one answer differently: as another version of the library might.
class RoundingSession final : public Session {
 public:
  explicit RoundingSession(std::unique_ptr<Session> inner) : inner_(std::move(inner)) {}
  const registry::Signature& signature() const override { return inner_->signature(); }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    std::vector<Tensor> outputs = FALAJ_TRY(inner_->run(inputs));
    outputs.back().bytes[outputs.back().bytes.size() - 4] ^= 1;  // One ulp of the last row.
    return outputs;
  }
  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    return inner_->score(matrix, columns, scores);
  }

 private:
  std::unique_ptr<Session> inner_;
};

class RoundingRuntime final : public Runtime {
 public:
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    auto session = FALAJ_TRY(inner_->load_bytes(model));
    return std::unique_ptr<Session>(std::make_unique<RoundingSession>(std::move(session)));
  }
  std::string version() const override { return "rounding"; }

 private:
  std::unique_ptr<Runtime> inner_ = onnx_runtime();
};

TEST_F(OwnTrees, are_dropped_when_one_probe_differs_in_one_bit) {
  const auto runtime = with_own_trees(std::make_unique<RoundingRuntime>(), 1, metrics_);
  const auto session = runtime->load_bytes(onnx::write_trees(random_trees(Shape{}, 6), {}));
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ(loaded("differed"), 1u);
  EXPECT_EQ(loaded("trees"), 0u);
  EXPECT_NE(dynamic_cast<RoundingSession*>(session->get()), nullptr);
}

TEST_F(OwnTrees, are_not_used_beside_a_runtime_that_adds_up_in_another_order) {
  const auto runtime = with_own_trees(onnx_runtime(2), 2, metrics_);
  ASSERT_TRUE(runtime->load_bytes(onnx::write_trees(random_trees(Shape{}, 6), {})).ok());
  EXPECT_EQ(loaded("onnxruntime"), 1u);
}

TEST_F(OwnTrees, wrong_input_is_refused_with_the_runtimes_words) {
  const std::string bytes = onnx::write_trees(random_trees(Shape{}, 6), {});
  const auto session = runtime_->load_bytes(bytes).value();
  EXPECT_EQ(loaded("trees"), 1u);
  const std::vector<float> row(11);
  std::vector<float> scores;
  EXPECT_EQ(session->score(row, 11, scores).error().id, ErrorId::kTensorMismatch);
  EXPECT_EQ(session->score(row, 12, scores).error().id, ErrorId::kTensorMismatch);
  const Tensor narrow = tensor_of(row, 11);
  const auto refused = session->run({&narrow, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("Expected [-1,12], got [1,11]"), std::string::npos);
  const std::vector<float> none;
  ASSERT_TRUE(session->score(none, 12, scores).ok());
  EXPECT_TRUE(scores.empty());
}

}  // namespace
}  // namespace falaj::serving
