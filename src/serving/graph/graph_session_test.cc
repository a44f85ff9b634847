#include "serving/graph/graph_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "serving/graph/tensor_columns.h"
#include "serving/testing/tiny_onnx.h"

#ifndef FALAJ_TEST_LIBS
#define FALAJ_TEST_LIBS ""
#endif

namespace falaj::serving {
namespace {

using testing::identity_onnx;
using testing::linear_onnx;

std::shared_ptr<Session> load(const std::string& onnx) {
  static const std::unique_ptr<Runtime> runtime =
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
  return std::shared_ptr<Session>(runtime->load_bytes(onnx).value());
}

// Steps of the models "m" (the deployment's own) and others, with what each file is.
Result<std::shared_ptr<GraphSession>> made(const std::string& steps,
                                           const std::vector<std::string>& files,
                                           const std::string& answers = "null") {
  const Graph graph =
      FALAJ_TRY(decode_graph(parse_json(steps).value(), parse_json(answers).value(), "m", "here"));
  std::vector<GraphPart> parts;
  std::size_t next = 0;
  for (const GraphStep& step : graph.steps) {
    GraphPart& part = parts.emplace_back();
    if (step.model.empty()) continue;
    part = {step.model, 1, std::to_string(next), load(files[next]), {}};
    ++next;
  }
  return make_graph_session(graph, std::move(parts));
}

std::string refused(const std::string& steps, const std::vector<std::string>& files) {
  const auto session = made(steps, files);
  return session.ok() ? "taken" : session.error().message;
}

bool says(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

template <class Number>
Tensor tensor(const std::string& name, const std::string& datatype,
              const std::vector<std::int64_t>& shape, const std::vector<Number>& values) {
  Tensor made{name, datatype, shape, std::string(values.size() * sizeof(Number), '\0')};
  if (!values.empty()) std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

const std::string kFirst =
    R"({"name":"a","model":"m","inputs":{"input":"rows"},"outputs":{"score":"s"}})";

TEST(GraphSession, takes_forms_from_who_reads_and_gives) {
  const std::string rules =
      R"x(,{"name":"big","rule":"s > 2","inputs":{"s":"s"}},)x"
      R"x({"name":"n","rule":"if(s > 2, 1, 0)","inputs":{"s":"s[0]"}},)x"
      R"x({"name":"word","rule":"if(s > 2, 'high', 'low')","inputs":{"s":"s"}}])x";
  const auto session =
      made("[" + kFirst + rules, {linear_onnx({1, 2}, 0)}, R"(["word","big","n","s"])");
  ASSERT_TRUE(session.ok()) << session.error().message;
  const registry::Signature& signature = (*session)->signature();
  ASSERT_EQ(signature.inputs.size(), 1u);
  EXPECT_EQ(signature.inputs[0], (registry::TensorSpec{"rows", "FP32", {-1, 2}}));
  ASSERT_EQ(signature.outputs.size(), 4u);
  EXPECT_EQ(signature.outputs[0], (registry::TensorSpec{"word", "BYTES", {-1}}));
  EXPECT_EQ(signature.outputs[1], (registry::TensorSpec{"big", "BOOL", {-1}}));
  EXPECT_EQ(signature.outputs[2], (registry::TensorSpec{"n", "INT64", {-1}}));
  EXPECT_EQ(signature.outputs[3], (registry::TensorSpec{"s", "FP32", {-1, 1}}));

  const Tensor rows = tensor<float>("rows", "FP32", {2, 2}, {1, 1, 0, 1});
  const auto outputs = (*session)->run(std::span(&rows, 1));
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].bytes, std::string("\4\0\0\0high\3\0\0\0low", 15));
  EXPECT_EQ((*outputs)[1].bytes, std::string("\1\0", 2)) << "3 is over 2, and 2 is not";
  EXPECT_EQ((*outputs)[2].shape, std::vector<std::int64_t>{2});
  EXPECT_EQ((*outputs)[2].bytes, tensor<std::int64_t>("", "", {}, {1, 0}).bytes);
  EXPECT_EQ((*outputs)[3].bytes, tensor<float>("", "", {}, {3, 2}).bytes);
}

TEST(GraphSession, one_tensor_may_have_another_shape_of_the_same_rows) {
  // A rule gives [rows]; the model wants [rows, 1].
  const std::string more =
      R"x(,{"name":"half","rule":"s / 2","inputs":{"s":"s"},"as":"FP32"},)x"
      R"x({"name":"b","model":"n","inputs":{"input":"half"},"outputs":{"score":"t"}}])x";
  const auto session = made("[" + kFirst + more, {linear_onnx({1, 2}, 0), linear_onnx({10}, 1)});
  ASSERT_TRUE(session.ok()) << session.error().message;
  std::vector<float> scores;
  const std::vector<float> matrix{1, 1, 0, 1};
  ASSERT_TRUE((*session)->score(matrix, 2, scores).ok());
  EXPECT_EQ(scores, (std::vector<float>{16, 11}));
}

TEST(GraphSession, no_rows_are_no_fault) {
  const auto session = made("[" + kFirst + R"(,{"name":"r","rule":"s","inputs":{"s":"s"}}])",
                            {linear_onnx({1, 2}, 0)});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const Tensor rows = tensor<float>("rows", "FP32", {0, 2}, {});
  const auto outputs = (*session)->run(std::span(&rows, 1));
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].shape, std::vector<std::int64_t>{0});
}

