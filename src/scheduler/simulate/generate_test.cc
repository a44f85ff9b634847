#include "scheduler/simulate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace falaj::scheduler::simulate {
namespace {

double trace_span(const Trace& trace) {
  return (trace.jobs.back().submit - trace.jobs.front().submit).as_seconds();
}

TEST(Generate, gives_the_same_trace_for_the_same_seed) {
  GenerateOptions options;
  options.jobs = 2000;
  EXPECT_EQ(to_csv(*generate_trace(options)), to_csv(*generate_trace(options)));
  options.seed = 2;
  EXPECT_NE(to_csv(*generate_trace(options)), to_csv(*generate_trace({.jobs = 2000})));
}

// What the first half of the Philly table is like: 41,123 jobs of 47 days.
TEST(Generate, has_the_statistics_of_the_first_half_of_philly) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Trace trace = *generate_trace({.seed = seed});
    std::vector<double> seconds;
    std::map<std::int32_t, double> jobs;
    std::map<std::int32_t, double> gpu_time;
    double sum = 0;
    double all = 0;
    for (const TraceJob& job : trace.jobs) {
      seconds.push_back(job.duration.as_seconds());
      sum += seconds.back();
      all += seconds.back() * job.gpus;
      gpu_time[job.gpus] += seconds.back() * job.gpus;
      ++jobs[job.gpus];
    }
    std::sort(seconds.begin(), seconds.end());
    const auto count = static_cast<double>(trace.jobs.size());
    const auto below = [&](double part) { return seconds[static_cast<std::size_t>(part * count)]; };
    const auto like = [&](double found, double philly, double within, const std::string& what) {
      EXPECT_NEAR(found, philly, within * philly) << what << ", seed " << seed;
    };
    like(below(0.1), 63, 0.2, "p10 of run times");
    like(below(0.25), 248, 0.25, "p25");
    like(below(0.5), 1832, 0.2, "p50");
    like(below(0.75), 3485, 0.2, "p75");
    like(below(0.9), 10'606, 0.2, "p90");
    like(below(0.95), 26'115, 0.25, "p95");
    like(below(0.99), 221'874, 0.2, "p99");
    like(below(0.999), 1'636'393, 0.3, "p99.9");
    like(sum / count, 13'094, 0.2, "mean");
    like(jobs[1] / count, 0.9551, 0.01, "jobs of one GPU");
    like(jobs[8] / count, 0.0132, 0.1, "jobs of eight");
    like(gpu_time[1] / all, 0.175, 0.2, "GPU time of single ones");
    like(gpu_time[4] / all, 0.149, 0.25, "GPU time of gangs of four");
    like(gpu_time[8] / all, 0.535, 0.2, "GPU time of gangs of eight");
    like(all / trace_span(trace), 421, 0.2, "GPUs that it asks for");
  }
}

TEST(Generate, has_one_large_tenant_and_busy_afternoons) {
  const Trace trace = *generate_trace({});
  std::map<std::uint32_t, int> tenants;
  std::map<std::int64_t, int> hours;
  for (const TraceJob& job : trace.jobs) {
    ++tenants[job.tenant];
    ++hours[job.submit.nanos / 3'600'000'000'000 % 24];
  }
  EXPECT_EQ(trace.jobs.size(), 40'000u);
  EXPECT_NEAR(tenants[0] / 40'000.0, 0.63, 0.06);
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
