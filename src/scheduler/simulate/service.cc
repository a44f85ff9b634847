#include <algorithm>
#include <utility>

#include "scheduler/simulate/baselines.h"
#include "scheduler/simulate/preemptive.h"

namespace falaj::scheduler::simulate {
namespace {

Duration service(Duration time, std::int32_t gpus) { return {time.nanos * gpus}; }

class LeastAttainedService final : public PreemptiveStrategy {
 public:
  explicit LeastAttainedService(LasOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return options_.name; }

  // A running job is called upon when it falls to the next level.
  Timestamp wake(const World& world) const override {
    Timestamp next = Timestamp::max();
    for (const JobIndex job : world.running()) {
      const std::size_t at = level(world, job);
      if (at >= options_.level_ends.size()) continue;
      const std::int32_t gpus = world.spec(job).gpus;
      const Duration until = options_.level_ends[at] - service(world.held(job), gpus);
      next = std::min(next, world.now() + Duration{(until.nanos + gpus - 1) / gpus});
    }
    return next;
  }

 protected:
  Turn rank(const World& world, JobIndex job) const override {
    // Within a level by submission, as if the queue were sorted once a pass.
    return {.major = static_cast<std::int64_t>(level(world, job)), .minor = 0, .job = job};
  }

 private:
  std::size_t level(const World& world, JobIndex job) const {
    const Duration attained = service(world.held(job), world.spec(job).gpus);
    std::size_t at = 0;
    while (at < options_.level_ends.size() && attained >= options_.level_ends[at]) ++at;
    return at;
  }

  LasOptions options_;
};

class ShortestRemainingService final : public PreemptiveStrategy {
 public:
  std::string_view name() const override { return "srsf_oracle"; }

 protected:
  Turn rank(const World& world, JobIndex job) const override {
    const Duration remaining = service(world.left(job), world.spec(job).gpus);
    return {.major = remaining.nanos, .minor = 0, .job = job};
  }
};

}  // namespace

LasOptions las_decades() {
  return {.name = "las_decades",
          .level_ends = {Duration::minutes(10), Duration::hours(1), Duration::hours(10),
                         Duration::hours(100)}};
}

std::unique_ptr<Strategy> least_attained_service(const LasOptions& options) {
  return std::make_unique<LeastAttainedService>(options);
}
std::unique_ptr<Strategy> shortest_remaining_service_oracle() {
  return std::make_unique<ShortestRemainingService>();
}

}  // namespace falaj::scheduler::simulate
