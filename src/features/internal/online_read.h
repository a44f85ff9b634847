// features/internal/online_read.h — a row of the index as a part of an answer.
#pragma once

#include "expression/expression.h"
#include "features/internal/view_index.h"
#include "features/online.h"

namespace falaj::features {

// The row's features from `column` on, as numbers.
void fill_numbers(const OnlinePlan& plan, const OnlinePlan::View& view, std::size_t column,
                  const RowView& row, Timestamp now, OnlineRow& out);
// The same as they are, into row `at` of the answer, whose vectors have their sizes.
void fill_answer(const OnlinePlan& plan, const OnlinePlan::View& view, std::size_t column,
                 const RowView& row, const OnlineAsk& ask, std::size_t at, OnlineAnswer& out);

// A window's value at a column, as a number.
void fill_window(const OnlinePlan& plan, std::size_t column, const expression::Cell& cell,
                 OnlineRow& out);

}  // namespace falaj::features
