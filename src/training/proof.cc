#include "training/proof.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "onnx/walker.h"
#include "training/proof_rows.h"

namespace falaj::training {
namespace {

// Sums of float leaves differ from sums of doubles by a few ulp per tree.
double tolerance_of(const TreeModel& model) {
  constexpr double kScore = 1e-5;
  constexpr double kTreesAtThat = 500;
  const double length = std::max(1.0, static_cast<double>(model.trees.size()) / kTreesAtThat);
  if (model.objective == Objective::kBinary) return kScore * length;
  double magnitude = 0;
  for (const Tree& tree : model.trees) {
    double largest = 0;
    for (const double leaf : tree.leaves) largest = std::max(largest, std::abs(leaf));
    magnitude += largest;
  }
  return kScore * length * std::max(1.0, magnitude);
}

class Comparison {
 public:
  Comparison(const ProofRequest& request, const onnx::Walker& walker)
      : request_(request), walker_(walker) {
    proof_.tolerance = tolerance_of(request.model);
  }

  Status add(std::span<const float> matrix) {
    const std::size_t columns = request_.model.features;
    const std::size_t rows = matrix.size() / columns;
    const auto leaves = FALAJ_TRY(request_.engine.leaves(matrix));
    const auto scores = FALAJ_TRY(request_.engine.scores(matrix));
    const auto answers = FALAJ_TRY(request_.onnx(request_.graph, matrix, columns));
    if (leaves.size() != rows * walker_.trees() || scores.size() != rows ||
        answers.size() != rows) {
      return Error(ErrorId::kOnnxMismatch,
                   "the engine or the runtime answered another number of rows than asked");
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const auto cells = matrix.subspan(row * columns, columns);
      const auto expected = std::span(leaves).subspan(row * walker_.trees(), walker_.trees());
      if (!same_leaves(cells, expected) || !same_score(scores[row], answers[row])) {
        ++proof_.mismatches;
      }
      ++proof_.rows;
    }
    proof_.leaves += static_cast<std::int64_t>(leaves.size());
    return {};
  }

  Proof& proof() { return proof_; }

 private:
  bool same_leaves(std::span<const float> cells, std::span<const std::int32_t> expected) {
    for (std::size_t tree = 0; tree < expected.size(); ++tree) {
      const std::int32_t leaf = walker_.leaf(tree, cells);
      if (leaf == expected[tree]) continue;
      note("tree " + std::to_string(tree) + ": the engine goes to leaf " +
           std::to_string(expected[tree]) + ", the graph to " + std::to_string(leaf));
      return false;
    }
    return true;
  }

  bool same_score(double expected, float answer) {
    const double difference = std::abs(expected - static_cast<double>(answer));
    if (std::isfinite(difference)) {
      proof_.max_abs_diff = std::max(proof_.max_abs_diff, difference);
    }
    if (difference <= proof_.tolerance) return true;  // False for NaN.
    note("score " + std::to_string(answer) + " from the graph, " + std::to_string(expected) +
         " from the engine");
    return false;
  }

  void note(const std::string& what) {
    if (!proof_.first_mismatch.empty()) return;
    proof_.first_mismatch = "row " + std::to_string(proof_.rows) + ", " + what;
  }

  const ProofRequest& request_;
  const onnx::Walker& walker_;
  Proof proof_;
};

// Leaf indices take eight bytes a row and tree while they are fetched.
std::size_t chunk_rows(const TreeModel& model) {
  constexpr std::size_t kPairs = 4'000'000;
  return std::clamp<std::size_t>(kPairs / std::max<std::size_t>(1, model.trees.size()), 64, 8'192);
}

}  // namespace

Value to_value(const Proof& proof) {
  Value value;
  value["rows"] = proof.rows;
  value["rows_aimed"] = proof.rows_aimed;
  value["rows_real"] = proof.rows_real;
  value["leaves"] = proof.leaves;
  value["mismatches"] = proof.mismatches;
  value["max_abs_diff"] = proof.max_abs_diff;
  value["tolerance"] = proof.tolerance;
  if (!proof.first_mismatch.empty()) value["first_mismatch"] = proof.first_mismatch;
  return value;
}

Result<Proof> prove_equal(const ProofRequest& request) {
  const onnx::Trees trees = FALAJ_TRY(onnx::read_trees(request.graph));
  const onnx::Walker walker = FALAJ_TRY(onnx::Walker::build(trees));
  if (walker.trees() != request.model.trees.size() || trees.features != request.model.features) {
    return Error(ErrorId::kOnnxMismatch, "the exported graph has " +
                                             std::to_string(walker.trees()) + " trees over " +
                                             std::to_string(trees.features) + " features, not " +
                                             std::to_string(request.model.trees.size()) + " over " +
                                             std::to_string(request.model.features));
  }
  ProofRows source({request.model, request.real_rows, request.rows_min, request.seed});
  Comparison comparison(request, walker);
  std::vector<float> chunk;
  while (source.next(chunk_rows(request.model), chunk)) {
    FALAJ_TRY(comparison.add(chunk));
    if (request.progress) {
      request.progress(static_cast<double>(comparison.proof().rows) /
                       static_cast<double>(source.total()));
    }
  }
  comparison.proof().rows_aimed = source.aimed();
  comparison.proof().rows_real = source.real();
  return comparison.proof();
}

}  // namespace falaj::training
