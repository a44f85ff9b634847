// serving/testing/random_trees.h — ensembles of every form that is compiled, made from a seed.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "onnx/trees.h"

namespace falaj::serving::testing {

struct TreesShape {
  onnx::Ensemble ensemble = onnx::Ensemble::kClassifier;
  onnx::Transform transform = onnx::Transform::kLogistic;
  onnx::Aggregate aggregate = onnx::Aggregate::kSum;
  std::size_t trees = 100;
  std::size_t splits = 30;
  std::size_t features = 12;
  std::vector<onnx::Mode> modes{onnx::Mode::kLeq};
  bool tracks_missing = true;
  bool two_columns = false;
  std::vector<float> base_values;
  float scale = 0.1f;  // Of the leaves.
  std::vector<std::int64_t> labels{0, 1};
  bool covers = false;  // Whether it says how many rows came by each node.
};

// From the leaves up: children stand after their parent. Some leaves saw nobody.
inline void add_covers(onnx::Trees& trees, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  trees.hitrates.assign(trees.treeids.size(), 0);
  for (std::size_t at = trees.treeids.size(); at-- > 0;) {
    if (trees.modes[at] == onnx::Mode::kLeaf) {
      trees.hitrates[at] = random() % 10 == 0 ? 0.0f : static_cast<float>(1 + random() % 1000);
      continue;
    }
    const std::size_t first = at - static_cast<std::size_t>(trees.nodeids[at]);
    float& yes = trees.hitrates[first + static_cast<std::size_t>(trees.truenodeids[at])];
    const float no = trees.hitrates[first + static_cast<std::size_t>(trees.falsenodeids[at])];
    if (yes + no == 0) yes = 1;  // Only where both are leaves.
    trees.hitrates[at] = yes + no;
  }
}

// Trees grown at random leaves, as leaf-wise engines do: deep on one side, shallow on the other.
inline onnx::Trees random_trees(const TreesShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  onnx::Trees out;
  out.ensemble = shape.ensemble;
  out.transform = shape.transform;
  out.aggregate = shape.aggregate;
  out.features = shape.features;
  out.base_values = shape.base_values;
  out.class_labels = shape.labels;
  const auto special = [&]() -> float {
    const std::uint64_t draw = random() % 24;
    if (draw == 0) return 0.0f;
    if (draw == 1) return -0.0f;
    if (draw == 2) return std::numeric_limits<float>::denorm_min();
    if (draw == 3) return std::numeric_limits<float>::max();
    return normal(random);
  };
  for (std::size_t t = 0; t < shape.trees; ++t) {
    const std::size_t splits = shape.splits == 0 ? 0 : random() % (shape.splits + 1);
    const std::size_t first = out.treeids.size();
    std::vector<std::size_t> leaves{0};
    const auto add = [&] {
      out.treeids.push_back(static_cast<std::int64_t>(t));
      out.nodeids.push_back(static_cast<std::int64_t>(out.treeids.size() - first - 1));
      out.featureids.push_back(0);
      out.modes.push_back(onnx::Mode::kLeaf);
      out.values.push_back(0);
      out.truenodeids.push_back(0);
      out.falsenodeids.push_back(0);
      if (shape.tracks_missing) out.missing_value_tracks_true.push_back(0);
    };
    add();
    for (std::size_t s = 0; s < splits; ++s) {
      const std::size_t pick = random() % leaves.size();
      const std::size_t at = first + leaves[pick];
      const std::size_t yes = out.treeids.size() - first;
      add();
      add();
      out.featureids[at] = static_cast<std::int64_t>(random() % shape.features);
      out.modes[at] = shape.modes[random() % shape.modes.size()];
      out.values[at] = special();
      out.truenodeids[at] = static_cast<std::int64_t>(yes);
      out.falsenodeids[at] = static_cast<std::int64_t>(yes + 1);
      if (shape.tracks_missing) {
        out.missing_value_tracks_true[at] = static_cast<std::int64_t>(random() % 2);
      }
      leaves[pick] = yes;
      leaves.push_back(yes + 1);
    }
    for (const std::size_t leaf : leaves) {
      for (std::int64_t column = 0; column < (shape.two_columns ? 2 : 1); ++column) {
        out.weight_treeids.push_back(static_cast<std::int64_t>(t));
        out.weight_nodeids.push_back(static_cast<std::int64_t>(leaf));
        out.weight_ids.push_back(column);
        out.weights.push_back(shape.scale * normal(random));
      }
    }
  }
  if (shape.covers) add_covers(out, seed);
  return out;
}

}  // namespace falaj::serving::testing
