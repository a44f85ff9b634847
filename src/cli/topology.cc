// topology.
#include "cli/commands.h"
#include "cli/local_file.h"
#include "scheduler/hwloc.h"

namespace falaj::cli {
namespace {

// "0 1 3" for a set of devices.
std::string devices(std::uint16_t mask) {
  std::string out;
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) out += (out.empty() ? "" : " ") + std::to_string(i);
  }
  return out;
}

}  // namespace

Status show_topology(const std::string& file, OutputFormat format) {
  const std::string text = FALAJ_TRY(read_text(file, 16u << 20));
  const Result<scheduler::HostTopology> host = scheduler::read_hwloc(text);
  if (!host.ok()) return host.error().within(file);
  const scheduler::NodeClass& kind = host->kind;
  Value value = Value::object();
  value["cpus"] = kind.cpu / 1000;
  value["memory_mib"] = kind.memory;
  value["numa_nodes"] = kind.numa_nodes;
  value["gpus"] = Value::array();
  Table table({"GPU", "ADDRESS", "MODEL", "NUMA NODE"});
  for (std::uint32_t i = 0; i < kind.gpus; ++i) {
    Value gpu = Value::object();
    gpu["address"] = host->gpu_addresses[i];
    gpu["model"] = host->gpu_models[i];
    gpu["numa_nodes"] = Value::array();
    std::string near;
    for (std::uint32_t n = 0; n < kind.numa_nodes; ++n) {
      if ((kind.numa_gpus[n] >> i & 1) == 0) continue;
      gpu["numa_nodes"].push(n);
      near += (near.empty() ? "" : " ") + std::to_string(n);
    }
    table.add({std::to_string(i), host->gpu_addresses[i], host->gpu_models[i], near});
    value["gpus"].push(std::move(gpu));
  }
  std::string said = std::to_string(kind.cpu / 1000) + " processors, " +
                     std::to_string(kind.memory) + " MiB, " + std::to_string(kind.numa_nodes) +
                     " NUMA nodes, " + std::to_string(kind.gpus) + " GPUs\n";
  if (!table.empty()) said += table.str();
  value["islands"] = Value::array();
  for (const std::uint16_t island : kind.gpu_islands) {
    value["islands"].push(devices(island));
    said += "near each other: " + devices(island) + "\n";
  }
  print(format, value, said);
  return {};
}

}  // namespace falaj::cli
