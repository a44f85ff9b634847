// exec/internal/gpu_meter.h — how busy NVIDIA's devices are, as their driver's own library (NVML)
// tells. It is loaded when the first device is to be watched; a machine without it has no figures.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace falaj::exec::internal {

// Of several devices together. -1: the driver does not say, for one of them at least.
struct GpuUse {
  std::int64_t milli = -1;  // 1,500: one and a half of them were busy, of late.
  std::int64_t memory_bytes = -1;
  bool operator==(const GpuUse&) const = default;
};

// Thread-safe. The library may take its time (a second and more to start), so it is asked on a
// thread of its own, twice a second while there is something to watch.
class GpuMeter {
 public:
  explicit GpuMeter(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // Which are to be looked at from now on: bit N is /dev/nvidiaN. 0: none. Does not wait.
  void watch(std::uint32_t devices);
  // What they did when they were last looked at, with all that runs on them. Does not wait.
  GpuUse use_of(std::uint32_t devices) const;

 private:
  void run();

  const std::string library_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint32_t watched_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool over_ FALAJ_GUARDED_BY(mutex_) = false;
  std::map<unsigned, GpuUse> seen_ FALAJ_GUARDED_BY(mutex_);  // By N.
  std::thread thread_;                                        // From the first watch() on.
};

}  // namespace falaj::exec::internal
