// Field numbers are those of the published onnx.proto.
#include "onnx/graph.h"

#include <string>

#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

constexpr std::size_t kNodesMax = 1000;
constexpr std::size_t kDimensionsMax = 16;

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX file: " + what);
}

Result<Attribute> read_attribute(std::string_view bytes) {
  Attribute attribute;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) attribute.name = field->bytes;
    if (field->number == 3) attribute.integer = static_cast<std::int64_t>(field->integer);
    if (field->number == 4) attribute.text = field->bytes;
    if (field->number == 7) FALAJ_TRY(append_numbers(*field, attribute.numbers));
    if (field->number == 8) FALAJ_TRY(append_integers(*field, attribute.integers));
    if (field->number == 9) attribute.texts.push_back(field->bytes);
  }
  return attribute;
}

Result<Node> read_node(std::string_view bytes) {
  Node node;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) node.inputs.push_back(field->bytes);
    if (field->number == 2) node.outputs.push_back(field->bytes);
    if (field->number == 4) node.op = field->bytes;
    if (field->number == 5) {
      Attribute attribute = FALAJ_TRY(read_attribute(field->bytes));
      node.attributes.push_back(std::move(attribute));
    }
    if (field->number == 7) node.domain = field->bytes;
  }
  return node;
}

Result<std::int64_t> read_dimension(std::string_view bytes) {
  std::int64_t dimension = -1;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) dimension = static_cast<std::int64_t>(field->integer);
  }
  return dimension;
}

// The last member with this number inside a message; empty when there is none.
Result<std::string_view> member(std::string_view message, std::uint32_t number) {
  std::string_view found;
  WireReader reader(message);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == number) found = field->bytes;
  }
  return found;
}

Status read_tensor_type(std::string_view bytes, ValueInfo& info) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) info.element = static_cast<std::int64_t>(field->integer);
    if (field->number != 2) continue;
    WireReader shape(field->bytes);
    while (const auto dimension = FALAJ_TRY(shape.next())) {
      if (dimension->number != 1) continue;
      if (info.shape.size() == kDimensionsMax) return damaged("a tensor has over 16 dimensions");
      info.shape.push_back(FALAJ_TRY(read_dimension(dimension->bytes)));
    }
  }
  return {};
}

Result<ValueInfo> read_value_info(std::string_view bytes) {
  ValueInfo info;
  info.name = FALAJ_TRY(member(bytes, 1));
  const std::string_view type = FALAJ_TRY(member(bytes, 2));
  const std::string_view tensor = FALAJ_TRY(member(type, 1));
  FALAJ_TRY(read_tensor_type(tensor, info));
  return info;
}

}  // namespace

Result<Graph> read_graph(std::string_view bytes) {
  std::string_view message;
  WireReader model(bytes);
  while (const auto field = FALAJ_TRY(model.next())) {
    if (field->number != 7) continue;
    // Protobuf would merge the two; no exporter writes them.
    if (!message.empty()) return damaged("it has two graphs");
    message = field->bytes;
  }
  if (message.empty()) return damaged("it has no graph");
  Graph graph;
  WireReader reader(message);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) {
      if (graph.nodes.size() == kNodesMax) return damaged("the graph has over 1000 nodes");
      Node node = FALAJ_TRY(read_node(field->bytes));
      graph.nodes.push_back(std::move(node));
    }
    if (field->number == 5) ++graph.initializers;
    if (field->number == 11) graph.inputs.push_back(FALAJ_TRY(read_value_info(field->bytes)));
    if (field->number == 12) graph.outputs.push_back(FALAJ_TRY(read_value_info(field->bytes)));
  }
  return graph;
}

}  // namespace falaj::onnx
