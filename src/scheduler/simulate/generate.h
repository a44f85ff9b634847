// scheduler/simulate/generate.h — an invented history that looks like a real shared GPU cluster.
//
// Its statistics are those of the first half of the public Philly table (Jeon et al., ATC 2019):
// one tenant submits most jobs; people submit experiments, which are bursts of jobs that resemble
// each other; days are busier than nights and weekends; 95.5 % of jobs want one GPU but more than
// half of the GPU time goes to gangs of eight; half of the jobs run under half an hour, one in a
// thousand for weeks. generate_test.cc has the figures.
#pragma once

#include <cstdint>

#include "scheduler/simulate/trace.h"

namespace falaj::scheduler::simulate {

struct GenerateOptions {
  std::int64_t jobs = 40'000;  // 1 to 5 000 000.
  std::int32_t tenants = 12;   // 1 to 10 000.
  Duration span = Duration::days(47);
  Timestamp begin = Timestamp::from_seconds(1'767'571'200);  // Monday 2026-01-05.
  double load_scale = 1;  // Multiplies run times; 1 asks for about 420 GPUs at the defaults.
  std::uint64_t seed = 1;
};

// The same options give the same trace. FJ-1006 when one is out of range.
Result<Trace> generate_trace(const GenerateOptions& options);

}  // namespace falaj::scheduler::simulate
