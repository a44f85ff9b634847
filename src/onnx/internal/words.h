// onnx/internal/words.h — the names that the writer and the reader share, in the enums' order.
#pragma once

#include <array>
#include <string_view>

namespace falaj::onnx {

inline constexpr std::string_view kClassifierOp = "TreeEnsembleClassifier";
inline constexpr std::string_view kRegressorOp = "TreeEnsembleRegressor";
inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

inline constexpr std::array<std::string_view, 7> kModes{
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF"};
inline constexpr std::array<std::string_view, 5> kTransforms{"NONE", "LOGISTIC", "SOFTMAX",
                                                             "SOFTMAX_ZERO", "PROBIT"};
inline constexpr std::array<std::string_view, 4> kAggregates{"SUM", "AVERAGE", "MIN", "MAX"};

}  // namespace falaj::onnx
