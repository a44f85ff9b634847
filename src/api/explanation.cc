#include "api/explanation.h"

#include <array>
#include <string>

#include "api/inference/internal/json_data.h"

namespace falaj::api {
namespace {

using serving::explain::Explanation;
using serving::explain::Question;
using serving::explain::RowExplanation;

constexpr std::array<ExplainParameter, 5> kParameters{{
    {"budget_ms", 1, serving::explain::kBudgetMax.nanos / 1'000'000},
    {"background_rows", 0, serving::explain::kBackgroundMax},
    {"samples", 2, serving::explain::kPairsMax},
    {"seed", 0, std::uint64_t{1} << 53},
    {"column", 0, 1 << 20},
}};

Value by_feature(const std::vector<std::string>& features, const std::vector<double>& numbers) {
  Value value = Value::object();
  for (std::size_t i = 0; i < features.size(); ++i) value[features[i]] = numbers[i];
  return value;
}

Value row_value(const Explanation& explanation, const RowExplanation& row) {
  Value value;
  value["base_value"] = row.base;
  value["value"] = row.value;
  value["contributions"] = by_feature(explanation.features, row.contributions);
  if (row.errors.empty()) return value;
  value["standard_errors"] = by_feature(explanation.features, row.errors);
  value["samples"] = row.pairs;
  return value;
}

}  // namespace

std::span<const ExplainParameter> explain_parameters() { return kParameters; }

Status set_parameter(const ExplainParameter& parameter, std::uint64_t value, Question& question) {
  if (value < parameter.least || value > parameter.most) {
    return Error(ErrorId::kOutOfRange,
                 "parameter '" + std::string(parameter.name) + "' must be a whole number from " +
                     std::to_string(parameter.least) + " to " + std::to_string(parameter.most));
  }
  if (parameter.name == "budget_ms") {
    question.budget = Duration::milliseconds(static_cast<std::int64_t>(value));
  }
  if (parameter.name == "background_rows") question.background_rows = value;
  if (parameter.name == "samples") question.pairs_max = value;
  if (parameter.name == "seed") question.seed = value;
  if (parameter.name == "column") question.column = value;
  return {};
}

Status parse_explain_parameters(std::string_view json, Question& question) {
  const simdjson::dom::object object = FALAJ_TRY(parse_object(json));
  simdjson::dom::object given;
  const bool none = object["parameters"].get_object().get(given) != simdjson::SUCCESS;
  Status status;
  for (const ExplainParameter& parameter : kParameters) {
    simdjson::dom::element value;
    if (none || !status.ok() || given[parameter.name].get(value) != simdjson::SUCCESS) continue;
    std::uint64_t number = 0;
    status = value.get_uint64().get(number) == simdjson::SUCCESS
                 ? set_parameter(parameter, number, question)
                 : Status(Error(ErrorId::kWrongType, "parameter '" + std::string(parameter.name) +
                                                         "' must be a whole number"));
  }
  forget_object();
  return status;
}

Value to_value(const Explanation& explanation) {
  Value value;
  value["method"] = serving::explain::method_name(explanation.method);
  value["output"] = explanation.output;
  value["column"] = explanation.column;
  value["scale"] = explanation.scale;
  value["features"] = Value::array();
  for (const std::string& feature : explanation.features) value["features"].push(feature);
  value["explanations"] = Value::array();
  for (const RowExplanation& row : explanation.rows) {
    value["explanations"].push(row_value(explanation, row));
  }
  return value;
}

}  // namespace falaj::api
