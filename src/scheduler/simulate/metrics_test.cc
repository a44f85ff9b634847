#include "scheduler/simulate/metrics.h"

#include <gtest/gtest.h>

#include "scheduler/simulate/baselines.h"
#include "scheduler/simulate/plan.h"
#include "scheduler/simulate/report.h"
#include "scheduler/simulate/testing/small_world.h"

namespace falaj::scheduler::simulate {
namespace {

// Tenant a runs 100 s at once; tenant b waits 100 s and runs 100 s.
Summary two_jobs() {
  const Trace trace = small_trace({{0, 100, 1, 0}, {0, 100, 1, 1}});
  const Scenario scenario = small_scenario(1, 1);
  return summarise("strict", trace, scenario.fleet, replay(trace, scenario, *strict_fifo()));
}

TEST(Metrics, count_what_a_person_would_count) {
  const Summary s = two_jobs();
  EXPECT_EQ(s.jobs, 2);
  EXPECT_DOUBLE_EQ(s.jct.mean, 150);
  EXPECT_DOUBLE_EQ(s.jct.p99, 200);
  EXPECT_DOUBLE_EQ(s.wait.mean, 50);
  EXPECT_DOUBLE_EQ(s.slowdown.mean, 1.5);
  // 1 and 1/2: (1.5)² / (2 × 1.25).
  EXPECT_DOUBLE_EQ(s.jain, 0.9);
  EXPECT_NEAR(s.cost, 200.0 / 3600 * 2, 1e-9);
  EXPECT_NEAR(s.energy_kwh, 200.0 / 3600 * 0.3, 1e-9);
  ASSERT_EQ(s.tenants.size(), 2u);
  EXPECT_DOUBLE_EQ(s.tenants[1].wait_mean, 100);
  EXPECT_EQ(s.large_jobs, 0);
}

TEST(Metrics, bound_the_slowdown_of_very_short_jobs) {
  const Trace trace = small_trace({{0, 100, 1}, {0, 1, 1}});
  const Scenario scenario = small_scenario(1, 1);
  const Summary s = summarise("x", trace, scenario.fleet, replay(trace, scenario, *strict_fifo()));
  EXPECT_NEAR(s.slowdown.p99, 101.0 / kSlowdownFloorSeconds, 1e-9);
}

TEST(Plan, names_who_waits_longer_and_what_breaks) {
  const Summary before = two_jobs();
  Summary after = before;
  after.policy = "next";
  after.jct.mean *= 1.2;
  after.tenants[0].jct_mean *= 2;
  after.tenants[0].wait_mean += 500;
  after.preemptions_per_job = 3;
  const Plan plan = compare(before, after, {});
  EXPECT_EQ(plan.tenants[0].tenant, after.tenants[0].name);
  ASSERT_EQ(plan.broken.size(), 4u);
  EXPECT_EQ(plan.broken[0], "the mean completion time grows by 20.0 %, more than 5.0 %");
  EXPECT_NE(plan.broken[1].find("tenant"), std::string::npos);
  EXPECT_NE(plan.broken[2].find("the mean wait of tenant"), std::string::npos);
  EXPECT_NE(plan.broken[3].find("preempted 3.00 times"), std::string::npos);
  EXPECT_TRUE(compare(before, before, {}).broken.empty());
}

TEST(Report, is_one_file_without_links_and_escapes_names) {
  Summary s = two_jobs();
  s.policy = "<script>alert(1)</script>";
  const std::string html = html_report({"A & B", "50 % <b>"}, {s, two_jobs()}, "strict");
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_NE(html.find("A &amp; B"), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace falaj::scheduler::simulate
