// Any bytes: a machine within the limits of a snapshot, or an error.
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "scheduler/hwloc.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::scheduler;
  const auto host = read_hwloc({reinterpret_cast<const char*>(data), size});
  if (!host.ok()) return 0;
  const NodeClass& kind = host->kind;
  const unsigned all = (1U << kind.gpus) - 1;
  FALAJ_CHECK(kind.gpus <= kMaxDevices && host->gpu_addresses.size() == kind.gpus);
  FALAJ_CHECK(kind.cpu > 0 && kind.memory >= 0 && kind.gpu_memory >= 0);
  FALAJ_CHECK(kind.numa_nodes >= 1 && kind.numa_nodes <= kMaxNumaNodes);
  for (const std::uint16_t mask : kind.numa_gpus) FALAJ_CHECK((mask & ~all) == 0);
  for (const std::uint16_t mask : kind.gpu_islands) {
    FALAJ_CHECK((mask & ~all) == 0 && std::popcount(mask) >= 2);
  }
  return 0;
}
