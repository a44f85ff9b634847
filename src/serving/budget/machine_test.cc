#include "serving/budget/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace falaj::serving::budget {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;

// A folder that looks like a machine of 8 processors and 16 GiB.
class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) / (std::string("machine-") + info->name());
    std::filesystem::remove_all(root_);
    write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  Machine machine() const { return this_machine(places()); }
  Places places() const { return {root_.string(), 8}; }

  std::filesystem::path root_;
};

TEST_F(MachineTest, without_control_groups_all_of_it_may_be_used) {
  EXPECT_EQ(machine().processors, 8U);
  EXPECT_EQ(machine().memory, 16 * kGi);
  EXPECT_EQ(available_memory(places()), 12 * kGi);
}

TEST_F(MachineTest, the_second_version_limits_it_at_any_level) {
  write("proc/self/cgroup", "0::/pods/falaj\n");
  write("sys/fs/cgroup/pods/falaj/memory.max", "max\n");
  write("sys/fs/cgroup/pods/falaj/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/pods/memory.max", "4294967296\n");
  write("sys/fs/cgroup/pods/memory.current", "3221225472\n");
  write("sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_file 1073741824\n");
  write("sys/fs/cgroup/pods/cpu.max", "250000 100000\n");
  EXPECT_EQ(machine().processors, 3U) << "two and a half";
  EXPECT_EQ(machine().memory, 4 * kGi);
  EXPECT_EQ(available_memory(places()), 2 * kGi) << "files that are cached may go";
}

TEST_F(MachineTest, so_does_the_first_version_with_controllers_mounted_together) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/a\n3:memory:/docker/a\n1:name=systemd:/\n");
  write("sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "805306368\n");
  write("sys/fs/cgroup/memory/docker/a/memory.stat", "total_inactive_file 0\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine().processors, 2U);
  EXPECT_EQ(machine().memory, kGi);
  EXPECT_EQ(available_memory(places()), kGi / 4);
}

TEST_F(MachineTest, in_a_container_that_sees_the_hosts_path_the_mount_is_its_group) {
  write("proc/self/cgroup", "0::/../../kubepods/pod7\n");
  write("sys/fs/cgroup/memory.max", "2147483648\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(machine().processors, 1U);
  EXPECT_EQ(machine().memory, 2 * kGi);
}

TEST_F(MachineTest, a_limit_beyond_the_machine_is_none) {
  write("proc/self/cgroup", "0::/a\n");
  write("sys/fs/cgroup/a/memory.max", "1099511627776\n");
  write("sys/fs/cgroup/a/cpu.max", "6400000 100000\n");
  EXPECT_EQ(machine().processors, 8U);
  EXPECT_EQ(machine().memory, 16 * kGi);
  write("sys/fs/cgroup/a/memory.current", "9999999999999\n");
  EXPECT_EQ(available_memory(places()), 0) << "used up";
}

TEST_F(MachineTest, files_that_make_no_sense_are_no_limits) {
  write("proc/self/cgroup", "nonsense\n0:\n\n0::/a\n");
  write("sys/fs/cgroup/a/memory.max", "");
  write("sys/fs/cgroup/a/cpu.max", "100000 0\n");
  EXPECT_EQ(machine().processors, 8U);
  EXPECT_EQ(machine().memory, 16 * kGi);
  write("proc/meminfo", "");
  EXPECT_EQ(machine().memory, 0) << "nobody says";
  EXPECT_EQ(available_memory(places()), std::numeric_limits<std::int64_t>::max());
}

TEST(ThisMachine, has_a_processor_and_memory) {
  EXPECT_GE(this_machine().processors, 1U);
  EXPECT_GT(this_machine().memory, 0);
  EXPECT_LE(available_memory(), this_machine().memory);
}

}  // namespace
}  // namespace falaj::serving::budget
