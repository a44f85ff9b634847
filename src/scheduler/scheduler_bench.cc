// How long a decision takes in a large cluster: 10 000 nodes with 80 000 GPUs, 1 000 queues in
// three levels, 100 000 pods that wait, with reasons and start times. Cold: everything waits, the
// cluster is empty. Incremental: the cluster is full, a hundred jobs ended and a hundred came.
// Prints one JSON object.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/time.h"
#include "scheduler/testing/random_world.h"

namespace {

using namespace falaj;
using namespace falaj::scheduler;
using namespace falaj::scheduler::testing;

constexpr Index kNodes = 10'000;
constexpr Index kQueues = 1'000;
constexpr std::uint32_t kPods = 100'000;

void add_queues(Snapshot& s) {
  add_queue(s, "all", kAbsent, 0);
  for (Index i = 0; i < 30; ++i) add_queue(s, "org" + std::to_string(i), 0, 0);
  while (s.queues.size() < kQueues) {
    const auto i = static_cast<Index>(s.queues.size());
    add_queue(s, "team" + std::to_string(i), 1 + i % 30, 82);
    s.queues.back().quotas[0].flavor = i % 2 == 0 ? kA100 : kH100;
    s.queues.back().quotas.push_back({i % 2 == 0 ? kH100 : kA100, 0, kUnlimited, kUnlimited});
  }
}

// Mostly small ones; gangs within a rack, some instances and fractions, two models to choose from.
void add_shapes(Snapshot& s) {
  const std::uint32_t sizes[][2] = {{1, 1}, {1, 1}, {1, 2}, {1, 4},
                                    {1, 8}, {2, 8}, {4, 8}, {16, 4}};
  for (const auto& size : sizes) {
    for (const Index model : {kA100, kH100}) {
      Shape& shape = s.shapes[add_shape(s, size[0], size[1])];
      shape.groups[0].gpu.models = {model};
      if (s.shapes.size() % 3 == 0) shape.groups[0].gpu.models.push_back(5 - model);
      if (size[0] > 1) shape.required = Level::kBlock;
      if (s.shapes.size() % 5 == 0) shape.data_zones = {0b01};
      if (size[1] == 1 && s.shapes.size() < 3) shape.groups[0].gpu.mig = MigProfile::k3g;
    }
  }
}

// `single`: every pod is a job of its own.
Snapshot large(Dice& dice, bool single) {
  Snapshot s = cluster(kNodes);
  s.classes.push_back(s.classes[0]);
  s.classes[1].gpu_flavor = kH100;
  s.classes[1].mig = MigGeometry::kH100;
  for (Index i = 0; i < kNodes; ++i) {
    s.nodes[i].node_class = i / 40 % 2;
    s.nodes[i].zone = i / 5200;
    s.nodes[i].domain = {i / 4, i / 40, i / 400};
  }
  add_queues(s);
  add_shapes(s);
  std::uint32_t pods = 0;
  for (std::uint64_t id = 1; pods < kPods; ++id) {
    Job job = random_job(dice, s, id, kNow);
    job.queue = static_cast<Index>(dice.in(31, kQueues - 1));
    if (single) job.shape %= 10;
    job.array = kAbsent;
    job.cost_cap = kUnlimited;
    job.unmet_dependencies = 0;
    pods += s.shapes[job.shape].groups[0].min;
    s.jobs.push_back(job);
  }
  return s;
}

struct Timing {
  std::vector<double> seconds;
  std::uint64_t pods = 0;
  double worst() const { return *std::max_element(seconds.begin(), seconds.end()); }
  double median() const { return quantile(50); }
  double quantile(std::size_t percent) const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
  }
};

std::uint64_t waiting_pods(const Snapshot& s) {
  std::uint64_t pods = 0;
  for (const Job& job : s.jobs) {
    if (job.state == JobState::kPending) pods += s.shapes[job.shape].groups[0].min;
  }
  return pods;
}

Decisions timed(const Snapshot& s, const Policy& policy, Timestamp now, const Budget& budget,
                Timing& timing) {
  timing.pods += waiting_pods(s);
  const std::int64_t begin = monotonic_nanos();
  Decisions d = decide(s, policy, now, budget);
  timing.seconds.push_back(static_cast<double>(monotonic_nanos() - begin) * 1e-9);
  return d;
}

}  // namespace

int main(int argc, char** argv) {
  const int cycles = argc > 1 ? std::atoi(argv[1]) : 20;
  Budget budget;
  budget.threads = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1;
  Dice dice(7);
  const bool single = argc > 3 && std::atoi(argv[3]) != 0;
  Snapshot s = large(dice, single);
  Policy policy;
  Timing cold;
  Timing warm;
  Timestamp now = kNow;
  Decisions d = timed(s, policy, now, budget, cold);
  const std::size_t started = d.admit.size();
  std::uint64_t next_id = 10'000'000;
  for (int i = 0; i < cycles; ++i) {
    apply(s, d, now);
    leave(s);
    now = now + Duration::minutes(1);
    for (int k = 0; k < 100; ++k) {
      Job& job = s.jobs[dice.roll() % s.jobs.size()];
      const Index queue = job.queue;
      job = random_job(dice, s, next_id++, now);
      job.queue = queue;
      if (single) job.shape %= 10;
      job.array = kAbsent;
      job.cost_cap = kUnlimited;
      job.unmet_dependencies = 0;
    }
    d = timed(s, policy, now, budget, warm);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  double total = 0;
  for (const double seconds : warm.seconds) total += seconds;
  std::printf(
      "{\"nodes\": %u, \"gpus\": %u, \"queues\": %u, \"pods\": %u, \"threads\": %u, "
      "\"jobs\": %zu, \"started_cold\": %zu, \"cold_s\": %.3f, \"cold_pods_per_s\": %.0f, "
      "\"cycles\": %d, \"cycle_median_s\": %.3f, \"cycle_p99_s\": %.3f, \"cycle_worst_s\": %.3f, "
      "\"pods_per_s\": %.0f, \"preempted_last\": %zu, \"rss_mb\": %ld}\n",
      kNodes, kNodes * 8, kQueues, kPods, budget.threads, s.jobs.size(), started, cold.worst(),
      static_cast<double>(cold.pods) / cold.worst(), cycles, warm.median(), warm.quantile(99),
      warm.worst(), static_cast<double>(warm.pods) / total, d.preempt.size(),
      usage.ru_maxrss / 1024);
  return 0;
}
