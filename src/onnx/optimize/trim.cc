#include "onnx/optimize/trim.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "onnx/internal/tree_node.h"
#include "onnx/internal/words.h"
#include "onnx/optimize/edit.h"

namespace falaj::onnx {
namespace {

using Key = std::pair<std::int64_t, std::int64_t>;  // Tree and node.

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX trees: " + what);
}

std::map<Key, std::size_t> places_of(const Trees& trees) {
  std::map<Key, std::size_t> places;
  for (std::size_t i = 0; i < trees.treeids.size(); ++i) {
    places.emplace(Key{trees.treeids[i], trees.nodeids[i]}, i);
  }
  return places;
}

std::string name_of(const Key& key) {
  return "node " + std::to_string(key.second) + " of tree " + std::to_string(key.first);
}

// The trees in the order in which they first appear.
std::vector<std::int64_t> order_of(const Trees& trees) {
  std::vector<std::int64_t> order;
  std::set<std::int64_t> seen;
  for (const std::int64_t id : trees.treeids) {
    if (seen.insert(id).second) order.push_back(id);
  }
  return order;
}

// Only nodes and weights that are kept, in their order.
Trees filtered(const Trees& trees, const std::function<bool(std::size_t)>& node,
               const std::function<bool(std::size_t)>& weight) {
  Trees out = trees;
  const auto filter = [](auto& values, const std::function<bool(std::size_t)>& keep) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (keep(i)) values[to++] = values[i];
    }
    values.resize(to);
  };
  filter(out.treeids, node);
  filter(out.nodeids, node);
  filter(out.featureids, node);
  filter(out.modes, node);
  filter(out.values, node);
  filter(out.truenodeids, node);
  filter(out.falsenodeids, node);
  filter(out.missing_value_tracks_true, node);
  filter(out.hitrates, node);
  filter(out.weight_treeids, weight);
  filter(out.weight_nodeids, weight);
  filter(out.weight_ids, weight);
  filter(out.weights, weight);
  return out;
}

// Leaves of one forest, and what becomes of them.
class Merger {
 public:
  Merger(const Trees& trees, float gap) : trees_(trees), gap_(gap), places_(places_of(trees)) {
    leaf_.resize(trees.treeids.size());
    gone_.assign(trees.treeids.size(), false);
    for (std::size_t i = 0; i < trees.treeids.size(); ++i) {
      if (trees.modes[i] == Mode::kLeaf) leaf_[i].emplace();
    }
    for (std::size_t i = 0; i < trees.weights.size(); ++i) {
      const std::size_t at = places_.at({trees.weight_treeids[i], trees.weight_nodeids[i]});
      (*leaf_[at])[trees.weight_ids[i]] += trees.weights[i];
    }
  }

  Trees merged() {
    // Each pass takes away a level at least, or is the last one.
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < leaf_.size(); ++i) {
        if (!leaf_[i] && !gone_[i] && merge(i)) again = true;
      }
    }
    return written();
  }

 private:
  using Weights = std::map<std::int64_t, float>;  // By output column.

  double cover(std::size_t node) const {
    return trees_.hitrates.empty() ? 1 : static_cast<double>(trees_.hitrates[node]);
  }

  bool merge(std::size_t split) {
    const std::int64_t tree = trees_.treeids[split];
    const std::size_t yes = places_.at({tree, trees_.truenodeids[split]});
    const std::size_t no = places_.at({tree, trees_.falsenodeids[split]});
    if (!leaf_[yes] || !leaf_[no] || leaf_[yes]->size() != leaf_[no]->size()) return false;
    double share = 0.5;
    const double both = cover(yes) + cover(no);
    if (both > 0 && std::isfinite(both)) share = cover(yes) / both;
    Weights mean;
    for (const auto& [column, weight] : *leaf_[yes]) {
      const auto other = leaf_[no]->find(column);
      if (other == leaf_[no]->end() || !(std::abs(weight - other->second) <= gap_)) return false;
      mean[column] = static_cast<float>(share * weight + (1 - share) * other->second);
    }
    leaf_[split] = std::move(mean);
    gone_[yes] = gone_[no] = true;
    return true;
  }

  Trees written() const {
    Trees out = filtered(
        trees_, [&](std::size_t i) { return !gone_[i]; }, [](std::size_t) { return false; });
    std::size_t to = 0;
    for (std::size_t i = 0; i < leaf_.size(); ++i) {
      if (gone_[i]) continue;
      const std::size_t at = to++;
      if (!leaf_[i]) continue;
      out.modes[at] = Mode::kLeaf;
      out.featureids[at] = 0;
      out.values[at] = 0;
      out.truenodeids[at] = 0;
      out.falsenodeids[at] = 0;
      if (!out.missing_value_tracks_true.empty()) out.missing_value_tracks_true[at] = 0;
      for (const auto& [column, weight] : *leaf_[i]) {
        out.weight_treeids.push_back(trees_.treeids[i]);
        out.weight_nodeids.push_back(trees_.nodeids[i]);
        out.weight_ids.push_back(column);
        out.weights.push_back(weight);
      }
    }
    return out;
  }

  const Trees& trees_;
  float gap_;
  std::map<Key, std::size_t> places_;
  std::vector<std::optional<Weights>> leaf_;  // By node; nullopt: a split.
  std::vector<bool> gone_;
};

Status check_child(const std::map<Key, std::size_t>& places, const Key& child,
                   std::vector<bool>& has_parent) {
  const auto found = places.find(child);
  if (found == places.end()) return damaged(name_of(child) + " is missing");
  if (has_parent[found->second]) return damaged(name_of(child) + " has two parents");
  has_parent[found->second] = true;
  return {};
}

