// features/internal/online_computed.h — computed features of an online answer.
#pragma once

#include <span>

#include "features/internal/service_layout.h"
#include "features/online.h"

namespace falaj::features {

// What a plan with computed features reads first.
struct OnlineComputed {
  OnlinePlan reads;  // Its columns are layout.reads, its keys layout.keys.
  ServiceLayout layout;
};

// The plan of a layout whose reads `reads` makes; with `computed` where there is something to
// compute.
OnlinePlan with_columns(OnlinePlan reads, ServiceLayout layout);

// Makes of the answer to `reads` one for the service's columns. `keys` as they were asked for. A
// computed value that is null has the status NULL_VALUE, whatever its inputs had.
void compute(const OnlineComputed& computed, std::span<const KeyPart> keys, Timestamp now,
             const OnlineAnswer& read, OnlineAnswer& out);

// A value at its place in an answer, whose vectors have their sizes.
void put_cell(const expression::Cell& cell, table::Type type, std::size_t place, OnlineAnswer& out);

// One row of an answer as numbers for a model.
void to_numbers(const OnlinePlan& plan, Timestamp now, const OnlineAnswer& answer, OnlineRow& out);

}  // namespace falaj::features