TEST(GraphSession, names_the_step_and_both_sides_of_a_clash) {
  const std::string whole = identity_onnx(testing::kOnnxInt64, {-1, 1});
  const auto second = [&](const std::string& inputs) {
    return "[" + kFirst + R"(,{"name":"b","model":"n","inputs":)" + inputs +
           R"(,"outputs":{"y":"t"}}])";
  };
  const std::vector<std::string> files{linear_onnx({1, 2}, 0), whole};
  const std::string types = refused(second(R"({"x":"s"})"), files);
  EXPECT_TRUE(says(types, "graph step 'b'")) << types;
  EXPECT_TRUE(says(types, "INT64 [-1,1]") && says(types, "FP32 [-1,1]")) << types;
  EXPECT_TRUE(says(refused(second(R"({"x":["s","s"]})"), files), "INT64"));
  EXPECT_TRUE(says(refused(second(R"({"z":"s"})"), files), "given nothing"));
  EXPECT_TRUE(says(refused(second(R"({"x":"rows"})"), files), "for one step"));
  EXPECT_TRUE(says(refused(second(R"({"x":"s[1]"})"), files), "no [1]"));
  const std::vector<std::string> lines{linear_onnx({1, 2}, 0), linear_onnx({1, 2, 3}, 0)};
  const auto joined = [](const std::string& inputs) {
    return "[" + kFirst + R"(,{"name":"b","model":"n","inputs":)" + inputs +
           R"(,"outputs":{"score":"t"}}])";
  };
  EXPECT_EQ(refused(joined(R"({"input":["rows","s"]})"), lines), "taken");
  EXPECT_TRUE(says(refused(joined(R"({"input":["rows","rows"]})"), lines), "4 elements"));
  EXPECT_TRUE(says(refused(joined(R"({"input":["s","s","s"],"more":"s"})"), lines), "1 inputs"));
  EXPECT_TRUE(says(refused(R"([{"name":"a","model":"m","inputs":{"input":"rows"},)"
                           R"("outputs":{"none":"s"}}])",
                           lines),
                   "no output 'none'"));
  EXPECT_TRUE(
      says(refused("[" + kFirst + R"(,{"name":"r","rule":"x","inputs":{"x":"rows"}}])", lines),
           "one element"));
  EXPECT_TRUE(
      says(refused("[" + kFirst + R"(,{"name":"r","rule":"x","inputs":{"x":"else"}}])", lines),
           "'else'"));
  EXPECT_TRUE(says(refused("[" + kFirst + R"(,{"name":"r","rule":"y","inputs":{"x":"s"}}])", lines),
                   "graph step 'r'"));
  EXPECT_TRUE(says(
      refused("[" + kFirst + R"(,{"name":"r","rule":"s","inputs":{"s":"s"},"as":"BOOL"}])", lines),
      "cannot be BOOL"));
  EXPECT_TRUE(says(refused(R"([{"name":"a","model":"m","inputs":{"x":"rows"},)"
                           R"("outputs":{"y":"s"}}])",
                           {identity_onnx(testing::kOnnxFloat, {3})}),
                   "count rows"));
}

