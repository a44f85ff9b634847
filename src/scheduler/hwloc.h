// scheduler/hwloc.h — what a machine looks like inside, from the XML that hwloc writes
// (`lstopo --of xml`, hwloc 2): processors, memory, GPUs, and which of them are near each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/snapshot.h"

namespace falaj::scheduler {

struct HostTopology {
  // cpu, memory, gpus, gpu_islands, numa_nodes and numa_gpus are filled in. The flavor, prices and
  // labels are the administrator's; gpu_memory is known only when the file tells it.
  NodeClass kind;
  // By device: bit i of every mask is the i-th GPU in the order of PCI addresses, which is what
  // CUDA_DEVICE_ORDER=PCI_BUS_ID counts by.
  std::vector<std::string> gpu_addresses;
  std::vector<std::string> gpu_models;  // "" where the file does not tell.
};

// A PCI device is a GPU when it is a 3D controller or one of its parts is a CUDA, NVML, RSMI or
// Level Zero device; a plain display adapter is not. Islands are the GPUs below one PCI bridge, and
// those that hang together by NVLink of at least some bandwidth, for each bandwidth that occurs.
// kInvalidArgument, with the line or the thing, for what is no such file, and for more GPUs or NUMA
// nodes than a Snapshot can hold. Pure; cost: one pass.
Result<HostTopology> read_hwloc(std::string_view xml);

}  // namespace falaj::scheduler
