// jobs/usage_curve.h — how a job's use of the machine went, over its time.
#pragma once

#include <vector>

#include "base/value.h"
#include "exec/wards.h"

namespace falaj::jobs {

// Oldest first; what was used adds up from the attempt's beginning, memory is of the moment.
using UsageCurve = std::vector<exec::WardUsage>;

// Columns of one length: {at_seconds[], cpus[], memory_bytes[], read_bytes[], written_bytes[]}, and
// where a sample has them gpus[] and gpu_memory_bytes[] (null in those that have not). `cpus` is
// the processors in use since the sample before, `gpus` the devices that were busy; bytes read and
// written add up. Pure.
Value to_value(const UsageCurve& curve);

}  // namespace falaj::jobs
