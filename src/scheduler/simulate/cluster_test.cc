#include "scheduler/simulate/cluster.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "scheduler/simulate/random.h"

namespace falaj::scheduler::simulate {
namespace {

FleetSpec fleet(std::int32_t nodes, std::int32_t gpus) {
  return {.groups = {{.nodes = nodes, .gpus = gpus}}};
}

TEST(Cluster, puts_a_small_gang_on_the_fullest_node_that_has_room) {
  Cluster cluster(fleet(3, 8));
  cluster.take({{1, 5}});
  cluster.take({{2, 2}});
  EXPECT_EQ(cluster.find(3), (Slots{{1, 3}}));
  EXPECT_EQ(cluster.find(4), (Slots{{2, 4}}));
  EXPECT_EQ(cluster.find(8), (Slots{{0, 8}}));
  EXPECT_EQ(cluster.scattered(), 9);
}

TEST(Cluster, gives_whole_empty_nodes_to_a_large_gang) {
  Cluster cluster(fleet(3, 8));
  EXPECT_EQ(cluster.find(16).size(), 2u);
  EXPECT_EQ(cluster.find(12), (Slots{{0, 8}, {1, 8}}));
  cluster.take({{0, 1}});
  EXPECT_TRUE(cluster.fits(16));
  EXPECT_FALSE(cluster.fits(24));
  EXPECT_TRUE(cluster.find(24).empty());
  EXPECT_TRUE(cluster.could_ever_fit(24));
  EXPECT_FALSE(cluster.could_ever_fit(25));
}

TEST(Cluster, loses_a_node_that_is_down_and_gets_it_back_whole) {
  Cluster cluster(fleet(2, 8));
  cluster.take({{0, 4}});
  cluster.give_back({{0, 4}});
  cluster.set_down(0);
  EXPECT_EQ(cluster.free_total(), 8);
  EXPECT_FALSE(cluster.fits(16));
  cluster.set_up(0);
  EXPECT_TRUE(cluster.fits(16));
}

TEST(Cluster, counts_as_a_plain_scan_does) {
  constexpr std::uint64_t kSeed = 20261116;
  Random random(kSeed);
  Cluster cluster(fleet(5, 8));
  std::vector<std::int32_t> free(5, 8);
  std::vector<Slots> held;
  for (int step = 0; step < 20'000; ++step) {
    const auto gpus = static_cast<std::int32_t>(1 + random.below(20));
    std::int32_t whole = 0;
    std::int32_t most = 0;
    for (const std::int32_t room : free) {
      whole += room == 8 ? 1 : 0;
      most = std::max(most, room);
    }
    const bool expected = gpus <= 8 ? most >= gpus : whole * 8 >= gpus;
    ASSERT_EQ(cluster.fits(gpus), expected) << "seed " << kSeed << " step " << step;
    const Slots slots = cluster.find(gpus);
    ASSERT_EQ(!slots.empty(), expected);
    if (expected && random.below(2) == 0) {
      cluster.take(slots);
      for (const Slot& slot : slots) free[static_cast<std::size_t>(slot.node)] -= slot.gpus;
      held.push_back(slots);
    } else if (!held.empty()) {
      const std::size_t which = random.below(held.size());
      cluster.give_back(held[which]);
      for (const Slot& s : held[which]) free[static_cast<std::size_t>(s.node)] += s.gpus;
      held[which] = held.back();
      held.pop_back();
    }
  }
}

TEST(FleetSpec, is_read_strictly) {
  const auto good = decode_fleet(*parse_json(
      R"({"groups": [{"nodes": 2, "gpus": 8, "price_per_gpu_hour": 1.5}, {"gpus": 4}]})"));
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->gpus(), 20);
  EXPECT_EQ(good->groups[0].micros_per_gpu_hour, 1'500'000);
  EXPECT_FALSE(decode_fleet(*parse_json(R"({"groups": []})")).ok());
  EXPECT_FALSE(decode_fleet(*parse_json(R"({"groups": [{"node": 2}]})")).ok());
  EXPECT_FALSE(decode_fleet(*parse_json(R"({"groups": [{"nodes": 200000}]})")).ok());
  EXPECT_FALSE(decode_fleet(*parse_json(R"({"groups": [{"gpus": 17}]})")).ok());
  EXPECT_FALSE(decode_fleet(*parse_json(R"({"groups": [{"price_per_gpu_hour": -1}]})")).ok());
}

}  // namespace
}  // namespace falaj::scheduler::simulate
