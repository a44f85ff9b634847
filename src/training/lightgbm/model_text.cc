#include "training/lightgbm/model_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace falaj::training::lightgbm {
namespace {

constexpr std::size_t kTreesMax = 1'000'000;
constexpr std::int64_t kLeavesMax = 1 << 20;
constexpr std::int64_t kFeaturesMax = 1 << 20;

// decision_type is a set of bits: 0 categorical, 1 default left, 2–3 the kind of missing value.
constexpr int kCategoricalBit = 1;
constexpr int kDefaultLeftBit = 2;
constexpr int kMissingShift = 2;
constexpr int kMissingNan = 2;

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "LightGBM model text: " + what + "; train the model again");
}

Error not_exportable(const std::string& what) {
  return Error(Code::kUnimplemented,
               "LightGBM model: " + what + " cannot be exported to ONNX; train without it");
}

// key=value lines of one block (the header, or one tree).
using Block = std::map<std::string, std::string_view, std::less<>>;

std::string_view find(const Block& block, std::string_view key) {
  const auto at = block.find(key);
  return at == block.end() ? std::string_view{} : at->second;
}

template <class Number>
Result<Number> parse_number(std::string_view text, std::string_view what) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return damaged(std::string(what) + " is not a number: '" + std::string(text.substr(0, 40)) +
                   "'");
  }
  return number;
}

template <class Number>
Result<std::vector<Number>> parse_list(const Block& block, std::string_view key,
                                       std::size_t expected) {
  std::vector<Number> numbers;
  numbers.reserve(expected);
  std::string_view rest = find(block, key);
  while (!rest.empty()) {
    const std::size_t blank = rest.find(' ');
    const std::string_view word = rest.substr(0, blank);
    rest = blank == std::string_view::npos ? std::string_view{} : rest.substr(blank + 1);
    if (word.empty()) continue;
    numbers.push_back(FALAJ_TRY(parse_number<Number>(word, key)));
  }
  if (numbers.size() != expected) {
    return damaged(std::string(key) + " has " + std::to_string(numbers.size()) + " entries, not " +
                   std::to_string(expected));
  }
  return numbers;
}

Result<std::int64_t> bounded(const Block& block, std::string_view key, std::int64_t max) {
  const std::int64_t number = FALAJ_TRY(parse_number<std::int64_t>(find(block, key), key));
  if (number < 0 || number > max) {
    return damaged(std::string(key) + " is " + std::to_string(number));
  }
  return number;
}

Result<Objective> read_objective(std::string_view text) {
  if (text == "binary sigmoid:1") return Objective::kBinary;
  if (text == "regression") return Objective::kRegression;
  return not_exportable("objective '" + std::string(text) + "'");
}

Result<TreeNode> read_node(int decision) {
  TreeNode node;
  if ((decision & kCategoricalBit) != 0) return not_exportable("a categorical split");
  const int missing = decision >> kMissingShift;
  if (missing != 0 && missing != kMissingNan) return not_exportable("zero as missing value");
  node.missing = missing == kMissingNan ? Missing::kNan : Missing::kNone;
  node.default_side = (decision & kDefaultLeftBit) != 0 ? Side::kLeft : Side::kRight;
  return node;
}

// Each node and leaf but the root has exactly one parent, and children come after their parent:
// no walk can loop or leave the arrays.
Status check_links(const Tree& tree) {
  std::vector<int> node_parents(tree.nodes.size(), 0);
  std::vector<int> leaf_parents(tree.leaves.size(), 0);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    for (const std::int32_t child : {tree.nodes[i].left, tree.nodes[i].right}) {
      std::vector<int>& parents = child >= 0 ? node_parents : leaf_parents;
      const auto index = static_cast<std::size_t>(child >= 0 ? child : ~child);
      if (index >= parents.size() || (child >= 0 && index <= i)) {
        return damaged("node " + std::to_string(i) + " points at " + std::to_string(child));
      }
      ++parents[index];
    }
  }
  for (std::size_t i = 1; i < node_parents.size(); ++i) {
    if (node_parents[i] != 1) return damaged("node " + std::to_string(i) + " has no one parent");
  }
  for (const int parents : leaf_parents) {
    if (!tree.nodes.empty() && parents != 1) return damaged("a leaf has no one parent");
  }
  return {};
}

Result<Tree> read_tree(const Block& block, std::size_t features) {
  const std::int64_t leaves = FALAJ_TRY(bounded(block, "num_leaves", kLeavesMax));
  if (leaves < 1) return damaged("a tree has no leaf");
  if (find(block, "num_cat") != "0") return not_exportable("a categorical split");
  if (find(block, "is_linear") == "1") return not_exportable("a linear tree");
  Tree tree;
  tree.leaves =
      FALAJ_TRY(parse_list<double>(block, "leaf_value", static_cast<std::size_t>(leaves)));
  const auto count = static_cast<std::size_t>(leaves - 1);
  if (count == 0) return tree;
  const auto decisions = FALAJ_TRY(parse_list<int>(block, "decision_type", count));
  const auto split = FALAJ_TRY(parse_list<std::int32_t>(block, "split_feature", count));
  const auto threshold = FALAJ_TRY(parse_list<double>(block, "threshold", count));
  const auto left = FALAJ_TRY(parse_list<std::int32_t>(block, "left_child", count));
  const auto right = FALAJ_TRY(parse_list<std::int32_t>(block, "right_child", count));
  for (std::size_t i = 0; i < count; ++i) {
    TreeNode node = FALAJ_TRY(read_node(decisions[i]));
    if (split[i] < 0 || static_cast<std::size_t>(split[i]) >= features) {
      return damaged("a split on feature " + std::to_string(split[i]));
    }
    if (std::isnan(threshold[i])) return damaged("a threshold is NaN");
    node.feature = split[i];
    node.threshold = threshold[i];
    node.left = left[i];
    node.right = right[i];
    tree.nodes.push_back(node);
  }
  FALAJ_TRY(check_links(tree));
  if (!find(block, "internal_count").empty() && !find(block, "leaf_count").empty()) {
    tree.node_covers = FALAJ_TRY(parse_list<double>(block, "internal_count", count));
    tree.leaf_covers = FALAJ_TRY(parse_list<double>(block, "leaf_count", count + 1));
  }
  return tree;
}

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

struct Blocks {
  Block header;
  std::vector<Block> trees;
};

Result<Blocks> split_blocks(std::string_view text) {
  Blocks blocks;
  if (next_line(text) != "tree") return damaged("does not begin with 'tree'");
  Block* current = &blocks.header;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line == "end of trees") return blocks;
    if (line.starts_with("Tree=")) {
      if (blocks.trees.size() == kTreesMax) return damaged("over a million trees");
      current = &blocks.trees.emplace_back();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    current->emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return damaged("ends before 'end of trees'");
}

}  // namespace

Result<TreeModel> read_model_text(std::string_view text) {
  const Blocks blocks = FALAJ_TRY(split_blocks(text));
  if (find(blocks.header, "num_tree_per_iteration") != "1") {
    return not_exportable("a model with several classes");
  }
  TreeModel model;
  model.objective = FALAJ_TRY(read_objective(find(blocks.header, "objective")));
  model.features = static_cast<std::size_t>(
      FALAJ_TRY(bounded(blocks.header, "max_feature_idx", kFeaturesMax)) + 1);
  model.trees.reserve(blocks.trees.size());
  for (const Block& block : blocks.trees) {
    model.trees.push_back(FALAJ_TRY(read_tree(block, model.features)));
  }
  if (model.trees.empty()) return damaged("has no tree");
  return model;
}

}  // namespace falaj::training::lightgbm