TEST(GraphSession, refuses_tensors_that_are_not_what_they_say) {
  const auto session = made("[" + kFirst + "]", {linear_onnx({1, 2}, 0)});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const auto fails = [&](const Tensor& rows) {
    const auto outputs = (*session)->run(std::span(&rows, 1));
    return !outputs.ok() && outputs.error().id == ErrorId::kTensorMismatch;
  };
  EXPECT_TRUE(fails(tensor<float>("other", "FP32", {1, 2}, {1, 2})));
  EXPECT_TRUE(fails(tensor<double>("rows", "FP64", {1, 2}, {1, 2})));
  EXPECT_TRUE(fails(tensor<float>("rows", "FP32", {2}, {1, 2})));
  EXPECT_TRUE(fails(tensor<float>("rows", "FP32", {2, 2}, {1, 2})));
  EXPECT_TRUE(fails(tensor<float>("rows", "FP32", {-1, 2}, {1, 2})));
}

TEST(GraphDigest, is_of_the_files_and_of_how_they_are_joined) {
  const auto digest = [](const std::string& steps, const std::string& onnx) {
    const Graph graph = decode_graph(parse_json(steps).value(), Value(), "m", "").value();
    std::vector<GraphPart> parts(graph.steps.size());
    parts[0].onnx = onnx;
    return graph_digest(graph, parts);
  };
  const std::string one = "[" + kFirst + R"(,{"name":"r","rule":"s > 1","inputs":{"s":"s"}}])";
  const std::string two = "[" + kFirst + R"(,{"name":"r","rule":"s > 2","inputs":{"s":"s"}}])";
  EXPECT_EQ(digest(one, "x"), digest(one, "x"));
  EXPECT_NE(digest(one, "x"), digest(one, "y"));
  EXPECT_NE(digest(one, "x"), digest(two, "x"));
}

TEST(TensorColumns, read_every_type_and_null_what_a_rule_cannot_see) {
  const auto whole = [](const Tensor& tensor) {
    return column_of(tensor, static_cast<std::size_t>(tensor.shape[0]), 1, 0).value();
  };
  EXPECT_EQ(whole(tensor<std::int8_t>("t", "INT8", {2}, {-5, 5})).ints(),
            (std::vector<std::int64_t>{-5, 5}));
  EXPECT_EQ(whole(tensor<std::uint16_t>("t", "UINT16", {1}, {65535})).ints()[0], 65535);
  EXPECT_TRUE(whole(tensor<std::uint64_t>("t", "UINT64", {1}, {~std::uint64_t{0}})).is_null(0));
  EXPECT_EQ(whole(tensor<double>("t", "FP64", {1}, {0.1})).doubles()[0], 0.1);
  EXPECT_TRUE(whole({"t", "BYTES", {1}, std::string("\1\0\0\0\xff", 5)}).is_null(0));
  EXPECT_FALSE(column_of({"t", "FP16", {1}, "ab"}, 1, 1, 0).ok());
  EXPECT_FALSE(column_of({"t", "FP32", {2}, "abcd"}, 2, 1, 0).ok());
  EXPECT_FALSE(column_of({"t", "BYTES", {1}, "ab"}, 1, 1, 0).ok());
}

TEST(TensorColumns, a_missing_answer_is_nan_or_a_failure) {
  table::Column floats(table::Type::kFloat64);
  floats.push_null();
  const Tensor nan = tensor_of(floats, "r", "FP32").value();
  float value = 0;
  std::memcpy(&value, nan.bytes.data(), sizeof value);
  EXPECT_TRUE(std::isnan(value));
  table::Column bools(table::Type::kBool);
  bools.push_bool(true);
  EXPECT_EQ(tensor_of(bools, "r", "BOOL").value().bytes, "\1");
  EXPECT_EQ(tensor_of(bools, "r", "INT32").value().bytes, std::string("\1\0\0\0", 4));
  bools.push_null();
  EXPECT_NE(tensor_of(bools, "r", "BOOL").error().message.find("coalesce"), std::string::npos);
  table::Column ints(table::Type::kInt64);
  ints.push_int(std::int64_t{1} << 40);
  EXPECT_FALSE(tensor_of(ints, "r", "INT32").ok());
  EXPECT_TRUE(tensor_of(ints, "r", "INT64").ok());
}

}  // namespace
}  // namespace falaj::serving
