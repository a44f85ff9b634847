#include "scheduler/simulate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace falaj::scheduler::simulate {
namespace {

TEST(Generate, gives_the_same_trace_for_the_same_seed) {
  GenerateOptions options;
  options.jobs = 2000;
  EXPECT_EQ(to_csv(*generate_trace(options)), to_csv(*generate_trace(options)));
  options.seed = 2;
  EXPECT_NE(to_csv(*generate_trace(options)), to_csv(*generate_trace({.jobs = 2000})));
}

TEST(Generate, looks_like_a_shared_cluster) {
  const Trace trace = *generate_trace({});
  std::vector<double> seconds;
  std::map<std::uint32_t, int> tenants;
  std::map<std::int64_t, int> hours;
  double sum = 0;
  double gpu_seconds = 0;
  double gang_seconds = 0;
  int single = 0;
  for (const TraceJob& job : trace.jobs) {
    seconds.push_back(job.duration.as_seconds());
    sum += seconds.back();
    gpu_seconds += seconds.back() * job.gpus;
    if (job.gpus >= 8) gang_seconds += seconds.back() * job.gpus;
    if (job.gpus == 1) ++single;
    ++tenants[job.tenant];
    ++hours[job.submit.nanos / 3'600'000'000'000 % 24];
  }
  std::sort(seconds.begin(), seconds.end());
  const auto count = static_cast<double>(trace.jobs.size());
  EXPECT_EQ(trace.jobs.size(), 40'000u);
  EXPECT_NEAR(single / count, 0.95, 0.02);
  EXPECT_GT(seconds[seconds.size() / 2], 600) << "median";
  EXPECT_LT(seconds[seconds.size() / 2], 3000) << "median";
  EXPECT_GT(sum / count, 2 * 3600) << "mean";
  EXPECT_LT(sum / count, 6 * 3600) << "mean";
  EXPECT_GT(gang_seconds / gpu_seconds, 0.35);
  EXPECT_LT(gang_seconds / gpu_seconds, 0.75);
  EXPECT_GT(tenants[0] / count, 0.35);
  EXPECT_EQ(tenants.size(), 12u);
  EXPECT_GT(hours[14], hours[3] * 2);
  EXPECT_TRUE(
      std::is_sorted(trace.jobs.begin(), trace.jobs.end(),
                     [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; }));
}

TEST(Generate, refuses_what_it_cannot_make) {
  EXPECT_FALSE(generate_trace({.jobs = 0}).ok());
  EXPECT_FALSE(generate_trace({.jobs = 10, .tenants = 0}).ok());
  EXPECT_FALSE(generate_trace({.jobs = 10, .span = Duration::seconds(1)}).ok());
}

}  // namespace
}  // namespace falaj::scheduler::simulate