// Walks down from the roots: a ring without a root is found by what was not reached.
Status check_reached(const Trees& trees, const std::map<Key, std::size_t>& places,
                     const std::vector<bool>& has_parent) {
  std::set<std::int64_t> rooted;
  std::vector<std::size_t> open;
  std::size_t reached = 0;
  for (std::size_t i = 0; i < has_parent.size(); ++i) {
    if (has_parent[i]) continue;
    if (!rooted.insert(trees.treeids[i]).second) {
      return damaged("tree " + std::to_string(trees.treeids[i]) + " has two roots");
    }
    open.push_back(i);
  }
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    ++reached;
    if (trees.modes[at] == Mode::kLeaf) continue;
    open.push_back(places.at({trees.treeids[at], trees.truenodeids[at]}));
    open.push_back(places.at({trees.treeids[at], trees.falsenodeids[at]}));
  }
  return reached == has_parent.size() ? Status{} : Status(damaged("nodes that hang from no root"));
}

float greatest_gap(const Trees& trees) {
  const auto [least, most] = std::minmax_element(trees.weights.begin(), trees.weights.end());
  return least == trees.weights.end() ? 0 : *most - *least;
}

}  // namespace

Status check_forest(const Trees& trees) {
  const std::map<Key, std::size_t> places = places_of(trees);
  if (places.size() != trees.treeids.size()) return damaged("a node stands twice");
  std::vector<bool> has_parent(trees.treeids.size(), false);
  for (std::size_t i = 0; i < trees.treeids.size(); ++i) {
    if (trees.modes[i] == Mode::kLeaf) continue;
    FALAJ_TRY(check_child(places, {trees.treeids[i], trees.truenodeids[i]}, has_parent));
    FALAJ_TRY(check_child(places, {trees.treeids[i], trees.falsenodeids[i]}, has_parent));
  }
  FALAJ_TRY(check_reached(trees, places, has_parent));
  for (std::size_t i = 0; i < trees.weights.size(); ++i) {
    const auto at = places.find({trees.weight_treeids[i], trees.weight_nodeids[i]});
    if (at == places.end() || trees.modes[at->second] != Mode::kLeaf) {
      return damaged("a weight of no leaf");
    }
  }
  return {};
}

std::size_t tree_count(const Trees& trees) { return order_of(trees).size(); }

Trees first_trees(const Trees& trees, std::size_t count) {
  const std::vector<std::int64_t> order = order_of(trees);
  if (count >= order.size()) return trees;
  const std::set<std::int64_t> kept(order.begin(),
                                    order.begin() + static_cast<std::ptrdiff_t>(count));
  return filtered(
      trees, [&](std::size_t i) { return kept.contains(trees.treeids[i]); },
      [&](std::size_t i) { return kept.contains(trees.weight_treeids[i]); });
}

Trees merge_leaves(const Trees& trees, float gap) { return Merger(trees, gap).merged(); }

Result<Trees> trim(const Trees& trees, const Fits& fits) {
  std::size_t too_few = 0;
  std::size_t enough = tree_count(trees);
  while (too_few + 1 < enough) {
    const std::size_t middle = too_few + (enough - too_few) / 2;
    const bool good = FALAJ_TRY(fits(first_trees(trees, middle)));
    (good ? enough : too_few) = middle;
  }
  Trees best = first_trees(trees, enough);
  // From a gap that merges all it can, down to a thousandth of it.
  const Trees fewer = best;
  float low = 0;
  float high = greatest_gap(fewer);
  for (int step = 0; step < 10 && high > 0; ++step) {
    const float middle = low + (high - low) / 2;
    Trees merged = merge_leaves(fewer, middle);
    const bool good = FALAJ_TRY(fits(merged));
    (good ? low : high) = middle;
    if (good) best = std::move(merged);
  }
  if (low == 0) {
    // Leaves that are equal cost nothing.
    Trees merged = merge_leaves(fewer, 0);
    if (merged.treeids.size() < fewer.treeids.size() && FALAJ_TRY(fits(merged))) {
      best = std::move(merged);
    }
  }
  return best;
}

Result<Optimized> with_trees(std::string_view model, const Trees& trees) {
  const Trees before = FALAJ_TRY(read_trees(model));
  Optimized out;
  out.bytes = std::string(model);
  if (trees.treeids.size() == before.treeids.size()) return out;
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  for (std::size_t i = 0; i < edit.nodes().size(); ++i) {
    const ModelEdit::Node& node = edit.nodes()[i];
    if (node.domain != kMlDomain || (node.op != kClassifierOp && node.op != kRegressorOp)) continue;
    const std::string bytes = tree_node(trees, {.node = node.name,
                                                .input = node.inputs.front(),
                                                .label = node.outputs.front(),
                                                .scores = node.outputs.back()});
    const std::string old = tree_node(before, {.node = node.name,
                                               .input = node.inputs.front(),
                                               .label = node.outputs.front(),
                                               .scores = node.outputs.back()});
    out.changed.push_back({node.title(), std::string(node.op),
                           std::to_string(tree_count(trees)) + " of " +
                               std::to_string(tree_count(before)) + " trees, " +
                               std::to_string(trees.treeids.size()) + " of " +
                               std::to_string(before.treeids.size()) + " nodes",
                           old.size(), bytes.size()});
    edit.replace_bytes(i, bytes);
  }
  out.bytes = edit.finish();
  return out;
}

}  // namespace falaj::onnx
