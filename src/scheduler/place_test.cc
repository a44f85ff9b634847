#include "scheduler/place.h"

#include <gtest/gtest.h>

#include "scheduler/testing/cluster.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

struct Place : ::testing::Test {
  Place() : s(cluster(8)) {}
  // Occupies `gpus` GPUs of a node.
  void use(Site& site, Index node, std::uint32_t gpus) {
    TaskGroup group;
    group.gpu.count = gpus;
    NodeState state = site.at(node);
    const auto pod = fit(state, s.classes[0], group);
    ASSERT_TRUE(pod);
    take(state, s.classes[0], group, *pod);
    site.set(node, state);
  }
  std::optional<Placement> place(const Site& site, Index shape) {
    const Topology topology(s);
    Placer placer(s, topology);
    rules = shape_rules(s, s.shapes[shape]);
    Gang gang;
    gang.shape = &s.shapes[shape];
    gang.rules = &rules;
    for (const TaskGroup& group : gang.shape->groups) gang.counts.push_back(group.min);
    gang.end = gang.gone = kNow;
    return placer.place(site, gang).placement;
  }
  std::set<Index> nodes(const std::optional<Placement>& placement) {
    std::set<Index> out;
    if (placement) {
      for (const PodPlacement& pod : placement->pods) out.insert(pod.node);
    }
    return out;
  }
  Snapshot s;
  ShapeRules rules;
};

TEST_F(Place, puts_a_pod_on_the_fullest_node_that_has_room) {
  Site site(s);
  use(site, 2, 5);
  use(site, 5, 7);
  EXPECT_EQ(nodes(place(site, add_shape(s, 1, 1))), std::set<Index>{5});
  EXPECT_EQ(nodes(place(site, add_shape(s, 1, 2))), std::set<Index>{2});
}

TEST_F(Place, keeps_a_gang_in_the_smallest_domain_that_has_room) {
  Site site(s);
  EXPECT_EQ(nodes(place(site, add_shape(s, 4, 2))).size(), 1U);
  for (Index n = 0; n < 4; ++n) use(site, n, 1);
  // Two whole nodes: 4 and 5, or 6 and 7, are one NVLink domain.
  const auto pair = nodes(place(site, add_shape(s, 2, 8)));
  EXPECT_TRUE(pair == (std::set<Index>{4, 5}) || pair == (std::set<Index>{6, 7}));
  EXPECT_EQ(nodes(place(site, add_shape(s, 4, 8))), (std::set<Index>{4, 5, 6, 7}));
  EXPECT_TRUE(nodes(place(site, add_shape(s, 5, 8))).empty());
}

TEST_F(Place, leaves_a_broken_rack_for_small_gangs) {
  Site site(s);
  use(site, 4, 8);
  const Index pair = add_shape(s, 2, 8);
  EXPECT_EQ(nodes(place(site, pair)), (std::set<Index>{6, 7}));  // Rack 0 stays whole.
}

TEST_F(Place, refuses_what_does_not_fit_into_the_required_domain) {
  Site site(s);
  const Index shape = add_shape(s, 5, 8);
  EXPECT_EQ(nodes(place(site, shape)).size(), 5U);
  s.shapes[shape].required = Level::kRack;
  EXPECT_TRUE(nodes(place(site, shape)).empty());
  s.shapes[shape].groups[0].min = 4;
  EXPECT_EQ(nodes(place(site, shape)).size(), 4U);
}

TEST_F(Place, spreads_when_told_to) {
  Site site(s);
  const Index shape = add_shape(s, 3, 1);
  s.shapes[shape].groups[0].max_per_node = 1;
  EXPECT_EQ(nodes(place(site, shape)).size(), 3U);
}

TEST_F(Place, stays_in_the_zone_of_the_data) {
  for (Index n = 4; n < 8; ++n) s.nodes[n].zone = 1;
  Site site(s);
  const Index shape = add_shape(s, 1, 8);
  s.shapes[shape].data_zones = {0b10};
  EXPECT_GE(*nodes(place(site, shape)).begin(), 4U);
  s.shapes[shape].data_zones = {0b10, 0b01};
  EXPECT_TRUE(nodes(place(site, shape)).empty());
  EXPECT_EQ(rules.never.code, ReasonCode::kZone);
  EXPECT_EQ(rules.never.subject, 1U);
}

TEST_F(Place, puts_different_groups_together) {
  Site site(s);
  const Index shape = add_shape(s, 2, 4);
  TaskGroup helper;
  helper.cpu = 4000;
  s.shapes[shape].groups.push_back(helper);
  EXPECT_EQ(nodes(place(site, shape)).size(), 1U);
}

TEST_F(Place, prefers_nodes_without_gpu_for_pods_without) {
  NodeClass plain;
  plain.cpu = 4000;
  plain.memory = 8192;
  s.classes.push_back(plain);
  s.nodes[6].node_class = 1;
  Site site(s);
  EXPECT_EQ(nodes(place(site, add_shape(s, 1, 0))), std::set<Index>{6});
}

TEST_F(Place, says_what_rule_forbids_a_shape) {
  const Index shape = add_shape(s, 1, 9);
  EXPECT_EQ(shape_rules(s, s.shapes[shape]).never.code, ReasonCode::kTooLarge);
  s.shapes[shape].groups[0].gpu.models = {kH100};
  EXPECT_EQ(shape_rules(s, s.shapes[shape]).never.code, ReasonCode::kDevice);
  const Index labelled = add_shape(s, 1, 1);
  s.shapes[labelled].labels_required = 1;
  EXPECT_EQ(shape_rules(s, s.shapes[labelled]).never.code, ReasonCode::kLabel);
}

TEST_F(Place, keeps_its_sums_while_nodes_change) {
  Site site(s);
  EXPECT_EQ(site.free_gpus(Level::kRack, 0), 32);
  use(site, 1, 3);
  EXPECT_EQ(site.free_gpus(Level::kRack, 0), 29);
  EXPECT_EQ(site.free_gpus(Level::kRack, 1), 32);
  EXPECT_EQ(site.bucket(0, 5).size(), 1U);
  EXPECT_EQ(site.bucket(0, 8).size(), 7U);
}

}  // namespace
}  // namespace falaj::scheduler
