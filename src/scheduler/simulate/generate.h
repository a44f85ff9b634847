// scheduler/simulate/generate.h — an invented history that looks like a real shared GPU cluster.
//
// Its statistics follow what is published of Philly (Jeon et al., ATC 2019): few tenants submit
// most jobs; people submit experiments, which are bursts of jobs that resemble each other; days are
// busier than nights and weekends; 93–96 % of jobs want one GPU but half of the GPU time goes to
// gangs of eight; run times have a median under an hour and a tail of weeks.
#pragma once

#include <cstdint>

#include "scheduler/simulate/trace.h"

namespace falaj::scheduler::simulate {

struct GenerateOptions {
  std::int64_t jobs = 40'000;  // 1 to 5 000 000.
  std::int32_t tenants = 12;   // 1 to 10 000.
  Duration span = Duration::days(28);
  Timestamp begin = Timestamp::from_seconds(1'767'571'200);  // Monday 2026-01-05.
  double load_scale = 1;  // Multiplies run times; 1 asks for about 430 GPUs at the defaults.
  std::uint64_t seed = 1;
};

// The same options give the same trace. FJ-1006 when one is out of range.
Result<Trace> generate_trace(const GenerateOptions& options);

}  // namespace falaj::scheduler::simulate
