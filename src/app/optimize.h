// app/optimize.h — `falaj models optimize`: rows of a table, the runtime of this machine, a report.
#pragma once

#include "cli/optimize.h"

namespace falaj::app {

// In this process, with the libraries' folder; no server. FJ-7060 for a model that is refused
// before any runtime sees it (onnx/foreign.h), FJ-3002 when the rows lack a column.
Result<cli::OptimizeDone> optimize(const cli::OptimizeWork& work);

}  // namespace falaj::app
