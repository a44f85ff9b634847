#include "exec/internal/gpu_meter.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "exec/testing/processes.h"

namespace falaj::exec::internal {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr char kFakeLibrary[] = FALAJ_FAKE_NVML "/libnvidia-ml.so.1";

class GpuMeterTest : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("FAKE_NVML"); }
  // What it says of these devices once it has looked at them.
  static GpuUse seen(GpuMeter& meter, std::uint32_t devices) {
    meter.watch(devices);
    testing::Bell bell;
    EXPECT_TRUE(bell.wait_until([&] { return meter.use_of(devices).memory_bytes >= 0; }));
    return meter.use_of(devices);
  }
};

TEST_F(GpuMeterTest, tells_devices_by_the_number_of_their_file) {
  GpuMeter meter(kFakeLibrary);
  EXPECT_EQ(seen(meter, 0b01), (GpuUse{250, kGi}));
  EXPECT_EQ(seen(meter, 0b10), (GpuUse{800, 3 * kGi}));
  EXPECT_EQ(meter.use_of(0b01), GpuUse{}) << "no longer looked at";
  EXPECT_EQ(seen(meter, 0b11), (GpuUse{1050, 4 * kGi}));
  EXPECT_EQ(meter.use_of(0), GpuUse{});
}

TEST_F(GpuMeterTest, does_not_add_up_what_it_does_not_know) {
  GpuMeter meter(kFakeLibrary);
  meter.watch(0b101);
  testing::Bell bell;
  EXPECT_TRUE(bell.wait_until([&] { return meter.use_of(0b001).milli == 250; }));
  EXPECT_EQ(meter.use_of(0b101), GpuUse{}) << "there is no third device";
}

TEST_F(GpuMeterTest, tells_the_memory_of_devices_whose_work_is_not_told) {
  ::setenv("FAKE_NVML", "cut", 1);
  GpuMeter meter(kFakeLibrary);
  EXPECT_EQ(seen(meter, 0b01), (GpuUse{-1, kGi}));
}

// The destructor waits for the thread, which has given up by then.
TEST_F(GpuMeterTest, has_no_figures_without_library_or_driver) {
  {
    GpuMeter meter("libno-such-library.so.1");
    meter.watch(1);
    EXPECT_EQ(meter.use_of(1), GpuUse{});
  }
  ::setenv("FAKE_NVML", "no-driver", 1);
  GpuMeter meter(kFakeLibrary);
  meter.watch(1);
  meter.watch(2);
  EXPECT_EQ(meter.use_of(2), GpuUse{});
}

}  // namespace
}  // namespace falaj::exec::internal
