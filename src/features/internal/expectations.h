// features/internal/expectations.h — what a view expects of each of its rows.
#pragma once

#include <vector>

#include "expression/expression.h"
#include "features/definitions.h"

namespace falaj::features {

struct CompiledExpectation {
  RowExpectation declared;
  expression::Expression holds;  // A bool over source_columns().
};

// The columns that a view reads from its source, each once: keys, times and features. A name that
// is wanted as two types stands here with the first.
table::Schema source_columns(const FeatureView& view, const Entity& entity, const Source& source);

// FJ-3050 naming the expectation, with the place in it.
Result<std::vector<CompiledExpectation>> compile_expectations(const FeatureView& view,
                                                              const Entity& entity,
                                                              const Source& source);

}  // namespace falaj::features
