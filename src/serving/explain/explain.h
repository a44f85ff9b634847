// serving/explain/explain.h — why a model gave its answer: what each feature added to it.
//
// Trees that our own code answers and whose file says how many rows of training came by each node
// are explained exactly (trees/compiled_trees.h). Every other model is asked about rows that are
// mixed of the explained row and of background rows (sampling.h), until the budget is spent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "registry/models.h"
#include "serving/runtime.h"

namespace falaj::serving::explain {

inline constexpr std::size_t kRowsMax = 256;  // Explained by one request.
inline constexpr std::size_t kBackgroundMax = 1024;
inline constexpr std::size_t kFeaturesMax = 1024;  // Of a sampled model.
inline constexpr std::size_t kPairsMax = 10'000;
inline constexpr Duration kBudgetMax = Duration::seconds(10);

struct Question {
  std::vector<Tensor> inputs;         // Fit the model's signature; their first dimension is rows.
  std::size_t background_rows = 0;    // The last so many rows are not explained, but compared with.
  std::string output;                 // Of a sampled model; "": its first output of floats.
  std::optional<std::size_t> column;  // Of that output; nothing: its last.
  std::size_t pairs_max = 256;        // Samples of a row.
  std::uint64_t seed = 0;
  Duration budget = Duration::seconds(1);
};

enum class Method : std::uint8_t { kTrees, kSampling };
std::string_view method_name(Method method);  // "tree_shap", "permutation_sampling"

struct RowExplanation {
  double base = 0;
  double value = 0;                   // base + the sum of contributions.
  std::vector<double> contributions;  // By feature.
  std::vector<double> errors;         // Standard errors; empty when exact.
  std::size_t pairs = 0;              // 0 when exact.
};

struct Explanation {
  Method method = Method::kTrees;
  std::string output;      // Which output is explained…
  std::size_t column = 0;  // …and which column of it.
  // In what `base` and `value` are: "log_odds" (of the output's probability), "sum" (of the trees),
  // or "output" (as the model answers).
  std::string scale;
  std::vector<std::string> features;
  std::vector<RowExplanation> rows;
};

// The model's name for each feature, in the order of contributions: the signature's, when it has
// one for every column of its one input; otherwise "input[3]", or "input" for one of width one.
// `inputs` as in Question.
std::vector<std::string> feature_names(const registry::Signature& signature,
                                       std::span<const Tensor> inputs);

// `late` is asked between steps. FJ-0013 when it becomes true too early; FJ-0001 when the model has
// to be sampled and there is no background; FJ-5004 for inputs that have no rows or bytes without
// rows; FJ-1006 beyond the limits above; FJ-0011 for BYTES and for a model without a batch.
// Thread-safe; takes up to the budget on the calling thread.
Result<Explanation> explain(const Session& session, const registry::Signature& names,
                            const Question& question, const std::function<bool()>& late);

}  // namespace falaj::serving::explain
