#include "training/lightgbm/params.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/decode.h"
#include "base/json.h"

namespace falaj::training::lightgbm {
namespace {

constexpr double kLargePenalty = 1e6;

std::string number_text(double number) {
  std::string text;
  append_json_number(text, number);
  return text;
}

// Reads `key` within [min, max].
Result<double> bounded(Fields& fields, std::string_view key, double fallback, double min,
                       double max) {
  const double number = FALAJ_TRY(fields.number(key, fallback));
  if (!(number >= min && number <= max)) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": " + std::string(key) + " is " +
                                           number_text(number) + "; it may be " + number_text(min) +
                                           " to " + number_text(max));
  }
  return number;
}

// Known to LightGBM, but no exported graph could follow them.
Status refuse_unexportable(const Value& value, const std::string& where) {
  static constexpr std::array<std::string_view, 4> kRefused{"zero_as_missing", "linear_tree",
                                                            "categorical_feature", "boosting"};
  for (const std::string_view key : kRefused) {
    if (!value.has(key)) continue;
    return Error(ErrorId::kUnknownField,
                 where + ": " + std::string(key) +
                     " is not supported, because the exported ONNX graph could not be proven equal "
                     "with it; remove it");
  }
  return {};
}

Status read_integers(Fields& fields, Params& params) {
  constexpr std::int64_t kSeedMax = std::numeric_limits<std::int32_t>::max();
  params.rounds = FALAJ_TRY(fields.integer("rounds", params.rounds, 1, 10'000));
  params.early_stopping = FALAJ_TRY(fields.integer("early_stopping", 0, 0, 10'000));
  params.num_leaves = FALAJ_TRY(fields.integer("num_leaves", params.num_leaves, 2, 4'096));
  params.max_depth = FALAJ_TRY(fields.integer("max_depth", params.max_depth, -1, 64));
  params.max_bin = FALAJ_TRY(fields.integer("max_bin", params.max_bin, 2, 4'095));
  params.min_data_in_leaf =
      FALAJ_TRY(fields.integer("min_data_in_leaf", params.min_data_in_leaf, 1, 1'000'000));
  params.bagging_freq = FALAJ_TRY(fields.integer("bagging_freq", 0, 0, 1'000));
  params.seed = FALAJ_TRY(fields.integer("seed", params.seed, 0, kSeedMax));
  return {};
}

Status read_numbers(Fields& fields, Params& params) {
  params.learning_rate = FALAJ_TRY(bounded(fields, "learning_rate", 0.1, 1e-4, 1));
  params.lambda_l1 = FALAJ_TRY(bounded(fields, "lambda_l1", 0, 0, kLargePenalty));
  params.lambda_l2 = FALAJ_TRY(bounded(fields, "lambda_l2", 0, 0, kLargePenalty));
  params.min_gain_to_split = FALAJ_TRY(bounded(fields, "min_gain_to_split", 0, 0, kLargePenalty));
  params.feature_fraction = FALAJ_TRY(bounded(fields, "feature_fraction", 1, 0.01, 1));
  params.bagging_fraction = FALAJ_TRY(bounded(fields, "bagging_fraction", 1, 0.01, 1));
  params.scale_pos_weight =
      FALAJ_TRY(bounded(fields, "scale_pos_weight", 1, 1 / kLargePenalty, kLargePenalty));
  return {};
}

}  // namespace

Result<Params> params_from_value(const Value& value) {
  const std::string where = "params of engine lightgbm";
  FALAJ_TRY(refuse_unexportable(value, where));
  Fields fields(value, where);
  Params params;
  const std::string objective =
      FALAJ_TRY(fields.choice("objective", {"auto", "binary", "regression"}));
  if (objective == "binary") params.objective = WantedObjective::kBinary;
  if (objective == "regression") params.objective = WantedObjective::kRegression;
  FALAJ_TRY(read_integers(fields, params));
  FALAJ_TRY(read_numbers(fields, params));
  FALAJ_TRY(fields.finish());
  return params;
}

std::string to_text(const Params& params, Objective objective, std::int64_t threads) {
  const bool binary = objective == Objective::kBinary;
  std::string text = std::string("objective=") + (binary ? "binary" : "regression");
  const auto add = [&text](std::string_view key, const std::string& value) {
    text.append(" ").append(key).append("=").append(value);
  };
  add("num_leaves", std::to_string(params.num_leaves));
  add("max_depth", std::to_string(params.max_depth));
  add("max_bin", std::to_string(params.max_bin));
  add("min_data_in_leaf", std::to_string(params.min_data_in_leaf));
  add("learning_rate", number_text(params.learning_rate));
  add("lambda_l1", number_text(params.lambda_l1));
  add("lambda_l2", number_text(params.lambda_l2));
  add("min_gain_to_split", number_text(params.min_gain_to_split));
  add("feature_fraction", number_text(params.feature_fraction));
  add("bagging_fraction", number_text(params.bagging_fraction));
  add("bagging_freq", std::to_string(params.bagging_freq));
  if (binary) add("scale_pos_weight", number_text(params.scale_pos_weight));
  add("seed", std::to_string(params.seed));
  add("num_threads", std::to_string(threads));
  // The metrics are ours; LightGBM's own would only cost time.
  return text +
         " metric=none zero_as_missing=false deterministic=true force_row_wise=true"
         " verbosity=-1";
}

}  // namespace falaj::training::lightgbm
