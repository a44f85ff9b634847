// serving/graph/declaration.h — the steps of a deployment that is more than one model, as declared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/value.h"

namespace falaj::serving {

// What a step reads: a tensor, or with "[2]" behind its name one element of each of its rows.
struct GraphSource {
  std::string tensor;
  std::optional<std::size_t> element;
  bool operator==(const GraphSource&) const = default;
};

// {name: score, model: fraud, inputs: {input: rows}, outputs: {probabilities: p}}
// {name: second, model: review, alias: champion | version: 3, inputs: {input: [rows, "p[1]"]}, …}
// {name: risky, rule: "p > 0.8 or amount > 1000", inputs: {p: "p[1]", amount: "rows[0]"}, as: FP32}
struct GraphStep {
  std::string name;
  std::string model;  // "": a rule.
  std::string alias;  // Of another model than the deployment's own, whose version it follows.
  std::optional<std::int64_t> version;
  std::string rule;
  std::string as;  // The rule's datatype; "": as its type is.
  // Several sources are put beside each other, in order.
  std::vector<std::pair<std::string, std::vector<GraphSource>>> inputs;
  // Of a model: its output, and the tensor that it becomes. A rule's is named as the step.
  std::vector<std::pair<std::string, std::string>> outputs;
  bool operator==(const GraphStep&) const = default;
};

struct Graph {
  std::vector<GraphStep> steps;  // In an order in which they can run.
  std::vector<std::string> inputs;
  std::vector<std::string> answers;
  bool empty() const { return steps.empty(); }
  bool operator==(const Graph&) const = default;
};

inline constexpr std::size_t kGraphStepsMax = 32;

// Reads `steps` (a list) and `answers` (names; null: what no step reads). `model` is the
// deployment's own: a step has to use it. What no step gives is an input of the deployment. Refused
// with the place: a step that reads what itself or a later one gives (a cycle, or the wrong order),
// names that are given twice or by nobody, over kGraphStepsMax steps. Pure.
Result<Graph> decode_graph(const Value& steps, const Value& answers, std::string_view model,
                           const std::string& where);

}  // namespace falaj::serving
