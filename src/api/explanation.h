// api/explanation.h — what the routes that explain share: their parameters, and how an explanation
// is written. Pure functions over outside bytes; fuzzed by explain_fuzz.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/value.h"
#include "serving/explain/explain.h"

namespace falaj::api {

// What a caller may set, always a whole number.
struct ExplainParameter {
  std::string_view name;
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
// budget_ms, background_rows, samples, seed, column.
std::span<const ExplainParameter> explain_parameters();
// FJ-1006 names the bounds.
Status set_parameter(const ExplainParameter& parameter, std::uint64_t value,
                     serving::explain::Question& question);

// Takes the parameters out of the JSON of an inference request; others are left alone, as
// everywhere in that dialect. FJ-1001 when it is no JSON, FJ-1005 for one that is no whole number.
Status parse_explain_parameters(std::string_view json, serving::explain::Question& question);

// {"method", "output", "column", "scale", "features": […], "explanations": [{"base_value", "value",
//  "contributions": {feature: number}}]}; those of a sampled model have "standard_errors" and
// "samples" too.
Value to_value(const serving::explain::Explanation& explanation);

}  // namespace falaj::api
