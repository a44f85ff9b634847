#include "scheduler/fleet.h"

#include <gtest/gtest.h>

#include <bit>

#include "scheduler/mig.h"
#include "scheduler/testing/random_world.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

TEST(Mig, places_profiles_only_where_nvidia_does) {
  EXPECT_EQ(mig_start(MigProfile::k7g, 0), 0);
  EXPECT_EQ(mig_start(MigProfile::k7g, 1), 0xff);
  EXPECT_EQ(mig_start(MigProfile::k3g, 0), 4);
  EXPECT_EQ(mig_start(MigProfile::k4g, 0xf0), 0);
  EXPECT_EQ(mig_start(MigProfile::k4g, 0x01), 0xff);
  EXPECT_EQ(mig_start(MigProfile::k1g, 0x7f), 0xff);  // Slice 7 is no beginning.
  EXPECT_EQ(mig_start(MigProfile::k1gDouble, 0x3f), 6);
}

TEST(Mig, fills_a_gpu_as_the_tables_of_combinations_say) {
  const std::vector<std::pair<MigProfile, int>> most = {
      {MigProfile::k1g, 7}, {MigProfile::k1gDouble, 4}, {MigProfile::k2g, 3},
      {MigProfile::k3g, 2}, {MigProfile::k4g, 1},       {MigProfile::k7g, 1}};
  for (const auto& [profile, expected] : most) {
    std::uint8_t used = 0;
    int count = 0;
    for (std::uint8_t at; (at = mig_start(profile, used)) != 0xff; ++count) {
      used = static_cast<std::uint8_t>(used | mig_slices(profile, at));
    }
    EXPECT_EQ(count, expected) << to_string(profile);
  }
}

// Any set of instances that does not overlap in memory stays within seven compute slices.
TEST(Mig, needs_no_count_of_compute_slices) {
  constexpr int kCompute[] = {0, 1, 1, 2, 3, 4, 7};
  const std::function<void(std::uint8_t, int)> fill = [&](std::uint8_t used, int compute) {
    ASSERT_LE(compute, 7);
    for (int p = 1; p <= 6; ++p) {
      const auto profile = static_cast<MigProfile>(p);
      for (std::uint32_t at = 0; at < 8; ++at) {
        const std::uint8_t bits = mig_slices(profile, at);
        if ((mig_shape(profile).starts >> at & 1U) == 0 || (bits & used) != 0) continue;
        fill(static_cast<std::uint8_t>(used | bits), compute + kCompute[p]);
      }
    }
  };
  fill(0, 0);
}

TEST(Fleet, takes_gpus_of_one_island) {
  const Snapshot s = cluster(1);
  TaskGroup group;
  group.gpu.count = 2;
  NodeState state = empty_state(s.classes[0], kUnlimited);
  state.whole = 0b1110'1001;  // Two left in the lower island, three in the upper.
  const auto pod = fit(state, s.classes[0], group);
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->gpus, 0b0000'1001);
}

TEST(Fleet, shares_a_gpu_that_is_shared_already) {
  const Snapshot s = cluster(1);
  TaskGroup group;
  group.gpu.count = 1;
  group.gpu.fraction = 400;
  NodeState state = empty_state(s.classes[0], kUnlimited);
  std::vector<std::uint16_t> devices;
  for (int i = 0; i < 3; ++i) {
    auto pod = fit(state, s.classes[0], group);
    ASSERT_TRUE(pod);
    devices.push_back(pod->gpus);
    take(state, s.classes[0], group, *pod);
  }
  EXPECT_EQ(devices[0], devices[1]);
  EXPECT_NE(devices[1], devices[2]);
}

TEST(Fleet, binds_to_one_numa_node_or_refuses) {
  const Snapshot s = cluster(1);
  TaskGroup group;
  group.one_numa_node = 1;
  group.cpu = 20'000;
  group.gpu.count = 3;
  NodeState state = empty_state(s.classes[0], kUnlimited);
  for (int i = 0; i < 2; ++i) {
    auto pod = fit(state, s.classes[0], group);
    ASSERT_TRUE(pod);
    EXPECT_EQ(pod->gpus & ~s.classes[0].numa_gpus[pod->numa], 0);
    take(state, s.classes[0], group, *pod);
  }
  group.gpu.count = 2;  // Two are left, but not on one side.
  group.cpu = 0;
  EXPECT_FALSE(fit(state, s.classes[0], group));
}

TEST(Fleet, keeps_within_the_power_cap) {
  const Snapshot s = cluster(1);
  TaskGroup group;
  group.gpu.count = 1;
  EXPECT_EQ(fit_count(empty_state(s.classes[0], 1000), s.classes[0], group, 8), 2U);
}

TEST(Fleet, a_cap_that_is_overdrawn_keeps_out_only_who_takes_power) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "all", kAbsent, 8);
  const Index runs = add_job(s, queue, add_shape(s, 1, 4));
  s.jobs[runs].state = JobState::kRunning;
  s.jobs[runs].placement = {{1}, {{0, 0x0f}}};
  s.jobs[runs].started = kNow - Duration::hours(1);
  s.nodes[0].power_cap = 1000;  // Four take 1600.
  const Index cpu = add_job(s, queue, add_shape(s, 1, 0));
  const Index gpu = add_job(s, queue, add_shape(s, 1, 1));
  const Decisions d = decide(s, Policy{}, kNow, Budget{});
  EXPECT_EQ(faults(s, Policy{}, kNow, d), std::vector<std::string>{});
  EXPECT_TRUE(starts(d, cpu));
  EXPECT_FALSE(starts(d, gpu));
}

TEST(Fleet, gives_back_exactly_what_was_taken) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Dice dice(seed);
    const NodeClass c = random_class(dice);
    NodeState state = empty_state(c, dice.one_in(2) ? kUnlimited : 900);
    const NodeState empty = state;
    std::vector<std::pair<TaskGroup, PodPlacement>> pods;
    for (int i = 0; i < 12; ++i) {
      const TaskGroup group = random_shape(dice).groups[0];
      const std::uint32_t count = fit_count(state, c, group, 20);
      const auto pod = fit(state, c, group);
      ASSERT_EQ(pod.has_value(), count > 0);
      if (!pod) continue;
      ASSERT_TRUE(fits_at(state, c, group, *pod));
      take(state, c, group, *pod);
      pods.emplace_back(group, *pod);
    }
    while (!pods.empty()) {
      const auto at = static_cast<std::ptrdiff_t>(dice.roll() % pods.size());
      give(state, c, pods[static_cast<std::size_t>(at)].first,
           pods[static_cast<std::size_t>(at)].second);
      pods.erase(pods.begin() + at);
    }
    ASSERT_EQ(state, empty) << seed;
  }
}

}  // namespace
}  // namespace falaj::scheduler
