#include "exec/internal/gpu_meter.h"

#include <dlfcn.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"

namespace falaj::exec::internal {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr unsigned kDevicesMax = 32;  // As many as a mask has bits.

// The few of NVML's functions that are needed, declared as its manual has them: each returns 0 when
// it succeeded.
using Handle = void*;
struct Utilization {
  unsigned gpu;  // Percent of the last moment in which something ran on it.
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

class Nvml {
 public:
  // Nothing when the library is not there, is another one, or finds no driver.
  static std::optional<Nvml> load(const std::string& path) {
    // Never unloaded: drivers' libraries leave threads and exit handlers behind.
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::nullopt;
    Nvml out;
    int (*init)() = nullptr;
    const bool whole = find(library, "nvmlInit_v2", init) &&
                       find(library, "nvmlDeviceGetCount_v2", out.count_) &&
                       find(library, "nvmlDeviceGetHandleByIndex_v2", out.by_index_) &&
                       find(library, "nvmlDeviceGetMinorNumber", out.minor_) &&
                       find(library, "nvmlDeviceGetUtilizationRates", out.utilization_) &&
                       find(library, "nvmlDeviceGetMemoryInfo", out.memory_);
    if (!whole || init() != 0) return std::nullopt;
    out.find_devices();
    return out;
  }

  GpuUse look(unsigned number) const {
    GpuUse use;
    const auto at = devices_.find(number);
    if (at == devices_.end()) return use;
    Utilization busy{};
    if (utilization_(at->second, &busy) == 0) use.milli = std::int64_t{busy.gpu} * 10;
    Memory held{};
    if (memory_(at->second, &held) == 0) use.memory_bytes = static_cast<std::int64_t>(held.used);
    return use;
  }

 private:
  template <class Function>
  static bool find(void* library, const char* name, Function& out) {
    out = reinterpret_cast<Function>(::dlsym(library, name));
    return out != nullptr;
  }

  // The library counts devices as they lie on the bus, which need not be the number of their file.
  void find_devices() {
    unsigned count = 0;
    if (count_(&count) != 0) return;
    for (unsigned i = 0; i < count && i < kDevicesMax; ++i) {
      Handle device = nullptr;
      unsigned number = 0;
      if (by_index_(i, &device) == 0 && minor_(device, &number) == 0) devices_[number] = device;
    }
  }

  int (*count_)(unsigned*) = nullptr;
  int (*by_index_)(unsigned, Handle*) = nullptr;
  int (*minor_)(Handle, unsigned*) = nullptr;
  int (*utilization_)(Handle, Utilization*) = nullptr;
  int (*memory_)(Handle, Memory*) = nullptr;
  std::map<unsigned, Handle> devices_;  // By N of /dev/nvidiaN.
};

}  // namespace

GpuMeter::~GpuMeter() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuMeter::watch(std::uint32_t devices) {
  {
    MutexLock lock(mutex_);
    if (devices == watched_) return;
    watched_ = devices;
    std::erase_if(seen_, [&](const auto& each) { return (devices >> each.first & 1U) == 0; });
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

GpuUse GpuMeter::use_of(std::uint32_t devices) const {
  if (devices == 0) return {};
  GpuUse sum{0, 0};
  const auto add = [](std::int64_t& to, std::int64_t more) {
    to = to < 0 || more < 0 ? -1 : to + more;
  };
  MutexLock lock(mutex_);
  for (unsigned i = 0; i < kDevicesMax; ++i) {
    if ((devices >> i & 1U) == 0) continue;
    const auto at = seen_.find(i);
    const GpuUse use = at == seen_.end() ? GpuUse{} : at->second;
    add(sum.milli, use.milli);
    add(sum.memory_bytes, use.memory_bytes);
  }
  return sum;
}

void GpuMeter::run() {
  const std::optional<Nvml> nvml = Nvml::load(library_);
  if (!nvml) {
    log::info("GPUs are not measured: the driver's library cannot be used",
              {{"library", library_}});
    return;
  }
  while (true) {
    std::uint32_t devices = 0;
    {
      MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return over_ || watched_ != 0; });
      if (over_) return;
      devices = watched_;
    }
    std::map<unsigned, GpuUse> seen;
    for (unsigned i = 0; i < kDevicesMax; ++i) {
      if ((devices >> i & 1U) != 0) seen[i] = nvml->look(i);
    }
    MutexLock lock(mutex_);
    if (devices == watched_) seen_ = std::move(seen);
    changed_.wait_for(mutex_, kBetweenLooks, [this, devices]() FALAJ_REQUIRES(mutex_) {
      return over_ || watched_ != devices;
    });
  }
}

}  // namespace falaj::exec::internal
