// The bytes of model.onnx: field numbers are those of the published onnx.proto.
#include <array>

#include "training/onnx/trees.h"
#include "training/onnx/wire.h"

namespace falaj::training::onnx {
namespace {

constexpr std::string_view kClassifier = "TreeEnsembleClassifier";
constexpr std::string_view kRegressor = "TreeEnsembleRegressor";
constexpr std::string_view kMlDomain = "ai.onnx.ml";
constexpr std::string_view kBranchLeq = "BRANCH_LEQ";
constexpr std::string_view kLeaf = "LEAF";
constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kMlOpset = 3;

// AttributeProto.type
constexpr std::int64_t kInteger = 2;
constexpr std::int64_t kText = 3;
constexpr std::int64_t kNumbers = 6;
constexpr std::int64_t kIntegers = 7;
constexpr std::int64_t kTexts = 8;
// TensorProto.DataType
constexpr std::int64_t kFloat = 1;
constexpr std::int64_t kInt64 = 7;

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
    for (const Mode mode : values) attribute.bytes(9, mode == Mode::kLeaf ? kLeaf : kBranchLeq);
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

std::string tree_node(const OnnxTrees& trees) {
  const bool binary = trees.objective == Objective::kBinary;
  WireWriter node;
  node.bytes(1, "input");
  node.bytes(2, binary ? "label" : "variable");
  if (binary) node.bytes(2, "probabilities");
  node.bytes(3, "trees");
  node.bytes(4, binary ? kClassifier : kRegressor);
  node.bytes(7, kMlDomain);
  Attributes attributes(node);
  attributes.integers("nodes_treeids", trees.treeids);
  attributes.integers("nodes_nodeids", trees.nodeids);
  attributes.integers("nodes_featureids", trees.featureids);
  attributes.modes("nodes_modes", trees.modes);
  attributes.numbers("nodes_values", trees.values);
  attributes.integers("nodes_truenodeids", trees.truenodeids);
  attributes.integers("nodes_falsenodeids", trees.falsenodeids);
  attributes.integers("nodes_missing_value_tracks_true", trees.missing_value_tracks_true);
  const std::string prefix = binary ? "class_" : "target_";
  attributes.integers(prefix + "treeids", trees.weight_treeids);
  attributes.integers(prefix + "nodeids", trees.weight_nodeids);
  attributes.integers(prefix + "ids", trees.weight_ids);
  attributes.numbers(prefix + "weights", trees.weights);
  if (binary) {
    constexpr std::array<std::int64_t, 2> kClasses{0, 1};
    attributes.integers("classlabels_int64s", kClasses);
    attributes.text("post_transform", "LOGISTIC");
  } else {
    attributes.integer("n_targets", 1);
    attributes.text("aggregate_function", "SUM");
    attributes.text("post_transform", "NONE");
  }
  return node.str();
}

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

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX file: " + what);
}

// What an attribute of the tree node may hold.
struct Attribute {
  std::string_view name;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string_view> texts;
};

Result<Attribute> read_attribute(std::string_view bytes) {
  Attribute attribute;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) attribute.name = field->bytes;
    if (field->number == 7) FALAJ_TRY(append_numbers(*field, attribute.numbers));
    if (field->number == 8) FALAJ_TRY(append_integers(*field, attribute.integers));
    if (field->number == 9) attribute.texts.push_back(field->bytes);
  }
  return attribute;
}

Status take_modes(const Attribute& attribute, std::vector<Mode>& modes) {
  for (const std::string_view text : attribute.texts) {
    if (text != kLeaf && text != kBranchLeq) return damaged("mode " + std::string(text));
    modes.push_back(text == kLeaf ? Mode::kLeaf : Mode::kBranchLeq);
  }
  return {};
}

Status take_attribute(Attribute attribute, OnnxTrees& trees) {
  const std::string_view name = attribute.name;
  const std::string_view suffix = name.substr(name.find('_') + 1);
  if (name == "nodes_modes") return take_modes(attribute, trees.modes);
  if (name == "nodes_values") trees.values = std::move(attribute.numbers);
  if (name == "class_weights" || name == "target_weights") {
    trees.weights = std::move(attribute.numbers);
  }
  if (attribute.integers.empty()) return {};
  if (name.starts_with("nodes_")) {
    if (suffix == "treeids") trees.treeids = std::move(attribute.integers);
    if (suffix == "nodeids") trees.nodeids = std::move(attribute.integers);
    if (suffix == "featureids") trees.featureids = std::move(attribute.integers);
    if (suffix == "truenodeids") trees.truenodeids = std::move(attribute.integers);
    if (suffix == "falsenodeids") trees.falsenodeids = std::move(attribute.integers);
    if (suffix == "missing_value_tracks_true") {
      trees.missing_value_tracks_true = std::move(attribute.integers);
    }
    return {};
  }
  if (suffix == "treeids") trees.weight_treeids = std::move(attribute.integers);
  if (suffix == "nodeids") trees.weight_nodeids = std::move(attribute.integers);
  if (suffix == "ids") trees.weight_ids = std::move(attribute.integers);
  return {};
}

Status read_node(std::string_view bytes, OnnxTrees& trees) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 4) {
      if (field->bytes != kClassifier && field->bytes != kRegressor) {
        return damaged("operator " + std::string(field->bytes) + " is no tree ensemble");
      }
      trees.objective = field->bytes == kClassifier ? Objective::kBinary : Objective::kRegression;
    }
    if (field->number == 5) {
      FALAJ_TRY(take_attribute(FALAJ_TRY(read_attribute(field->bytes)), trees));
    }
  }
  return {};
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

// The second dimension of a ValueInfoProto.
Result<std::size_t> columns_of(std::string_view info) {
  const std::string_view tensor = FALAJ_TRY(member(FALAJ_TRY(member(info, 2)), 1));
  const std::string_view last = FALAJ_TRY(member(FALAJ_TRY(member(tensor, 2)), 1));
  WireReader reader(last);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1 && field->integer < (1u << 30)) {
      return static_cast<std::size_t>(field->integer);
    }
  }
  return damaged("the input has no number of columns");
}

}  // namespace

std::string write_onnx(const OnnxTrees& trees, const Metadata& metadata) {
  WireWriter graph;
  graph.bytes(1, tree_node(trees));
  graph.bytes(2, "falaj");
  graph.bytes(11, value_info("input", kFloat, static_cast<std::int64_t>(trees.features)));
  if (trees.objective == Objective::kBinary) {
    graph.bytes(12, value_info("label", kInt64, 0));
    graph.bytes(12, value_info("probabilities", kFloat, 2));
  } else {
    graph.bytes(12, value_info("variable", kFloat, 1));
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

Result<OnnxTrees> read_onnx(std::string_view bytes) {
  const std::string_view graph = FALAJ_TRY(member(bytes, 7));
  OnnxTrees trees;
  std::size_t nodes = 0;
  WireReader reader(graph);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1 && ++nodes == 1) FALAJ_TRY(read_node(field->bytes, trees));
    if (field->number == 11) trees.features = FALAJ_TRY(columns_of(field->bytes));
  }
  if (nodes != 1) return damaged("the graph has " + std::to_string(nodes) + " nodes, not one");
  return trees;
}

}  // namespace falaj::training::onnx
