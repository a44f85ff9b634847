// topology.
#include <algorithm>
#include <cctype>
#include <set>

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

Value device_list(std::uint16_t mask) {
  Value out = Value::array();
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) out.push(i);
  }
  return out;
}

// "NVIDIA A100-SXM4-80GB" as a name: nvidia-a100-sxm4-80gb.
std::string as_name(const std::string& text) {
  std::string out;
  for (const char each : text.substr(0, 63)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_';
    if (plain) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && (out.back() == '-' || out.back() == '_')) out.pop_back();
  while (!out.empty() && out.front() == '_') out.erase(0, 1);
  return out;
}

// What the file tells of a Node; a model only when all GPUs say the same. A Node has GPUs of one
// model.
Result<Value> node_object(const scheduler::HostTopology& host) {
  const scheduler::NodeClass& kind = host.kind;
  std::set<std::string> models;
  for (const std::string& model : host.gpu_models) models.insert(as_name(model));
  models.erase("");
  if (models.size() > 1) {
    return Error(Code::kInvalidArgument, "it has GPUs of several models (" + *models.begin() +
                                             ", " + *models.rbegin() + "), and a Node has one");
  }
  const bool all_tell = std::ranges::count(host.gpu_models, "") == 0;
  Value node = Value::object();
  node["kind"] = "Node";
  node["metadata"]["name"] = "local";
  node["spec"] = Value::object();
  if (kind.gpus > 0) {
    Value& gpu = node["spec"]["gpu"];
    gpu = Value::object();
    if (models.size() == 1 && all_tell) gpu["model"] = *models.begin();
    if (kind.gpu_memory > 0) gpu["memory"] = std::to_string(kind.gpu_memory) + "Mi";
    for (const std::uint16_t island : kind.gpu_islands) gpu["islands"].push(device_list(island));
  }
  for (std::uint32_t n = 0; n < kind.numa_nodes; ++n) {
    node["spec"]["numa"].push(device_list(kind.numa_gpus[n]));
  }
  return node;
}

}  // namespace

Status show_topology(const std::string& file, TopologyAs as, OutputFormat format) {
  const std::string text = FALAJ_TRY(read_text(file, 16u << 20));
  const Result<scheduler::HostTopology> host = scheduler::read_hwloc(text);
  if (!host.ok()) return host.error().within(file);
  if (as == TopologyAs::kNode) {
    const Result<Value> node = node_object(*host);
    if (!node.ok()) return node.error().within(file);
    print(format == OutputFormat::kTable ? OutputFormat::kYaml : format, *node, "");
    return {};
  }
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
