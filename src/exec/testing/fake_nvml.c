// A stand-in for NVIDIA's libnvidia-ml.so.1, for tests on machines without a GPU: two devices,
// which it counts in the other order than their files are numbered. With FAKE_NVML=no-driver it
// finds no driver; with FAKE_NVML=cut it says nothing of how busy they are, as of a GPU that is cut
// into instances.
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kDriverNotLoaded = 9 };

struct device {
  unsigned minor;
  unsigned percent;
  unsigned long long used;
};
static struct device devices[] = {{1, 80, 3ULL << 30}, {0, 25, 1ULL << 30}};

struct utilization {
  unsigned gpu;
  unsigned memory;
};
struct memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

static int is_set(const char* mode) {
  const char* set = getenv("FAKE_NVML");
  return set != NULL && strcmp(set, mode) == 0;
}

int nvmlInit_v2(void) { return is_set("no-driver") ? kDriverNotLoaded : kSuccess; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = sizeof devices / sizeof devices[0];
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device** out) {
  if (index >= sizeof devices / sizeof devices[0]) return kInvalidArgument;
  *out = &devices[index];
  return kSuccess;
}

int nvmlDeviceGetMinorNumber(const struct device* device, unsigned* out) {
  *out = device->minor;
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(const struct device* device, struct utilization* out) {
  if (is_set("cut")) return kNotSupported;
  out->gpu = device->percent;
  out->memory = 1;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(const struct device* device, struct memory* out) {
  out->total = 8ULL << 30;
  out->used = device->used;
  out->free = out->total - out->used;
  return kSuccess;
}
