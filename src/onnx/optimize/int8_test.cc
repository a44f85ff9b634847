#include "onnx/optimize/int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "onnx/graph.h"
#include "onnx/optimize/edit.h"
#include "onnx/trees.h"
#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

std::string tensor(std::string_view name, std::vector<std::int64_t> shape,
                   const std::vector<float>& values, std::int64_t element = kFloat) {
  WireWriter out;
  for (const std::int64_t size : shape) out.integer(1, size);
  out.integer(2, element);
  out.numbers(4, values);
  out.bytes(8, name);
  return out.str();
}

struct Part {
  std::string op = "MatMul";
  std::vector<std::string> inputs{"x", "w"};
  std::vector<std::pair<std::string, std::int64_t>> integers = {};
  std::string domain = {};
  std::int64_t opset = 17;
  std::vector<std::string> constants = {};
  bool overridable = false;  // Its weights are an input too.
};

std::string model_of(const Part& part) {
  WireWriter node;
  for (const std::string& input : part.inputs) node.bytes(1, input);
  node.bytes(2, "y");
  node.bytes(3, "fc");
  node.bytes(4, part.op);
  for (const auto& [name, value] : part.integers) {
    WireWriter attribute;
    attribute.bytes(1, name);
    attribute.integer(3, value);
    node.bytes(5, attribute.str());
  }
  if (!part.domain.empty()) node.bytes(7, part.domain);
  const auto named = [](std::string_view name) {
    WireWriter info;
    info.bytes(1, name);
    return info.str();
  };
  WireWriter graph;
  graph.bytes(1, node.str());
  for (const std::string& constant : part.constants) graph.bytes(5, constant);
  graph.bytes(11, named("x"));
  if (part.overridable) graph.bytes(11, named("w"));
  graph.bytes(12, named("y"));
  WireWriter opset;
  opset.integer(2, part.opset);
  WireWriter model;
  model.integer(1, 8);
  model.bytes(7, graph.str());
  model.bytes(8, opset.str());
  WireWriter entry;
  entry.bytes(1, "features");
  entry.bytes(2, "[]");
  model.bytes(14, entry.str());
  return model.str();
}

const std::string kWeights = tensor("w", {2, 2}, {1, -2, 0.5F, 4});

std::string why_left(const Part& part) {
  const std::string model = model_of(part);
  const auto made = dynamic_int8(model, {1});
  EXPECT_TRUE(made.ok()) << made.error().message;
  if (!made.ok()) return "";
  EXPECT_TRUE(made->changed.empty());
  EXPECT_EQ(made->bytes, model);
  EXPECT_EQ(made->left.size(), 1u);
  if (made->left.size() != 1) return "";
  EXPECT_EQ(made->left[0].node, "fc");
  return made->left[0].why;
}

TEST(Int8, says_why_a_node_is_left_alone) {
  const float nan = std::nanf("");
  EXPECT_EQ(why_left({.constants = {}}), "its second matrix is no float constant of the file");
  EXPECT_EQ(why_left({.constants = {kWeights}, .overridable = true}),
            "its second matrix is no float constant of the file");
  EXPECT_EQ(why_left({.opset = 10, .constants = {kWeights}}),
            "its operators are older than version 11");
  EXPECT_EQ(why_left({.constants = {tensor("w", {2, 2}, {1, 2, 3, nan})}}),
            "a weight is not finite");
  EXPECT_EQ(why_left({.constants = {tensor("w", {1, 2, 2}, {1, 2, 3, 4})}}),
            "its second matrix has other than two dimensions");
  EXPECT_EQ(why_left({.constants = {tensor("w", {0, 2}, {})}}),
            "its second matrix has other than two dimensions");
  EXPECT_EQ(why_left({.op = "Gemm", .integers = {{"transA", 1}}, .constants = {kWeights}}),
            "its first matrix is transposed");
  EXPECT_EQ(why_left({.inputs = {"x"}, .constants = {kWeights}}), "it has no two inputs");
}

TEST(Int8, leaves_small_matrices_and_other_operators_alone) {
  const auto small = dynamic_int8(model_of({.constants = {kWeights}})).value();
  ASSERT_EQ(small.left.size(), 1u);
  EXPECT_EQ(small.left[0].why, "it has few weights");
  const auto foreign = dynamic_int8(model_of({.domain = "acme", .constants = {kWeights}}), {1});
  EXPECT_TRUE(foreign->changed.empty());
  EXPECT_TRUE(foreign->left.empty());
  const auto other = dynamic_int8(model_of({.op = "Add", .constants = {kWeights}}), {1}).value();
  EXPECT_TRUE(other.changed.empty());
  EXPECT_TRUE(other.left.empty());
}

TEST(Int8, puts_five_nodes_in_the_place_of_one_and_keeps_the_metadata) {
  const auto made = dynamic_int8(model_of({.constants = {kWeights}}), {1}).value();
  ASSERT_EQ(made.changed.size(), 1u);
  EXPECT_EQ(made.changed[0].node, "fc");
  EXPECT_EQ(made.changed[0].what, "int8, 2 channels");
  EXPECT_EQ(made.changed[0].bytes_before, 16u);
  EXPECT_EQ(made.changed[0].bytes_after, 12u);
  const Graph graph = read_graph(made.bytes).value();
  std::vector<std::string_view> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  EXPECT_EQ(ops, (std::vector<std::string_view>{"DynamicQuantizeLinear", "MatMulInteger", "Cast",
                                                "Mul", "Mul"}));
  EXPECT_EQ(graph.nodes.back().outputs.at(0), "y");
  EXPECT_EQ(graph.initializers, 2u) << "the old weights are gone";
  EXPECT_NE(made.bytes.find("features"), std::string::npos);
}

TEST(Int8, refuses_damaged_bytes) {
  const std::string model = model_of({.constants = {kWeights}});
  for (const std::string& bytes :
       {std::string(), std::string("hello"), std::string(1000, '\xff'), model + model,
        model_of({.constants = {tensor("w", {2, 3}, {1, 2, 3, 4})}}),
        model_of({.constants = {tensor("w", {1LL << 40, 1LL << 40}, {1})}}),
        model_of({.constants = {tensor("w", {-1, -4}, {1, 2, 3, 4})}}),
        model_of({.constants = {kWeights, kWeights}})}) {
    const auto made = dynamic_int8(bytes, {1});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().id, ErrorId::kModelCorrupt) << made.error().message;
  }
  for (std::size_t cut = 0; cut < model.size(); ++cut) {
    (void)dynamic_int8(std::string_view(model).substr(0, cut), {1});  // Whatever it says.
  }
}

TEST(Edit, copies_what_is_not_touched_byte_by_byte) {
  const std::string model = model_of({.constants = {kWeights}});
  EXPECT_EQ(ModelEdit::read(model)->finish(), model);
}

}  // namespace
}  // namespace falaj::onnx
