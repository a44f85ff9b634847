#include "scheduler/hwloc.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "scheduler/internal/xml.h"

namespace falaj::scheduler {
namespace {

constexpr std::size_t kLinksMax = 128;  // Objects of one matrix: GPUs and switches.

Error wrong(const std::string& what) { return {Code::kInvalidArgument, "hwloc: " + what}; }

std::string_view text_of(const XmlAttributes& attributes, std::string_view key) {
  const auto at = attributes.find(key);
  return at == attributes.end() ? std::string_view{} : std::string_view(at->second);
}

std::optional<std::uint64_t> number_of(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || read.ec != std::errc{} || read.ptr != text.data() + text.size()) return {};
  return value;
}

// The lowest 32 of a set such as "0x00000003" or "0xf,0xffffffff".
std::uint32_t low_bits(std::string_view set) {
  set = set.substr(set.rfind(',') + 1);
  if (set.starts_with("0x")) set.remove_prefix(2);
  return static_cast<std::uint32_t>(number_of(set, 16).value_or(0));
}

std::vector<std::uint64_t> numbers_of(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  while (!text.empty() && numbers.size() <= kLinksMax * kLinksMax) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(begin);
    const std::size_t length = std::min(text.find_first_of(" \t\r\n"), text.size());
    if (length > 0) numbers.push_back(number_of(text.substr(0, length)).value_or(0));
    text.remove_prefix(length);
  }
  return numbers;
}

struct Gpu {
  std::string address;
  std::string model;
  std::uint32_t numa = 0;            // A bit per NUMA node that is near.
  std::int64_t memory = 0;           // MiB.
  std::vector<std::size_t> bridges;  // Positions of those above it.
  std::vector<std::uint64_t> parts;  // gp_index of itself and what hangs on it.
};

// A matrix of bandwidths between objects.
struct Links {
  std::vector<std::uint64_t> objects;
  std::vector<std::uint64_t> values;
};

class Machine {
 public:
  Status read(std::string_view xml) {
    XmlHandler handler;
    handler.begin = [this](std::string_view name, const XmlAttributes& a) {
      return begin(name, a);
    };
    handler.end = [this](std::string_view name) { return end(name); };
    handler.text = [this](std::string_view text) {
      if (text_.size() + text.size() <= 1u << 20) text_ += text;
      return Status{};
    };
    FALAJ_TRY(read_xml(xml, handler));
    if (!topology_) return wrong("there is no topology in it");
    if (processors_ == 0) return wrong("it has no processors");
    return {};
  }

