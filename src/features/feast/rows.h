// features/feast/rows.h — the Parquet files behind a view of a Feast repository.
#pragma once

#include <string>
#include <vector>

#include "features/feast/translate.h"
#include "table/batch.h"

namespace falaj::features::feast {

// The file itself, or every .parquet below the folder, by name. FJ-1015 when there is none.
Result<std::vector<std::string>> files_of(const ViewPlan& view);

// All rows, in the order of the files: keys, event time, creation time if there is one, features;
// under our names and in our types. They are held in memory. FJ-3001 for a file that is no Parquet,
// or has a column of another type; FJ-3002 for one that lacks a column.
Result<table::Batch> read_rows(const ViewPlan& view);

}  // namespace falaj::features::feast
