// From a graph to the arrays of its one tree ensemble.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "onnx/graph.h"
#include "onnx/internal/words.h"
#include "onnx/trees.h"

namespace falaj::onnx {
namespace {

constexpr std::int64_t kColumnsMax = 1 << 24;

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX file: " + what);
}

template <class Enum, std::size_t N>
Result<Enum> word_of(const std::array<std::string_view, N>& words, std::string_view text,
                     const char* what) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return damaged(std::string(what) + " '" + std::string(text) + "'");
  return static_cast<Enum>(found - words.begin());
}

Status take_words(const Attribute& attribute, Trees& trees) {
  if (attribute.name == "post_transform") {
    trees.transform = FALAJ_TRY(word_of<Transform>(kTransforms, attribute.text, "post_transform"));
  } else if (attribute.name == "aggregate_function") {
    trees.aggregate = FALAJ_TRY(word_of<Aggregate>(kAggregates, attribute.text, "aggregate"));
  } else {
    trees.modes.reserve(attribute.texts.size());
    for (const std::string_view text : attribute.texts) {
      trees.modes.push_back(FALAJ_TRY(word_of<Mode>(kModes, text, "mode")));
    }
  }
  return {};
}

// Where a list of integers belongs; null when the name is none of those.
std::vector<std::int64_t>* integers_of(std::string_view name, Trees& trees) {
  if (name == "nodes_treeids") return &trees.treeids;
  if (name == "nodes_nodeids") return &trees.nodeids;
  if (name == "nodes_featureids") return &trees.featureids;
  if (name == "nodes_truenodeids") return &trees.truenodeids;
  if (name == "nodes_falsenodeids") return &trees.falsenodeids;
  if (name == "nodes_missing_value_tracks_true") return &trees.missing_value_tracks_true;
  if (name == "classlabels_int64s") return &trees.class_labels;
  const std::string_view prefix = trees.ensemble == Ensemble::kClassifier ? "class_" : "target_";
  if (!name.starts_with(prefix)) return nullptr;
  name.remove_prefix(prefix.size());
  if (name == "treeids") return &trees.weight_treeids;
  if (name == "nodeids") return &trees.weight_nodeids;
  if (name == "ids") return &trees.weight_ids;
  return nullptr;
}

std::vector<float>* numbers_of(std::string_view name, Trees& trees) {
  if (name == "nodes_values") return &trees.values;
  if (name == "nodes_hitrates") return &trees.hitrates;
  if (name == "base_values") return &trees.base_values;
  const bool classifier = trees.ensemble == Ensemble::kClassifier;
  return name == (classifier ? "class_weights" : "target_weights") ? &trees.weights : nullptr;
}

Status take_attribute(Attribute& attribute, Trees& trees) {
  const std::string_view name = attribute.name;
  if (name == "post_transform" || name == "aggregate_function" || name == "nodes_modes") {
    return take_words(attribute, trees);
  }
  if (name == "n_targets") {
    trees.targets = attribute.integer;
    return {};
  }
  if (std::vector<std::int64_t>* const into = integers_of(name, trees)) {
    *into = std::move(attribute.integers);
    return {};
  }
  if (std::vector<float>* const into = numbers_of(name, trees)) {
    *into = std::move(attribute.numbers);
    return {};
  }
  return damaged("attribute '" + std::string(name) + "' of a tree ensemble is not known");
}

Status check_lengths(const Trees& trees) {
  const std::size_t nodes = trees.treeids.size();
  const std::size_t weights = trees.weights.size();
  const std::size_t tracks = trees.missing_value_tracks_true.size();
  const bool even = nodes > 0 && trees.nodeids.size() == nodes &&
                    trees.featureids.size() == nodes && trees.modes.size() == nodes &&
                    trees.values.size() == nodes && trees.truenodeids.size() == nodes &&
                    trees.falsenodeids.size() == nodes && (tracks == 0 || tracks == nodes) &&
                    trees.weight_treeids.size() == weights &&
                    trees.weight_nodeids.size() == weights && trees.weight_ids.size() == weights;
  return even ? Status{} : Status(damaged("the trees' arrays have different lengths"));
}

bool is_ensemble(const Node& node) {
  return node.domain == kMlDomain && (node.op == kClassifierOp || node.op == kRegressorOp);
}

