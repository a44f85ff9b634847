#include "scheduler/hwloc.h"

#include <gtest/gtest.h>

namespace falaj::scheduler {
namespace {

using Masks = std::vector<std::uint16_t>;

// One GPU as hwloc writes it; `index` is that of its CUDA part.
std::string gpu(const std::string& address, int index, const std::string& pci_type = "0302") {
  return R"(<object type="PCIDev" gp_index=")" + std::to_string(index + 100) + R"(" pci_busid=")" +
         address + R"(" pci_type=")" + pci_type +
         R"( [10de:20b2] [10de:1463] a1"><info name="PCIVendor" value="NVIDIA &amp; Co"/>
            <object type="OSDev" gp_index=")" +
         std::to_string(index) + R"(" name="cuda" subtype="CUDA" osdev_type="5">
              <info name="GPUModel" value="A100-SXM4-80GB"/>
              <info name="CUDAGlobalMemorySize" value="83886080"/></object></object>)";
}

std::string bridge(const std::string& inner) {
  return R"(<object type="Bridge" bridge_type="1-1">)" + inner + "</object>";
}

// A socket with two processors, a NUMA node of 64 GiB and what hangs on it.
std::string socket(int number, const std::string& devices) {
  const std::string set = number == 0 ? "0x00000001" : "0x00000002";
  const std::string own = std::to_string(number);
  return R"(<object type="Package" os_index=")" + own + R"(" nodeset=")" + set + R"(">
    <object type="NUMANode" os_index=")" +
         own + R"(" nodeset=")" + set +
         R"(" local_memory="68719476736"><page_type size="4096" count="9"/></object>
    <object type="Core" nodeset=")" +
         set + R"("><object type="PU" os_index="0"/>
      <object type="PU" os_index="1"/></object>)" +
         devices + "</object>";
}

std::string machine(const std::string& inside, const std::string& links = "") {
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<!-- made for a test -->
<topology version="2.0"><object type="Machine" os_index="0" nodeset="0x00000003">)" +
         inside + "</object>" + links + "</topology>\n";
}

// Four GPUs, two below each of two switches, not in the order of their addresses.
std::string four(const std::string& links = "") {
  return machine(socket(0, bridge(bridge(gpu("0000:47:00.0", 11) + gpu("0000:07:00.0", 10)))) +
                     socket(1, bridge(gpu("0000:87:00.0", 12)) + bridge(gpu("0000:c7:00.0", 13))),
                 links);
}

TEST(Hwloc, reads_processors_memory_and_gpus_with_their_numa_nodes) {
  const auto host = read_hwloc(four());
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->kind.cpu, 4000);
  EXPECT_EQ(host->kind.memory, 128 * 1024);
  EXPECT_EQ(host->kind.gpus, 4U);
  EXPECT_EQ(host->kind.gpu_memory, 80 * 1024);
  EXPECT_EQ(host->kind.numa_nodes, 2U);
  EXPECT_EQ(host->kind.numa_gpus[0], 0b0011);
  EXPECT_EQ(host->kind.numa_gpus[1], 0b1100);
  EXPECT_EQ(host->gpu_addresses, (std::vector<std::string>{"0000:07:00.0", "0000:47:00.0",
                                                           "0000:87:00.0", "0000:c7:00.0"}));
  EXPECT_EQ(host->gpu_models[3], "A100-SXM4-80GB");
}

TEST(Hwloc, gpus_below_one_bridge_are_an_island) {
  EXPECT_EQ(read_hwloc(four())->kind.gpu_islands, (Masks{0b0011}));
}

TEST(Hwloc, nvlink_makes_islands_for_each_bandwidth) {
  // Twice the links between 0–1 and 2–3, single ones across.
  const std::string links = R"(<distances2 type="OSDev" nbobjs="4" kind="35"
      name="NVLinkBandwidth" indexing="gp"><indexes length="6">10 11 </indexes>
    <indexes length="5">12 13</indexes>
    <u64values length="40">1000000 50000 25000 25000 50000 1000000 25000 25000</u64values>
    <u64values length="40">25000 25000 1000000 50000 25000 25000 50000 1000000</u64values>
    </distances2>)";
  EXPECT_EQ(read_hwloc(four(links))->kind.gpu_islands, (Masks{0b0011, 0b1100, 0b1111}));
}

TEST(Hwloc, a_switch_between_gpus_joins_them) {
  const std::string links = R"(<distances2 name="NVLinkBandwidth" indexing="gp">
    <indexes length="6">10 12 99</indexes>
    <u64values length="9">0 0 25000 0 0 25000 25000 25000 0</u64values></distances2>)";
  EXPECT_EQ(read_hwloc(four(links))->kind.gpu_islands, (Masks{0b0011, 0b0101}));
}

TEST(Hwloc, a_display_adapter_is_no_gpu_and_a_compute_part_makes_one) {
  const std::string display =
      R"(<object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0" pci_type="0300 [1a03:2000]">
         <object type="OSDev" name="card0" subtype="" osdev_type="1"/></object>)";
  const auto host = read_hwloc(machine(socket(0, display + gpu("0000:03:00.0", 5, "0380"))));
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->gpu_addresses, (std::vector<std::string>{"0000:03:00.0"}));
  EXPECT_EQ(host->kind.numa_gpus[0], 1);
  EXPECT_TRUE(host->kind.gpu_islands.empty());
}

TEST(Hwloc, refuses_what_a_snapshot_cannot_hold) {
  std::string many;
  for (int i = 0; i < 17; ++i) many += gpu("0000:" + std::to_string(10 + i) + ":00.0", i);
  EXPECT_NE(read_hwloc(machine(socket(0, many))).error().message.find("17 GPUs"),
            std::string::npos);
  std::string nodes;
  for (int i = 0; i < 5; ++i) {
    nodes += R"(<object type="NUMANode" os_index=")" + std::to_string(i) + R"("/>)";
  }
  EXPECT_NE(read_hwloc(machine(socket(0, nodes))).error().message.find("5 NUMA nodes"),
            std::string::npos);
}

TEST(Hwloc, refuses_what_is_no_such_file) {
  const std::string good = four();
  for (const std::string& bad : std::vector<std::string>{
           "", "text", "<a/>", "<topology></topology>", "<topology><object></topology>",
           "<topology>&bomb;</topology>", "<topology a='1' a='2'/>", "<topology a=1/>",
           "<!DOCTYPE t [<!ENTITY a 'b'>]><topology/>", good + "<topology/>",
           good.substr(0, good.size() / 2)}) {
    const auto host = read_hwloc(bad);
    ASSERT_FALSE(host.ok()) << bad;
    EXPECT_EQ(host.error().code, Code::kInvalidArgument);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  EXPECT_NE(read_hwloc(deep).error().message.find("too deep"), std::string::npos);
}

}  // namespace
}  // namespace falaj::scheduler
