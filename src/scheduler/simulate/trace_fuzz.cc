// Any bytes: a trace or an error, within the limits, and what is read survives being written.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "scheduler/simulate/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::scheduler::simulate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = parse_trace(text, {.rows_max = 1000});
  if (!trace.ok()) return 0;
  FALAJ_CHECK(trace->jobs.size() <= 1000 && !trace->jobs.empty());
  for (const TraceJob& job : trace->jobs) {
    FALAJ_CHECK(job.gpus >= 1 && job.duration.nanos > 0 && job.tenant < trace->tenants.size());
  }
  const auto again = parse_trace(to_csv(*trace));
  FALAJ_CHECK(again.ok() && again->jobs.size() == trace->jobs.size());
  return 0;
}
