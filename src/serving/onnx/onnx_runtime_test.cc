#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "serving/runtime.h"
#include "serving/testing/tiny_onnx.h"

namespace falaj::serving {
namespace {

RuntimeOptions options() { return {FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}; }

std::unique_ptr<Session> load(const std::string& bytes) {
  static Runtime* const runtime = open_onnx_runtime(options()).value().release();
  auto session = runtime->load_bytes(bytes);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return session.ok() ? std::move(session).value() : nullptr;
}

Tensor floats(std::string name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  Tensor tensor{std::move(name), "FP32", std::move(shape), {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> as_floats(const Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(OnnxRuntime, reads_names_types_shapes_and_features_from_the_file) {
  const auto session = load(testing::linear_onnx({1, 2}, 0, R"(["amount","age"])"));
  const registry::Signature& signature = session->signature();
  EXPECT_EQ(signature.inputs, (std::vector<registry::TensorSpec>{{"input", "FP32", {-1, 2}}}));
  EXPECT_EQ(signature.outputs, (std::vector<registry::TensorSpec>{{"score", "FP32", {-1, 1}}}));
  EXPECT_EQ(signature.features, (std::vector<std::string>{"amount", "age"}));
}

TEST(OnnxRuntime, scores_one_row_and_many_rows_alike) {
  const auto session = load(testing::linear_onnx({2, -1, 0.5F}, 10));
  std::vector<float> matrix;
  std::vector<float> expected;
  for (int row = 0; row < 10'000; ++row) {  // Over the bound of one bulk run.
    const float x = static_cast<float>(row % 97);
    matrix.insert(matrix.end(), {x, 2 * x, 8});
    expected.push_back(14);
    expected.back() = 2 * x - 2 * x + 4 + 10;
  }
  std::vector<float> all;
  ASSERT_TRUE(session->score(matrix, 3, all).ok());
  EXPECT_EQ(all, expected);
  std::vector<float> one;
  ASSERT_TRUE(session->score(std::span(matrix).first(3), 3, one).ok());
  EXPECT_EQ(one, std::vector<float>{14});
}

TEST(OnnxRuntime, takes_the_last_column_of_a_classifier_as_its_score) {
  const auto session = load(testing::classifier_onnx({1}, 0));
  std::vector<float> scores;
  ASSERT_TRUE(session->score(std::vector<float>{0}, 1, scores).ok());
  EXPECT_FLOAT_EQ(scores.at(0), 0.5F);
  ASSERT_TRUE(session->score(std::vector<float>{2}, 1, scores).ok());
  EXPECT_NEAR(scores.at(0), 1 / (1 + std::exp(-2.0)), 1e-6);

  const Tensor input = floats("input", {2, 1}, {-3, 3});
  const std::vector<Tensor> outputs = session->run({&input, 1}).value();
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].datatype, "INT64");
  EXPECT_EQ(outputs[0].shape, (std::vector<std::int64_t>{2}));
  std::int64_t labels[2];
  ASSERT_EQ(outputs[0].bytes.size(), sizeof(labels));
  std::memcpy(labels, outputs[0].bytes.data(), sizeof(labels));
  EXPECT_EQ(labels[0], 0);
  EXPECT_EQ(labels[1], 1);
  EXPECT_EQ(outputs[1].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_NEAR(as_floats(outputs[1])[3], 1 / (1 + std::exp(-3.0)), 1e-6);
}

TEST(OnnxRuntime, runs_no_rows_at_all) {
  const auto session = load(testing::linear_onnx({1, 2}, 0));
  const Tensor none = floats("input", {0, 2}, {});
  const std::vector<Tensor> outputs = session->run({&none, 1}).value();
  EXPECT_EQ(outputs[0].shape, (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(outputs[0].bytes.empty());
  std::vector<float> scores{1, 2, 3};
  ASSERT_TRUE(session->score({}, 2, scores).ok());
  EXPECT_TRUE(scores.empty());
}

TEST(OnnxRuntime, names_the_tensor_that_does_not_fit) {
  const auto session = load(testing::linear_onnx({1, 2}, 0));
  const auto refused = [&](const std::vector<Tensor>& inputs) {
    const auto answer = session->run(inputs);
    EXPECT_FALSE(answer.ok());
    if (answer.ok()) return std::string();
    EXPECT_EQ(answer.error().id, ErrorId::kTensorMismatch);
    return answer.error().message;
  };
  const Tensor good = floats("input", {1, 2}, {1, 2});
  EXPECT_NE(refused({}).find("'input' is missing"), std::string::npos);
  EXPECT_NE(refused({good, good}).find("'input' stands twice"), std::string::npos);
  EXPECT_NE(refused({floats("other", {1, 2}, {1, 2})}).find("'other'"), std::string::npos);
  EXPECT_NE(refused({floats("input", {1, 3}, {1, 2, 3})}).find("Expected [-1,2], got [1,3]"),
            std::string::npos);
  EXPECT_NE(refused({floats("input", {2, 2}, {1, 2, 3})}).find("12 bytes, its shape needs 16"),
            std::string::npos);
  EXPECT_NE(refused({floats("input", {-1, 2}, {1, 2})}).find("negative"), std::string::npos);
  Tensor wrong_type = good;
  wrong_type.datatype = "BYTES";
  EXPECT_NE(refused({wrong_type}).find("is BYTES, the model expects FP32"), std::string::npos);
  std::vector<float> scores;
  EXPECT_EQ(session->score(std::vector<float>{1, 2, 3}, 3, scores).error().id,
            ErrorId::kTensorMismatch);
  EXPECT_EQ(session->score(std::vector<float>{1, 2, 3}, 2, scores).error().id,
            ErrorId::kTensorMismatch);
}

TEST(OnnxRuntime, refuses_what_is_no_model) {
  const auto runtime = open_onnx_runtime(options()).value();
  const std::string good = testing::linear_onnx({1, 2, 3}, 0);
  for (const std::string& bytes :
       {std::string(), std::string("hello"), good.substr(0, good.size() / 2),
        std::string(1000, '\xff'), good.substr(0, good.size() - 1)}) {
    const auto session = runtime->load_bytes(bytes);
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.error().id, ErrorId::kModelCorrupt) << session.error().message;
  }
}

TEST(OnnxRuntime, says_which_library_cannot_be_opened) {
  const auto runtime = open_onnx_runtime({"/nowhere/libonnxruntime.so.1", 1});
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.error().id, ErrorId::kRuntimeUnavailable);
  EXPECT_NE(runtime.error().message.find("/nowhere/libonnxruntime.so.1"), std::string::npos);
}

TEST(OnnxRuntime, opens_the_library_at_the_first_load_only) {
  const auto broken = lazy_runtime(open_onnx_runtime, {"/nowhere/libonnxruntime.so.1", 1});
  EXPECT_EQ(broken->load_bytes("x").error().id, ErrorId::kRuntimeUnavailable);
  const auto lazy = lazy_runtime(open_onnx_runtime, options());
  EXPECT_EQ(lazy->version(), "");
  ASSERT_TRUE(lazy->load_bytes(testing::linear_onnx({1}, 0)).ok());
  EXPECT_NE(lazy->version(), "");
}

TEST(OnnxRuntime, keeps_rows_of_many_threads_apart) {
  const auto session = load(testing::linear_onnx({1, 1}, 0));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> scores;
      for (int i = 0; i < 2000; ++i) {
        const float row[2] = {static_cast<float>(t * 10'000), static_cast<float>(i)};
        const bool right = session->score(row, 2, scores).ok() && scores.size() == 1 &&
                           scores[0] == row[0] + row[1];
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace falaj::serving
