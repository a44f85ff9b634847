// features/infer.h — a first declaration from a sample: Entity, Source and FeatureView, with what
// the rows let one expect of others.
//
// What is inferred only warns (severity: warn): a sample has not seen everything. Who declares it
// looks at it first.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "table/batch.h"

namespace falaj::features {

struct InferOptions {
  std::string name;               // Of the view; others are called after it.
  std::string entity;             // "": the key's name without "_id".
  std::vector<std::string> keys;  // Empty: the only column that is called like one.
  std::string event_time;    // "": the only column of times, or the one that is called like it.
  std::string created_time;  // "": none.
  std::string format;        // Of the source: "csv", …
  std::string path;
};

// The three objects, as `falaj apply` takes them. Expectations are:
//   nulls_max  the share of the sample and what chance may add to it in one of its size
//   min, max   0, where nothing is below it; 0 and 1 for what lies between them
//   a domain   of texts with at most 20 values, each seen 20 times on average
// FJ-3002 naming the columns to choose from when keys or times cannot be told; FJ-3003 when the
// sample has no row.
Result<std::vector<Value>> infer_objects(const table::Batch& sample, const InferOptions& options);

}  // namespace falaj::features
