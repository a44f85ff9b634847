// features/internal/expectations.h — what a view expects of each of its rows.
#pragma once

#include <optional>
#include <vector>

#include "expression/expression.h"
#include "features/definitions.h"

namespace falaj::features {

struct CompiledExpectation {
  RowExpectation declared;
  // A bool over source_columns(); nothing for one about `unique` columns.
  std::optional<expression::Expression> holds;
};

// The columns that a view reads from its source, each once: keys, times and features. A name that
// is wanted as two types stands here with the first.
table::Schema source_columns(const FeatureView& view, const Entity& entity, const Source& source);

// FJ-3050 naming the expectation, with the place in it.
Result<std::vector<CompiledExpectation>> compile_expectations(const FeatureView& view,
                                                              const Entity& entity,
                                                              const Source& source);

}  // namespace falaj::features
