// onnx/graph.h — the bytes of a model.onnx as a graph of nodes: views, nothing is copied.
//
// As much of onnx.proto as a small graph needs. The bytes are foreign: every length is checked, and
// what is read takes memory in proportion to the bytes given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::onnx {

// TensorProto.DataType, those that are met here.
inline constexpr std::int64_t kFloat = 1;
inline constexpr std::int64_t kInt64 = 7;

struct Attribute {
  std::string_view name;
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string_view> texts;
};

struct Node {
  std::string_view op;
  std::string_view domain;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
};

// An input or output of the graph. A dimension is -1 when it has a name or nothing.
struct ValueInfo {
  std::string_view name;
  std::int64_t element = 0;  // 0: no tensor.
  std::vector<std::int64_t> shape;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::size_t initializers = 0;  // Counted, not read.
};

// The graph of a model; its views point into `bytes`. FJ-5002 when the bytes are damaged, hold no
// graph, or hold more than a thousand nodes: nothing here serves such a graph.
Result<Graph> read_graph(std::string_view bytes);

}  // namespace falaj::onnx
