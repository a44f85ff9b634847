#include "training/xgboost/model_json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/json.h"

namespace falaj::training::xgboost {
namespace {

constexpr std::size_t kTreesMax = 1'000'000;
constexpr std::size_t kNodesMax = 1 << 21;
constexpr std::int64_t kFeaturesMax = 1 << 20;
constexpr float kLargest = std::numeric_limits<float>::max();
// XGBoost writes this for "no child".
constexpr std::int64_t kNoChild = -1;

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "XGBoost model: " + what + "; save the model again");
}

Error not_exportable(const std::string& what) {
  return Error(Code::kUnimplemented,
               "XGBoost model: " + what + " cannot be brought in; train without it");
}

// Numbers of the model's parameters stand there as texts: "12", "5E-1", and in newer files
// "[5E-1]".
Result<double> number_in(const Value& parameters, const std::string& name) {
  std::string_view text;
  if (parameters[name].is_string()) text = parameters[name].as_string();
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) {
    return damaged(name + " is not one number");
  }
  return number;
}

Result<const Value::Array*> list_of(const Value& tree, const std::string& name, std::size_t size) {
  const Value& list = tree[name];
  if (!list.is_array() || list.as_array().size() != size) {
    return damaged(name + " has not an entry for each of " + std::to_string(size) + " nodes");
  }
  for (const Value& each : list.as_array()) {
    if (!each.is_number() && !each.is_bool()) return damaged(name + " holds more than numbers");
  }
  return &list.as_array();
}

Result<std::int64_t> whole(const Value& value, std::int64_t least, std::int64_t most) {
  const std::int64_t number = value.is_int()    ? value.as_int()
                              : value.is_bool() ? static_cast<std::int64_t>(value.as_bool())
                                                : most + 1;
  if (number < least || number > most) return damaged("an index points outside");
  return number;
}

Status check_plain(const Value& tree) {
  if (const Value& categories = tree["categories"];
      categories.is_array() && !categories.as_array().empty()) {
    return not_exportable("a categorical split");
  }
  const std::string vector_size = tree["tree_param"].text("size_leaf_vector");
  if (!vector_size.empty() && vector_size != "0" && vector_size != "1") {
    return not_exportable("a tree whose leaves are vectors");
  }
  return {};
}

struct Nodes {
  const Value::Array* left;
  const Value::Array* right;
  const Value::Array* feature;
  const Value::Array* value;  // A split's threshold, or a leaf's value.
  const Value::Array* default_left;
  const Value::Array* cover = nullptr;  // Null: it does not say.
  std::size_t size = 0;
};

Result<Nodes> nodes_of(const Value& tree) {
  const Value& left = tree["left_children"];
  if (!left.is_array() || left.as_array().empty() || left.as_array().size() > kNodesMax) {
    return damaged("a tree has no nodes, or over two million");
  }
  Nodes nodes{};
  nodes.size = left.as_array().size();
  nodes.left = FALAJ_TRY(list_of(tree, "left_children", nodes.size));
  nodes.right = FALAJ_TRY(list_of(tree, "right_children", nodes.size));
  nodes.feature = FALAJ_TRY(list_of(tree, "split_indices", nodes.size));
  nodes.value = FALAJ_TRY(list_of(tree, "split_conditions", nodes.size));
  nodes.default_left = FALAJ_TRY(list_of(tree, "default_left", nodes.size));
  if (tree.has("sum_hessian")) {
    nodes.cover = FALAJ_TRY(list_of(tree, "sum_hessian", nodes.size));
  }
  return nodes;
}

Result<float> float_of(const Value& value) {
  const double number = value.is_number() ? value.as_double() : std::nan("");
  if (!(std::abs(number) < kLargest)) return damaged("a threshold or leaf is no ordinary float");
  return static_cast<float>(number);
}

// Walks from the root, so that every node is reached once and no loop is possible.
class TreeReader {
 public:
  TreeReader(const Nodes& nodes, std::size_t features) : nodes_(nodes), features_(features) {}

  Result<Tree> read() {
    reached_.assign(nodes_.size, 0);
    place_.assign(nodes_.size, 0);
    FALAJ_TRY(visit(0));
    for (std::size_t next = 0; next < splits_.size(); ++next) FALAJ_TRY(read_split(splits_[next]));
    // The children's places are known only now.
    for (std::size_t i = 0; i < splits_.size(); ++i) {
      tree_.nodes[i].left = place_[static_cast<std::size_t>(tree_.nodes[i].left)];
      tree_.nodes[i].right = place_[static_cast<std::size_t>(tree_.nodes[i].right)];
    }
    return std::move(tree_);
  }

  std::vector<std::int32_t> leaf_of_node() const {
    std::vector<std::int32_t> out(nodes_.size, -1);
    for (std::size_t i = 0; i < nodes_.size; ++i) {
      if (reached_[i] != 0 && place_[i] < 0) out[i] = ~place_[i];
    }
    return out;
  }

