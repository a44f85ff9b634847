#include "onnx/foreign.h"

#include <gtest/gtest.h>

#include <string>

#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

struct Parts {
  std::string node_domain = "";
  std::string node_input = "x";
  std::string node_output = "y";
  std::string opset = "";
  std::string tensor;  // A whole TensorProto, or "".
  std::string extra_model;
  std::string extra_graph;
};

std::string named(std::string_view name) {
  WireWriter info;
  info.bytes(1, name);
  return info.str();
}

// x → Identity → y, with one thing changed.
std::string model_of(const Parts& parts) {
  WireWriter node;
  node.bytes(1, parts.node_input);
  node.bytes(2, parts.node_output);
  node.bytes(4, "Identity");
  if (!parts.node_domain.empty()) node.bytes(7, parts.node_domain);
  WireWriter graph;
  graph.bytes(1, node.str());
  graph.bytes(2, "g");
  if (!parts.tensor.empty()) graph.bytes(5, parts.tensor);
  graph.bytes(11, named("x"));
  graph.bytes(12, named("y"));
  WireWriter opset;
  opset.bytes(1, parts.opset);
  opset.integer(2, 17);
  WireWriter model;
  model.integer(1, 8);
  model.bytes(8, opset.str());
  model.bytes(7, graph.str() + parts.extra_graph);
  return model.str() + parts.extra_model;
}

std::string tensor_of(std::initializer_list<std::int64_t> dims, std::int64_t type,
                      std::string_view raw) {
  WireWriter tensor;
  for (const std::int64_t dim : dims) tensor.integer(1, dim);
  tensor.integer(2, type);
  tensor.bytes(8, "w");
  tensor.bytes(9, raw);
  return tensor.str();
}

std::string reason(std::string_view bytes) {
  const auto model = check_foreign(bytes);
  if (model.ok()) return "accepted";
  EXPECT_EQ(model.error().id, ErrorId::kModelFormatRefused);
  return model.error().message;
}

TEST(ForeignOnnx, a_plain_model_is_fit) {
  Parts parts;
  parts.tensor = tensor_of({2, 3}, 1, std::string(24, '\0'));
  const auto model = check_foreign(model_of(parts));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->nodes, 1u);
  EXPECT_EQ(model->tensors, 1u);
  EXPECT_EQ(model->tensor_bytes, 24u);
}

TEST(ForeignOnnx, data_outside_the_file_is_refused) {
  Parts parts;
  WireWriter place;
  place.bytes(1, "location");
  place.bytes(2, "../../etc/passwd");
  WireWriter outside;
  outside.bytes(13, place.str());
  parts.tensor = tensor_of({1}, 1, std::string(4, '\0')) + outside.str();
  EXPECT_NE(reason(model_of(parts)).find("outside the file"), std::string::npos);
  WireWriter location;
  location.integer(14, 1);
  parts.tensor = tensor_of({1}, 1, std::string(4, '\0')) + location.str();
  EXPECT_NE(reason(model_of(parts)).find("outside the file"), std::string::npos);
}

TEST(ForeignOnnx, operators_that_are_not_standard_are_refused) {
  Parts parts;
  parts.node_domain = "com.evil";
  EXPECT_NE(reason(model_of(parts)).find("'com.evil'"), std::string::npos);
  parts = {};
  parts.opset = "org.pytorch.aten";
  EXPECT_NE(reason(model_of(parts)).find("only ai.onnx"), std::string::npos);
}

TEST(ForeignOnnx, sizes_that_do_not_fit_are_refused) {
  Parts parts;
  parts.tensor = tensor_of({1ll << 32, 1ll << 32}, 1, "");
  EXPECT_NE(reason(model_of(parts)).find("more elements"), std::string::npos);
  parts.tensor = tensor_of({-1}, 1, "");
  EXPECT_NE(reason(model_of(parts)).find("more elements"), std::string::npos);
  parts.tensor = tensor_of({2}, 1, std::string(7, '\0'));
  EXPECT_NE(reason(model_of(parts)).find("announces 8 bytes and brings 7"), std::string::npos);
  parts.tensor = tensor_of({1}, 99, std::string(4, '\0'));
  EXPECT_NE(reason(model_of(parts)).find("element type 99"), std::string::npos);
}

TEST(ForeignOnnx, values_come_before_their_use) {
  Parts parts;
  parts.node_input = "y";  // Its own output: the smallest cycle.
  EXPECT_NE(reason(model_of(parts)).find("nothing before it computes"), std::string::npos);
  parts = {};
  parts.node_output = "x";
  EXPECT_NE(reason(model_of(parts)).find("computed twice"), std::string::npos);
  parts.node_output = "z";
  EXPECT_NE(reason(model_of(parts)).find("never computed"), std::string::npos);
}

TEST(ForeignOnnx, programs_and_unknown_fields_are_refused) {
  for (const std::uint32_t field : {20u, 25u, 99u}) {
    WireWriter extra;
    extra.bytes(field, "x");
    Parts parts;
    parts.extra_model = extra.str();
    EXPECT_NE(reason(model_of(parts)), "accepted") << field;
    parts = {};
    parts.extra_graph = extra.str();
    EXPECT_NE(reason(model_of(parts)), "accepted") << field;
  }
}

TEST(ForeignOnnx, deep_nesting_is_refused_without_a_deep_stack) {
  std::string inner;
  for (int depth = 0; depth < 5'000; ++depth) {
    WireWriter attribute;
    attribute.bytes(1, "body");
    attribute.bytes(6, inner);
    WireWriter node;
    node.bytes(4, "If");
    node.bytes(5, attribute.str());
    WireWriter graph;
    graph.bytes(1, node.str());
    inner = graph.str();
  }
  WireWriter model;
  model.integer(1, 8);
  model.bytes(7, inner);
  EXPECT_NE(reason(model.str()).find("nested deeper"), std::string::npos);
}

TEST(ForeignOnnx, what_is_no_onnx_is_refused) {
  for (const std::string_view bytes :
       {std::string_view(""), std::string_view("\x80\x04\x95", 3), std::string_view("PK\x03\x04"),
        std::string_view("not a model"), std::string_view("\x0a\xff\xff\xff\xff\x0f", 6)}) {
    EXPECT_NE(reason(bytes), "accepted");
  }
}

TEST(ForeignOnnx, every_cut_of_a_model_is_refused) {
  Parts parts;
  parts.tensor = tensor_of({2}, 7, std::string(16, '\1'));
  const std::string whole = model_of(parts);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(reason(std::string_view(whole).substr(0, size)), "accepted") << size;
  }
}

}  // namespace
}  // namespace falaj::onnx