  Result<HostTopology> describe() {
    if (gpus_.size() > kMaxDevices) {
      return wrong(std::to_string(gpus_.size()) + " GPUs; at most " + std::to_string(kMaxDevices) +
                   " can be told apart");
    }
    if (numa_nodes_.size() > kMaxNumaNodes) {
      return wrong(std::to_string(numa_nodes_.size()) + " NUMA nodes; at most " +
                   std::to_string(kMaxNumaNodes) + " can be told apart");
    }
    std::sort(gpus_.begin(), gpus_.end(),
              [](const Gpu& a, const Gpu& b) { return a.address < b.address; });
    HostTopology host;
    host.kind.cpu = processors_ * 1000;
    host.kind.memory = memory_ >> 20;
    host.kind.gpus = static_cast<std::uint32_t>(gpus_.size());
    host.kind.numa_nodes =
        std::max<std::uint32_t>(1, static_cast<std::uint32_t>(numa_nodes_.size()));
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      host.gpu_addresses.push_back(gpus_[i].address);
      host.gpu_models.push_back(gpus_[i].model);
      const std::int64_t memory = gpus_[i].memory;
      host.kind.gpu_memory = i == 0 ? memory : std::min(host.kind.gpu_memory, memory);
      near(i, host.kind);
    }
    host.kind.gpu_islands = islands();
    return host;
  }

 private:
  struct Open {
    bool object = false;
    std::string numa;  // The nodes near it, as it says or as the one above says.
    std::optional<std::size_t> bridge;
    bool device = false;  // A PCI device: what hangs on it is its own.
    std::optional<std::size_t> gpu;
  };

  Status begin(std::string_view name, const XmlAttributes& attributes) {
    Open open = stack_.empty() ? Open{} : stack_.back();
    open.object = name == "object";
    text_.clear();
    if (name == "topology") topology_ = true;
    if (open.object) FALAJ_TRY(object(attributes, open));
    if (name == "info" && open.gpu) info(attributes, gpus_[*open.gpu]);
    if (name == "distances2") {
      links_now_ = text_of(attributes, "name") == "NVLinkBandwidth";
      if (links_now_) links_.emplace_back();
    }
    stack_.push_back(std::move(open));
    return {};
  }

  Status object(const XmlAttributes& attributes, Open& open) {
    const std::string_view type = text_of(attributes, "type");
    const std::string_view near = text_of(attributes, "nodeset");
    if (!near.empty()) open.numa = near;
    if (type == "PU") ++processors_;
    if (type == "NUMANode") {
      numa_nodes_.insert(number_of(text_of(attributes, "os_index")).value_or(0));
      const auto bytes = number_of(text_of(attributes, "local_memory")).value_or(0);
      memory_ += static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, 1ULL << 50));
    }
    if (processors_ > 65'536 || numa_nodes_.size() > 1024) return wrong("it is too large");
    if (type == "Bridge") open.bridge = add_bridge(open);
    if (type == "PCIDev") device(attributes, open);
    if (type == "OSDev" && open.device) part(attributes, open);
    return {};
  }

  std::size_t add_bridge(const Open& open) {
    above_.push_back(open.bridge);
    return above_.size() - 1;
  }

  void device(const XmlAttributes& attributes, Open& open) {
    open.device = true;
    open.gpu.reset();
    candidate_ = Gpu{};
    candidate_.address = text_of(attributes, "pci_busid");
    candidate_.numa = low_bits(open.numa);
    for (auto at = open.bridge; at; at = above_[*at]) candidate_.bridges.push_back(*at);
    candidate_.parts = {number_of(text_of(attributes, "gp_index")).value_or(0)};
    if (text_of(attributes, "pci_type").starts_with("0302")) accept(open);
  }

  void part(const XmlAttributes& attributes, Open& open) {
    static const std::set<std::string_view> kCompute = {"CUDA", "NVML", "RSMI", "LevelZero"};
    // Opened by the device above, whose entry on the stack knows whether it is a GPU already.
    if (!open.gpu && kCompute.contains(text_of(attributes, "subtype"))) {
      accept(open);
      for (Open& each : stack_) {
        if (each.device) each.gpu = open.gpu;
      }
    }
    if (!open.gpu) return;
    gpus_[*open.gpu].parts.push_back(number_of(text_of(attributes, "gp_index")).value_or(0));
  }

  void accept(Open& open) {
    gpus_.push_back(candidate_);
    open.gpu = gpus_.size() - 1;
  }

  static void info(const XmlAttributes& attributes, Gpu& gpu) {
    const std::string_view key = text_of(attributes, "name");
    const std::string_view value = text_of(attributes, "value");
    if (key == "GPUModel") gpu.model = value;
    if (key == "CUDAGlobalMemorySize") {  // KiB.
      gpu.memory = static_cast<std::int64_t>(number_of(value).value_or(0) >> 10);
    }
  }

  Status end(std::string_view name) {
    if (!stack_.empty()) stack_.pop_back();
    if (links_now_ && name == "indexes") append(links_.back().objects);
    if (links_now_ && name == "u64values") append(links_.back().values);
    if (name == "distances2") links_now_ = false;
    text_.clear();
    return {};
  }

  // hwloc breaks long lists into several elements.
  void append(std::vector<std::uint64_t>& list) const {
    const std::vector<std::uint64_t> more = numbers_of(text_);
    if (list.size() + more.size() > kLinksMax * kLinksMax) return;
    list.insert(list.end(), more.begin(), more.end());
  }

  void near(std::size_t gpu, NodeClass& kind) const {
    std::size_t position = 0;
    for (const std::uint64_t node : numa_nodes_) {
      const bool only = numa_nodes_.size() == 1;
      if (only || (node < 32 && (gpus_[gpu].numa >> node & 1U) != 0)) {
        kind.numa_gpus[position] = static_cast<std::uint16_t>(kind.numa_gpus[position] | 1U << gpu);
      }
      ++position;
    }
  }

  std::vector<std::uint16_t> islands() const {
    std::set<std::uint16_t> found;
    std::map<std::size_t, std::uint16_t> below;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      for (const std::size_t bridge : gpus_[i].bridges) {
        below[bridge] = static_cast<std::uint16_t>(below[bridge] | 1U << i);
      }
    }
    for (const auto& [bridge, mask] : below) found.insert(mask);
    for (const Links& links : links_) add_linked(links, found);
    std::erase_if(found, [](std::uint16_t mask) { return std::popcount(mask) < 2; });
    std::vector<std::uint16_t> sorted(found.begin(), found.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](std::uint16_t a, std::uint16_t b) {
      return std::popcount(a) < std::popcount(b);
    });
    return sorted;
  }

  // For each bandwidth that occurs, who hangs together by links of at least that.
  void add_linked(const Links& links, std::set<std::uint16_t>& found) const {
    const std::size_t n = links.objects.size();
    if (n < 2 || n > kLinksMax || links.values.size() != n * n) return;
    std::set<std::uint64_t> bandwidths;
    for (std::size_t i = 0; i < n * n; ++i) {
      if (i / n != i % n && links.values[i] > 0) bandwidths.insert(links.values[i]);
    }
    if (bandwidths.size() > kMaxDevices) return;  // Measured ones would all differ: no levels.
    for (const std::uint64_t least : bandwidths) {
      std::vector<std::size_t> group(n);
      std::iota(group.begin(), group.end(), std::size_t{0});
      for (std::size_t i = 0; i < n * n; ++i) {
        const std::size_t from = group[i / n];
        const std::size_t to = group[i % n];
        if (links.values[i] >= least) std::replace(group.begin(), group.end(), from, to);
      }
      std::map<std::size_t, std::uint16_t> masks;
      for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t& mask = masks[group[i]];
        mask = static_cast<std::uint16_t>(mask | mask_of(links.objects[i]));
      }
      for (const auto& [representative, mask] : masks) found.insert(mask);
    }
  }

  std::uint16_t mask_of(std::uint64_t part) const {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const auto& parts = gpus_[i].parts;
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) continue;
      return static_cast<std::uint16_t>(1U << i);
    }
    return 0;  // A switch.
  }

  bool topology_ = false;
  std::vector<Open> stack_;
  std::string text_;
  std::int64_t processors_ = 0;
  std::int64_t memory_ = 0;
  std::set<std::uint64_t> numa_nodes_;
  std::vector<std::optional<std::size_t>> above_;  // Of each bridge, the one above it.
  Gpu candidate_;                                  // The PCI device that is being read.
  std::vector<Gpu> gpus_;
  bool links_now_ = false;
  std::vector<Links> links_;
};

}  // namespace

Result<HostTopology> read_hwloc(std::string_view xml) {
  Machine machine;
  FALAJ_TRY(machine.read(xml));
  return machine.describe();
}

}  // namespace falaj::scheduler
