#include "scheduler/submit.h"

#include <gtest/gtest.h>

#include "scheduler/testing/cluster.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

struct Submit : ::testing::Test {
  Submit() : s(cluster(2)) { queue = add_queue(s, "risk", kAbsent, 16); }
  Reason of(Index shape) { return never_starts(s, Policy{}, add_job(s, queue, shape)); }
  Snapshot s;
  Index queue;
};

TEST_F(Submit, lets_in_what_fits_into_an_empty_cluster_though_it_is_full) {
  const Index shape = add_shape(s, 2, 8);
  const Index runs = add_job(s, queue, shape);
  s.jobs[runs].state = JobState::kRunning;
  s.jobs[runs].placement = {{2}, {{0, 0xff}, {1, 0xff}}};
  s.nodes[0].health = NodeHealth::kDown;
  EXPECT_EQ(of(shape).code, ReasonCode::kNone);
}

TEST_F(Submit, refuses_more_gpus_than_exist) {
  EXPECT_EQ(of(add_shape(s, 1, 9)).code, ReasonCode::kTooLarge);
  EXPECT_EQ(of(add_shape(s, 3, 8)).code, ReasonCode::kTooLarge);
}

TEST_F(Submit, refuses_a_zone_that_no_node_has) {
  const Index shape = add_shape(s, 1, 1);
  s.shapes[shape].data_zones = {0b01, 0b10};
  const Reason reason = of(shape);
  EXPECT_EQ(reason.code, ReasonCode::kZone);
  EXPECT_EQ(reason.subject, 1U);
}

TEST_F(Submit, refuses_a_model_that_no_node_has_and_takes_the_second_choice) {
  const Index shape = add_shape(s, 1, 1);
  s.shapes[shape].groups[0].gpu.models = {kH100};
  EXPECT_EQ(of(shape).code, ReasonCode::kDevice);
  s.shapes[shape].groups[0].gpu.models = {kH100, kA100};
  EXPECT_EQ(of(shape).code, ReasonCode::kNone);
}

TEST_F(Submit, refuses_more_than_the_quota_will_ever_allow) {
  s.queues[queue].quotas[0].nominal = 4000;
  const Reason reason = of(add_shape(s, 1, 6));
  EXPECT_EQ(reason.code, ReasonCode::kQuota);
  EXPECT_EQ(reason.missing, 2000);
}

TEST_F(Submit, refuses_what_costs_more_than_its_cap) {
  const Index job = add_job(s, queue, add_shape(s, 1, 1), 0, Duration::hours(2));
  s.jobs[job].cost_cap = 3'000'000;
  EXPECT_EQ(never_starts(s, Policy{}, job).code, ReasonCode::kCostCap);
}

}  // namespace
}  // namespace falaj::scheduler