 private:
  // Gives the node its place: the next split, or the next leaf.
  Status visit(std::size_t node) {
    if (reached_[node] != 0) return damaged("a node has two parents");
    reached_[node] = 1;
    const bool leaf = FALAJ_TRY(child((*nodes_.left)[node])) == kNoChild;
    if (leaf != (FALAJ_TRY(child((*nodes_.right)[node])) == kNoChild)) {
      return damaged("a node has one child");
    }
    if (leaf) {
      place_[node] = ~static_cast<std::int32_t>(tree_.leaves.size());
      tree_.leaves.push_back(FALAJ_TRY(float_of((*nodes_.value)[node])));
      FALAJ_TRY(add_cover(node, tree_.leaf_covers));
    } else {
      place_[node] = static_cast<std::int32_t>(splits_.size());
      splits_.push_back(node);
      FALAJ_TRY(add_cover(node, tree_.node_covers));
    }
    return {};
  }

  Status add_cover(std::size_t node, std::vector<double>& covers) {
    if (nodes_.cover == nullptr) return {};
    covers.push_back(FALAJ_TRY(float_of((*nodes_.cover)[node])));
    return {};
  }

  Status read_split(std::size_t node) {
    TreeNode split;
    const auto most = static_cast<std::int64_t>(features_) - 1;
    split.feature = static_cast<std::int32_t>(FALAJ_TRY(whole((*nodes_.feature)[node], 0, most)));
    const float threshold = FALAJ_TRY(float_of((*nodes_.value)[node]));
    split.threshold = std::nextafter(threshold, -std::numeric_limits<float>::infinity());
    split.missing = Missing::kNan;
    split.default_side =
        FALAJ_TRY(whole((*nodes_.default_left)[node], 0, 1)) == 1 ? Side::kLeft : Side::kRight;
    split.left = static_cast<std::int32_t>(FALAJ_TRY(child((*nodes_.left)[node])));
    split.right = static_cast<std::int32_t>(FALAJ_TRY(child((*nodes_.right)[node])));
    tree_.nodes.push_back(split);
    FALAJ_TRY(visit(static_cast<std::size_t>(split.left)));
    return visit(static_cast<std::size_t>(split.right));
  }

  Result<std::int64_t> child(const Value& value) const {
    return whole(value, kNoChild, static_cast<std::int64_t>(nodes_.size) - 1);
  }

  const Nodes& nodes_;
  std::size_t features_;
  Tree tree_;
  std::vector<std::size_t> splits_;
  std::vector<char> reached_;
  std::vector<std::int32_t> place_;  // In `tree_`, as TreeNode's children are written.
};

Result<Objective> objective_of(const Value& learner) {
  const std::string name = learner["objective"].text("name");
  if (name == "binary:logistic") return Objective::kBinary;
  if (name == "reg:squarederror") return Objective::kRegression;
  return not_exportable("the objective '" + name.substr(0, 64) + "'");
}

// What is added to the sum of the leaves.
Result<double> base_margin(const Value& parameters, Objective objective) {
  const double score = FALAJ_TRY(number_in(parameters, "base_score"));
  if (objective == Objective::kRegression) return score;
  if (score <= 0 || score >= 1) return damaged("base_score is no probability");
  return std::log(score / (1 - score));
}

Status check_single(const Value& parameters) {
  for (const char* name : {"num_class", "num_target"}) {
    if (!parameters.has(name)) continue;
    if (FALAJ_TRY(number_in(parameters, name)) > 1) {
      return not_exportable("a model with several classes or targets");
    }
  }
  return {};
}

}  // namespace

Result<JsonModel> read_model_json(std::string_view text) {
  const Value document = FALAJ_TRY(parse_json(text));
  const Value& learner = document["learner"];
  const Value& booster = learner["gradient_booster"];
  if (booster.text("name") != "gbtree") {
    return not_exportable("a booster '" + booster.text("name").substr(0, 64) + "'");
  }
  const Value& parameters = learner["learner_model_param"];
  FALAJ_TRY(check_single(parameters));
  JsonModel out;
  out.trees.objective = FALAJ_TRY(objective_of(learner));
  out.trees.tiny = Tiny::kIsItself;
  const double features = FALAJ_TRY(number_in(parameters, "num_feature"));
  if (features < 1 || features > kFeaturesMax) return damaged("num_feature is out of range");
  out.trees.features = static_cast<std::size_t>(features);
  const Value& trees = booster["model"]["trees"];
  if (!trees.is_array() || trees.as_array().empty() || trees.as_array().size() > kTreesMax) {
    return damaged("it has no trees, or over a million");
  }
  for (const Value& tree : trees.as_array()) {
    FALAJ_TRY(check_plain(tree));
    const Nodes nodes = FALAJ_TRY(nodes_of(tree));
    TreeReader reader(nodes, out.trees.features);
    out.trees.trees.push_back(FALAJ_TRY(reader.read()));
    out.leaf_of_node.push_back(reader.leaf_of_node());
  }
  const double margin = FALAJ_TRY(base_margin(parameters, out.trees.objective));
  for (double& leaf : out.trees.trees.front().leaves) leaf += margin;
  return out;
}

}  // namespace falaj::training::xgboost
