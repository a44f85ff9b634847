// onnx/optimize/trim.h — fewer trees, and fewer leaves in them. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "onnx/optimize/optimized.h"
#include "onnx/trees.h"

namespace falaj::onnx {

// Whether the arrays form trees: every node has its children in its own tree and one parent, but
// for one root each, and every weight belongs to a leaf. FJ-5002 naming what does not.
Status check_forest(const Trees& trees);

std::size_t tree_count(const Trees& trees);
// The first `count` of them, in the order of the file: a boosted ensemble without its last rounds.
// The trees must have passed check_forest, here and below.
Trees first_trees(const Trees& trees, std::size_t count);
// A split of two leaves whose weights differ by at most `gap` in every column becomes one leaf,
// again and again. It weighs what its leaves weigh on average, by the rows of training that came to
// each where that is known.
Trees merge_leaves(const Trees& trees, float gap);

// Whether what the trees answer is near enough to what all of them do.
using Fits = std::function<Result<bool>(const Trees& trees)>;
// The fewest first trees that fit, and of those the greatest gap that does; both found by halving,
// about twenty questions. `trees` itself, where nothing less fits.
Result<Trees> trim(const Trees& trees, const Fits& fits);

// The model with these trees in the place of its own (read_trees tells which models have such);
// every name and all else stays. Nothing is changed when they are as many as before.
Result<Optimized> with_trees(std::string_view model, const Trees& trees);

}  // namespace falaj::onnx
