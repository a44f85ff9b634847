// The bytes of model.onnx: field numbers are those of the published onnx.proto.
#include "onnx/graph.h"
#include "onnx/internal/tree_node.h"
#include "onnx/internal/words.h"
#include "onnx/trees.h"
#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kMlOpset = 3;

// AttributeProto.type
constexpr std::int64_t kInteger = 2;
constexpr std::int64_t kText = 3;
constexpr std::int64_t kNumbers = 6;
constexpr std::int64_t kIntegers = 7;
constexpr std::int64_t kTexts = 8;
// Adds attributes to a NodeProto.
class Attributes {
 public:
  explicit Attributes(WireWriter& node) : node_(node) {}
  void integer(std::string_view name, std::int64_t value) {
    WireWriter attribute = begin(name, kInteger);
    attribute.integer(3, value);
    node_.bytes(5, attribute.str());
  }
  void text(std::string_view name, std::string_view value) {
    WireWriter attribute = begin(name, kText);
    attribute.bytes(4, value);
    node_.bytes(5, attribute.str());
  }
  void integers(std::string_view name, std::span<const std::int64_t> values) {
    WireWriter attribute = begin(name, kIntegers);
    attribute.integers(8, values);
    node_.bytes(5, attribute.str());
  }
  void numbers(std::string_view name, std::span<const float> values) {
    WireWriter attribute = begin(name, kNumbers);
    attribute.numbers(7, values);
    node_.bytes(5, attribute.str());
  }
  void modes(std::string_view name, std::span<const Mode> values) {
    WireWriter attribute = begin(name, kTexts);
    for (const Mode mode : values) attribute.bytes(9, kModes[static_cast<std::size_t>(mode)]);
    node_.bytes(5, attribute.str());
  }

 private:
  static WireWriter begin(std::string_view name, std::int64_t type) {
    WireWriter attribute;
    attribute.bytes(1, name);
    attribute.integer(20, type);
    return attribute;
  }
  WireWriter& node_;
};

// A tensor [N] or [N, columns].
std::string value_info(std::string_view name, std::int64_t type, std::int64_t columns) {
  WireWriter shape;
  WireWriter rows;
  rows.bytes(2, "N");
  shape.bytes(1, rows.str());
  if (columns > 0) {
    WireWriter dimension;
    dimension.integer(1, columns);
    shape.bytes(1, dimension.str());
  }
  WireWriter tensor;
  tensor.integer(1, type);
  tensor.bytes(2, shape.str());
  WireWriter type_proto;
  type_proto.bytes(1, tensor.str());
  WireWriter info;
  info.bytes(1, name);
  info.bytes(2, type_proto.str());
  return info.str();
}

std::string opset(std::string_view domain, std::int64_t version) {
  WireWriter out;
  out.bytes(1, domain);
  out.integer(2, version);
  return out.str();
}

}  // namespace

std::string tree_node(const Trees& trees, const TreeNodeNames& names) {
  const bool classifier = trees.ensemble == Ensemble::kClassifier;
  WireWriter node;
  node.bytes(1, names.input);
  if (classifier) node.bytes(2, names.label);
  node.bytes(2, names.scores);
  node.bytes(3, names.node);
  node.bytes(4, classifier ? kClassifierOp : kRegressorOp);
  node.bytes(7, kMlDomain);
  Attributes attributes(node);
  attributes.integers("nodes_treeids", trees.treeids);
  attributes.integers("nodes_nodeids", trees.nodeids);
  attributes.integers("nodes_featureids", trees.featureids);
  attributes.modes("nodes_modes", trees.modes);
  attributes.numbers("nodes_values", trees.values);
  attributes.integers("nodes_truenodeids", trees.truenodeids);
  attributes.integers("nodes_falsenodeids", trees.falsenodeids);
  if (!trees.missing_value_tracks_true.empty()) {
    attributes.integers("nodes_missing_value_tracks_true", trees.missing_value_tracks_true);
  }
  if (!trees.hitrates.empty()) attributes.numbers("nodes_hitrates", trees.hitrates);
  const std::string prefix = classifier ? "class_" : "target_";
  attributes.integers(prefix + "treeids", trees.weight_treeids);
  attributes.integers(prefix + "nodeids", trees.weight_nodeids);
  attributes.integers(prefix + "ids", trees.weight_ids);
  attributes.numbers(prefix + "weights", trees.weights);
  if (!trees.base_values.empty()) attributes.numbers("base_values", trees.base_values);
  if (classifier) {
    attributes.integers("classlabels_int64s", trees.class_labels);
  } else {
    attributes.integer("n_targets", trees.targets);
    attributes.text("aggregate_function", kAggregates[static_cast<std::size_t>(trees.aggregate)]);
  }
  attributes.text("post_transform", kTransforms[static_cast<std::size_t>(trees.transform)]);
  return node.str();
}

std::string write_trees(const Trees& trees, const Metadata& metadata) {
  WireWriter graph;
  const bool classifier = trees.ensemble == Ensemble::kClassifier;
  graph.bytes(1, tree_node(trees, {.scores = classifier ? "probabilities" : "variable"}));
  graph.bytes(2, "falaj");
  graph.bytes(11, value_info("input", kFloat, static_cast<std::int64_t>(trees.features)));
  if (classifier) {
    graph.bytes(12, value_info("label", kInt64, 0));
    graph.bytes(12, value_info("probabilities", kFloat,
                               static_cast<std::int64_t>(trees.class_labels.size())));
  } else {
    graph.bytes(12, value_info("variable", kFloat, trees.targets));
  }
  WireWriter model;
  model.integer(1, kIrVersion);
  model.bytes(2, "falaj");
  model.bytes(7, graph.str());
  model.bytes(8, opset("", kOpset));
  model.bytes(8, opset(kMlDomain, kMlOpset));
  for (const auto& [key, value] : metadata) {
    WireWriter entry;
    entry.bytes(1, key);
    entry.bytes(2, value);
    model.bytes(14, entry.str());
  }
  return model.str();
}

}  // namespace falaj::onnx
