// serving/trees/trees_runtime.h — tree ensembles answered by our own code, everything else by the
// runtime underneath.
#pragma once

#include <memory>

#include "serving/runtime.h"
#include "telemetry/metrics.h"

namespace falaj::serving {

// Calls of up to this many rows are answered by our own code: the most that was measured, and it
// was quicker at every size (serving_bench, own_trees: 7× for one row, 1.5–3× for 4096).
inline constexpr std::size_t kTreeRowsMax = 4096;

// Loads every model with `inner`. A model that is one tree ensemble (onnx/trees.h) is compiled as
// well, compared with `inner` bit by bit on probe rows that are derived from its thresholds, and
// then answers calls of up to kTreeRowsMax rows itself. On any difference the compiled form is
// dropped, with a log line and falaj_serving_models_loaded_total{scorer="differed"}.
//
// `threads`: those of `inner`. With more than one it adds up trees in another order, and nothing is
// compiled. Thread-safe as `inner` is.
// Cost of loading: reading the file once more, and about a thousand rows in `inner`.
std::unique_ptr<Runtime> with_own_trees(std::unique_ptr<Runtime> inner, unsigned threads,
                                        telemetry::Metrics& metrics);

}  // namespace falaj::serving