Status take_node(Node& node, Trees& trees) {
  trees.ensemble = node.op == kClassifierOp ? Ensemble::kClassifier : Ensemble::kRegressor;
  trees.transform = Transform::kNone;  // The defaults of the operator.
  trees.aggregate = Aggregate::kSum;
  trees.class_labels.clear();
  std::set<std::string_view> seen;
  for (Attribute& attribute : node.attributes) {
    if (!seen.insert(attribute.name).second) return damaged("an attribute stands twice");
    FALAJ_TRY(take_attribute(attribute, trees));
  }
  const std::size_t outputs = trees.ensemble == Ensemble::kClassifier ? 2 : 1;
  if (node.inputs.size() != 1 || node.outputs.size() != outputs) {
    return damaged("the tree ensemble has another number of inputs or outputs");
  }
  // It changes no answer, so a list of another length is as good as none.
  if (trees.hitrates.size() != trees.treeids.size()) trees.hitrates.clear();
  return check_lengths(trees);
}

// Follows a result of the ensemble through nodes that do not change it, to the graph's output.
class Paths {
 public:
  explicit Paths(const Graph& graph) : graph_(graph) {}

  // `cast_to`: the one type that a Cast may have without changing anything.
  Result<std::string> output_of(std::string_view name, std::int64_t cast_to) {
    // Each step uses up a node, so this ends.
    for (std::size_t steps = 0; steps <= graph_.nodes.size(); ++steps) {
      const auto output = std::find_if(graph_.outputs.begin(), graph_.outputs.end(),
                                       [&](const ValueInfo& each) { return each.name == name; });
      if (output != graph_.outputs.end()) {
        if (output->element != cast_to) return damaged("an output has another type");
        return std::string(name);
      }
      const auto node =
          std::find_if(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& each) {
            return each.inputs.size() == 1 && each.inputs[0] == name && passes(each, cast_to);
          });
      if (node == graph_.nodes.end()) break;
      ++used_;
      name = node->outputs[0];
    }
    return damaged("a result of the tree ensemble is no output of the graph");
  }
  std::size_t used() const { return used_; }

 private:
  static bool passes(const Node& node, std::int64_t cast_to) {
    if (!node.domain.empty() || node.outputs.size() != 1) return false;
    if (node.op == "Identity") return node.attributes.empty();
    return node.op == "Cast" && node.attributes.size() == 1 && node.attributes[0].name == "to" &&
           node.attributes[0].integer == cast_to;
  }

  const Graph& graph_;
  std::size_t used_ = 0;
};

Status take_input(const Graph& graph, std::string_view name, Trees& trees) {
  if (graph.inputs.size() != 1 || graph.initializers != 0) {
    return damaged("the graph has " + std::to_string(graph.inputs.size()) + " inputs, not one");
  }
  const ValueInfo& input = graph.inputs[0];
  if (input.name != name || input.element != kFloat || input.shape.size() != 2 ||
      input.shape[1] <= 0 || input.shape[1] > kColumnsMax) {
    return damaged("the input is no float matrix with a number of columns");
  }
  trees.input = std::string(name);
  trees.features = static_cast<std::size_t>(input.shape[1]);
  return {};
}

}  // namespace

Result<Trees> read_trees(std::string_view bytes) {
  Graph graph = FALAJ_TRY(read_graph(bytes));
  const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_ensemble);
  if (node == graph.nodes.end()) return damaged("the graph has no tree ensemble");
  Trees trees;
  FALAJ_TRY(take_node(*node, trees));
  FALAJ_TRY(take_input(graph, node->inputs[0], trees));
  Paths paths(graph);
  const bool classifier = trees.ensemble == Ensemble::kClassifier;
  if (classifier) trees.label = FALAJ_TRY(paths.output_of(node->outputs[0], kInt64));
  trees.scores = FALAJ_TRY(paths.output_of(node->outputs[classifier ? 1 : 0], kFloat));
  if (paths.used() + 1 != graph.nodes.size() || graph.outputs.size() != (classifier ? 2U : 1U)) {
    return damaged("the graph has more than one tree ensemble and its results");
  }
  return trees;
}

}  // namespace falaj::onnx
