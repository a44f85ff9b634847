#include "onnx/trees.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "onnx/graph.h"
#include "onnx/walker.h"
#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

// Tree 0: x ≤ 0.5 → (y ≤ 5, NaN no: -0.5 or 0.25) else 1. Tree 1: the leaf 0.125.
Trees two_trees(Ensemble ensemble) {
  Trees trees;
  trees.ensemble = ensemble;
  if (ensemble == Ensemble::kRegressor) trees.transform = Transform::kNone;
  trees.features = 2;
  trees.treeids = {0, 0, 0, 0, 0, 1};
  trees.nodeids = {0, 1, 2, 3, 4, 0};
  trees.featureids = {0, 1, 0, 0, 0, 0};
  trees.modes = {Mode::kLeq, Mode::kLeq, Mode::kLeaf, Mode::kLeaf, Mode::kLeaf, Mode::kLeaf};
  trees.values = {0.5f, 5, 0, 0, 0, 0};
  trees.truenodeids = {1, 2, 0, 0, 0, 0};
  trees.falsenodeids = {4, 3, 0, 0, 0, 0};
  trees.missing_value_tracks_true = {1, 0, 0, 0, 0, 0};
  trees.weight_treeids = {0, 0, 0, 1};
  trees.weight_nodeids = {2, 3, 4, 0};
  trees.weight_ids = {0, 0, 0, 0};
  trees.weights = {-0.5f, 0.25f, 1, 0.125f};
  return trees;
}

std::string refused(std::string_view bytes) {
  const auto trees = read_trees(bytes);
  EXPECT_FALSE(trees.ok());
  if (trees.ok()) return "";
  EXPECT_EQ(trees.error().id, ErrorId::kModelCorrupt);
  return trees.error().message;
}

TEST(OnnxFile, reads_back_what_was_written) {
  for (const Ensemble ensemble : {Ensemble::kClassifier, Ensemble::kRegressor}) {
    Trees trees = two_trees(ensemble);
    trees.modes[1] = Mode::kGt;
    trees.base_values = {0.5f};
    trees.aggregate = ensemble == Ensemble::kRegressor ? Aggregate::kAverage : Aggregate::kSum;
    const std::string bytes = write_trees(trees, {{"producer", "falaj"}});
    const auto back = read_trees(bytes);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->ensemble, ensemble);
    EXPECT_EQ(back->transform, trees.transform);
    EXPECT_EQ(back->aggregate, trees.aggregate);
    EXPECT_EQ(back->features, 2u);
    EXPECT_EQ(back->base_values, trees.base_values);
    EXPECT_EQ(back->values, trees.values);
    EXPECT_EQ(back->modes, trees.modes);
    EXPECT_EQ(back->weights, trees.weights);
    EXPECT_EQ(back->truenodeids, trees.truenodeids);
    EXPECT_EQ(back->missing_value_tracks_true, trees.missing_value_tracks_true);
    EXPECT_EQ(back->input, "input");
    EXPECT_EQ(back->label, ensemble == Ensemble::kClassifier ? "label" : "");
    EXPECT_EQ(back->scores, ensemble == Ensemble::kClassifier ? "probabilities" : "variable");
    EXPECT_EQ(bytes, write_trees(trees, {{"producer", "falaj"}}));
  }
}

// A model whose graph holds `nodes` after the tree ensemble's own.
std::string with_nodes(const std::vector<std::string>& nodes, std::string_view label = "label") {
  const std::string bytes = write_trees(two_trees(Ensemble::kClassifier), {});
  WireReader model(bytes);
  WireWriter graph;
  while (const auto part = model.next().value()) {
    if (part->number != 7) continue;
    WireReader fields(part->bytes);
    while (const auto field = fields.next().value()) {
      std::string copy(field->bytes);
      // Only the graph's output is renamed; both names have five letters.
      if (field->number == 12 && copy.find("label") != std::string::npos) {
        copy.replace(copy.find("label"), 5, label);
      }
      graph.bytes(field->number, copy);
    }
  }
  for (const std::string& node : nodes) graph.bytes(1, node);
  WireWriter out;
  out.bytes(7, graph.str());
  return out.str();
}

std::string node(std::string_view op, std::string_view from, std::string_view to,
                 std::int64_t cast_to = 0) {
  WireWriter made;
  made.bytes(1, from);
  made.bytes(2, to);
  made.bytes(4, op);
  if (cast_to == 0) return made.str();
  WireWriter attribute;
  attribute.bytes(1, "to");
  attribute.integer(3, cast_to);
  made.bytes(5, attribute.str());
  return made.str();
}

TEST(OnnxFile, follows_results_through_nodes_that_change_nothing) {
  EXPECT_TRUE(read_trees(with_nodes({})).ok());
  const auto passed = read_trees(
      with_nodes({node("Identity", "label", "inner"), node("Cast", "inner", "after", 7)}, "after"));
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_EQ(passed->label, "after");
}

TEST(OnnxFile, refuses_every_graph_that_does_more) {
  refused(with_nodes({node("Cast", "label", "after", 1)}, "after"));
  refused(with_nodes({node("Relu", "label", "after")}, "after"));
  refused(with_nodes({node("Identity", "label", "spare")}));
  refused(with_nodes({}, "other"));
  EXPECT_NE(refused("").find("no graph"), std::string::npos);
  const std::string bytes = write_trees(two_trees(Ensemble::kClassifier), {});
  EXPECT_NE(refused(bytes + bytes).find("two graphs"), std::string::npos);
}

TEST(OnnxFile, refuses_an_attribute_it_does_not_know) {
  std::string bytes = write_trees(two_trees(Ensemble::kRegressor), {});
  bytes.replace(bytes.find("n_targets"), 9, "n_surpris");
  EXPECT_NE(refused(bytes).find("n_surpris"), std::string::npos);
}

TEST(Walker, goes_where_the_thresholds_say) {
  const auto walker = Walker::build(two_trees(Ensemble::kRegressor));
  ASSERT_TRUE(walker.ok()) << walker.error().message;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto leaf = [&](float x, float y) { return walker->leaf(0, std::vector<float>{x, y}); };
  EXPECT_EQ(leaf(0.5f, 5), 0);
  EXPECT_EQ(leaf(0.5f, 5.5f), 1);
  EXPECT_EQ(leaf(0.6f, 5), 2);
  EXPECT_EQ(leaf(nan, 5), 0);
  EXPECT_EQ(leaf(0, nan), 1);
  EXPECT_EQ(walker->score(std::vector<float>{1, 0}), 1.125f);
}

TEST(OnnxFile, refuses_every_cut_and_survives_every_flip) {
  const std::string bytes = write_trees(two_trees(Ensemble::kClassifier), {});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = read_trees(std::string_view(bytes).substr(0, length));
    if (cut.ok()) (void)Walker::build(*cut);
  }
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string flipped = bytes;
    flipped[random() % flipped.size()] ^= static_cast<char>(1u << (random() % 8));
    const auto trees = read_trees(flipped);
    if (!trees.ok()) continue;
    const auto walker = Walker::build(*trees);
    if (!walker.ok() || trees->features > 1'000) continue;
    const std::vector<float> row(trees->features, 0.0f);
    for (std::size_t t = 0; t < walker->trees(); ++t) (void)walker->leaf(t, row);
  }
  EXPECT_FALSE(read_trees(bytes.substr(0, bytes.size() / 2)).ok());
}

}  // namespace
}  // namespace falaj::onnx
