// features/internal/json_rows.h — rows that came as JSON, as a table.
#pragma once

#include "features/push.h"
#include "table/batch.h"

namespace falaj::features {

// The columns of `schema`, in its order. FJ-3040 with the row's number, from 1, and the column, or
// past a limit of PushedRows, before anything is built.
Result<table::Batch> batch_of(const table::Schema& schema, const PushedRows& rows);

}  // namespace falaj::features
